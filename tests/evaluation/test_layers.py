"""Table 1's layers compared with PyTorch's, counts with its counter, paths with formulas derived by hand."""

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from transformer.evaluation.layers import LAYERS, _connected, _Recurrent, _Restricted, _SelfAttention
from transformer.model.cost import COSTS, growth, multiply_adds
from transformer.report.tables.cells import read_printed

PAPER = Path(__file__).parents[2] / "workflow/paper/table1.csv"
SIZES = {"n": 13, "d": 6, "k": 3, "r": 5}


def x() -> torch.Tensor:
    return torch.randn(SIZES["n"], SIZES["d"])


@pytest.mark.parametrize("r", [1, 2, 5, 25])
def test_restricted_attention_is_full_attention_under_a_band(r):
    """The band reaches from r // 2 before a position to (r - 1) // 2 after it, or covers the whole sequence."""
    after = torch.arange(13) - torch.arange(13)[:, None]
    band = (after >= -(r // 2)) & (after <= (r - 1) // 2)
    inputs = x()
    full = F.scaled_dot_product_attention(*[inputs[None, None]] * 3, attn_mask=band)
    torch.testing.assert_close(_Restricted(r)(inputs), full[0, 0])


def test_projected_attention_is_pytorchs():
    ours, inputs = _SelfAttention(6, projected=True), x()
    theirs = torch.nn.MultiheadAttention(6, 1, bias=False)
    theirs.in_proj_weight.data = torch.cat([projection.weight for projection in ours.inputs])
    theirs.out_proj.weight.data = ours.output.weight
    torch.testing.assert_close(ours(inputs), theirs(inputs, inputs, inputs, need_weights=False)[0])


def test_recurrent_layer_is_its_steps_in_a_chain():
    """The path length of a recurrent layer assumes this."""
    layer, inputs, states = _Recurrent(6, 6), x(), [torch.zeros(1, 6)]
    for step in inputs:
        states.append(layer(step[None], states[-1]))
    torch.testing.assert_close(layer(inputs), torch.cat(states[1:]))


@pytest.mark.parametrize("name", COSTS)
def test_multiply_adds_are_half_the_flops_that_pytorch_counts(name):
    layer = LAYERS[name](SIZES["d"], SIZES["k"], SIZES["r"], 0)
    with FlopCounterMode(display=False) as counter:
        layer(x())
    assert counter.get_total_flops() == 2 * multiply_adds(COSTS[name], SIZES)


def test_separable_convolution_with_the_widest_kernel_costs_as_much_as_attention_and_a_feed_forward_layer():
    """§4 states this for k = n, up to constants: attention multiplies twice."""
    sizes = SIZES | {"k": 2 * SIZES["n"]}
    products = multiply_adds(COSTS["Self-Attention"], sizes) + sizes["n"] * sizes["d"] ** 2
    assert multiply_adds(COSTS["Convolutional, separable"], sizes) == products


def test_growth_is_that_of_the_papers_complexity():
    complexities = read_printed(PAPER).set_index("layer")["complexity"]
    assert (complexities != "").sum() == 5
    for layer, complexity in complexities[complexities != ""].items():
        printed = dict(re.findall(r"\b([nd])\b(?:\^(\d))?", complexity))
        assert {size: growth(COSTS[layer], size) for size in "nd"} == {
            n: int(power or 1) for n, power in printed.items()
        }


@pytest.mark.parametrize(("k", "r"), [(2, 4), (3, 5)])
@pytest.mark.parametrize("n", [2, 9, 10, 28])
def test_paths_are_as_long_as_by_hand(n, k, r):
    """The farthest pair is n - 1 apart. A convolution reaches k - 1 back; L dilated ones cover k^L positions.

    Restricted attention reaches (r - 1) // 2 forward, its shorter direction.
    """
    dilated = next(L for L in range(1, 9) if k**L >= n)
    expected = {
        "Self-Attention": (1, 1),
        "Recurrent": (1, n),
        "Convolutional": (dilated, dilated),
        "Self-Attention (restricted)": (math.ceil((n - 1) / ((r - 1) // 2)),) * 2,
        "Convolutional, contiguous kernels": (math.ceil((n - 1) / (k - 1)),) * 2,
        "Convolutional, separable": (dilated, dilated),
        "Self-Attention with projections": (1, 1),
        "Self-Attention, additive": (1, 1),
    }
    found = {name: _connected(name, n, k, r, d=3) for name in LAYERS}
    assert {name: (stack["layers"], stack["path"]) for name, stack in found.items()} == expected


@pytest.mark.parametrize("name", LAYERS)
def test_only_a_recurrent_layers_operators_wait_longer_the_longer_the_sequence(name):
    """Each position adds the same number of operators."""
    chains = [_connected(name, n, 3, 5, d=3)["sequential"] for n in (4, 5, 8)]
    each = chains[1] - chains[0]
    assert chains[2] - chains[1] == 3 * each
    assert (each > 0) == (name == "Recurrent")
