"""Table 1: layers against PyTorch's own, counts against its counter, paths against formulas worked by hand."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from support.scored import cells, further, make_table, read_csv
from torch.utils.flop_counter import FlopCounterMode

from transformer.commands import measure
from transformer.files import InputError
from transformer.report.tables.costs import COSTS, LAYER_TYPES, growth, multiply_adds
from transformer.report.tables.layers import LAYERS, Projected, Recurrent, Restricted
from transformer.report.tables.paths import connections
from transformer.report.tables.table1 import power

PAPER = Path(__file__).parents[3] / "workflow" / "paper" / "table1.csv"
SIZES = {"n": 13, "d": 6, "k": 3, "r": 5}
GRID = {"--lengths": "2 4 8", "--widths": "2 3 5", "--paths": "2 5 9", "--length": "4", "--width": "3"}
OPTIONS = GRID | {"--k": "3", "--r": "3", "--seconds": "1e-4"}


def x() -> torch.Tensor:
    return torch.randn(SIZES["n"], SIZES["d"])


@pytest.mark.parametrize("r", [1, 2, 5, 25])
def test_restricted_attention_is_full_attention_under_a_band(r):
    """From r // 2 before a position to (r - 1) // 2 after it; wider than the sequence, all of it."""
    after = torch.arange(13) - torch.arange(13)[:, None]
    band = (after >= -(r // 2)) & (after <= (r - 1) // 2)
    inputs = x()
    full = F.scaled_dot_product_attention(*[inputs[None, None]] * 3, attn_mask=band)
    torch.testing.assert_close(Restricted(r)(inputs), full[0, 0])


def test_projected_attention_is_pytorchs():
    ours, inputs = Projected(6), x()
    theirs = torch.nn.MultiheadAttention(6, 1, bias=False)
    theirs.in_proj_weight.data = torch.cat([projection.weight for projection in ours.inputs])
    theirs.out_proj.weight.data = ours.output.weight
    torch.testing.assert_close(ours(inputs), theirs(inputs, inputs, inputs, need_weights=False)[0])


def test_recurrent_layer_is_its_steps_in_a_chain():
    """The path through it rests on this."""
    layer, inputs, states = Recurrent(6, 6), x(), [torch.zeros(1, 6)]
    for step in inputs:
        states.append(layer(step[None], states[-1]))
    torch.testing.assert_close(layer(inputs), torch.cat(states[1:]))


@pytest.mark.parametrize("name", COSTS)
def test_multiply_adds_are_half_the_flops_that_pytorch_counts(name):
    layer = LAYERS[name](SIZES["d"], SIZES["k"], SIZES["r"], 0)
    with FlopCounterMode(display=False) as counter:
        layer(x())
    assert counter.get_total_flops() == 2 * multiply_adds(COSTS[name], SIZES)


@pytest.mark.parametrize("row", [row for row in read_csv(PAPER) if row["complexity"]], ids=lambda row: row["layer"])
def test_growth_is_that_of_the_papers_complexity(row):
    printed = dict(re.findall(r"\b([nd])\b(?:\^(\d))?", row["complexity"]))
    assert {size: growth(COSTS[row["layer"]], size) for size in "nd"} == {
        size: int(exponent or 1) for size, exponent in printed.items()
    }


@pytest.mark.parametrize(("k", "r"), [(2, 4), (3, 5)])
@pytest.mark.parametrize("n", [2, 9, 10, 28])
def test_paths_are_as_long_as_by_hand(n, k, r):
    """The farthest pair is n - 1 apart. A convolution goes k - 1 back; L dilated ones see k^L positions.

    Restricted attention goes (r - 1) // 2 forth, the shorter way.
    """
    dilated = next(L for L in range(1, 9) if k**L >= n)
    expected = {
        "Self-Attention": (1, 1),
        "Recurrent": (1, n),
        "Convolutional": (dilated, dilated),
        "Self-Attention (restricted)": (math.ceil((n - 1) / ((r - 1) // 2)),) * 2,
        "Convolutional, contiguous kernels": (math.ceil((n - 1) / (k - 1)),) * 2,
        "Self-Attention with projections": (1, 1),
        "Self-Attention, additive": (1, 1),
    }
    lengths = {
        name: connections(lambda level, make=make: make(3, k, r, level), n, 3)[:2] for name, make in LAYERS.items()
    }
    assert lengths == expected


@pytest.mark.parametrize("name", LAYER_TYPES)
def test_only_a_recurrent_layers_operators_wait_longer_the_longer_the_sequence(name):
    """Each position adds as many operators."""
    chains = [connections(lambda level: LAYERS[name](3, 3, 5, level), n, 3).sequential for n in (4, 5, 8)]
    each = chains[1] - chains[0]
    assert chains[2] - chains[1] == 3 * each
    assert (each > 0) == (name == "Recurrent")


def test_power_of_a_power_law_whose_small_sizes_are_overhead():
    sizes = pd.Series([1, 2, 4, 8, 16, 32, 64])
    values = (5 * sizes**1.5).where(sizes >= 8, 700.0)
    assert power(sizes, values) == pytest.approx((1.5, 1.5, 1.5))
    with pytest.raises(InputError, match=r"two sizes or more in the larger half, found \[4\]"):
        power(pd.Series([4]), pd.Series([1.0]))


def test_powers_are_the_same_whatever_the_last_bits():
    """Processors differ in these, and the record's table must be the same on all."""
    sizes, seconds = pd.Series([64, 128, 256, 512]), pd.Series([0.0011, 0.0013, 0.0047, 0.0181])
    for direction in (0, np.inf):
        other = pd.Series(np.nextafter(seconds, direction))
        assert not other.equals(seconds)
        assert power(sizes, other) == power(sizes, seconds)


def test_power_between_neighbours_worked_by_hand():
    """Through 2^3, 2^4 and 2^7 at 2, 4 and 8, the slopes are 1 and 3, and that of least squares is 2."""
    assert power(pd.Series([4, 1, 2]), pd.Series([128.0, 8.0, 16.0])) == pytest.approx((3, 3, 3))  # the larger half
    assert power(pd.Series([1, 1, 2, 4, 8]), pd.Series([1.0, 1.0, 8.0, 16.0, 128.0])) == pytest.approx((2, 1, 3))


@pytest.fixture(scope="module")
def layers(tmp_path_factory) -> Path:
    """The file that the measure stage writes for tiny layers."""
    path = tmp_path_factory.mktemp("measured") / "layers.json"
    measure.main([*arguments(OPTIONS), "--output", str(path)])
    return path


def arguments(options: dict[str, str]) -> list[str]:
    return [word for option, values in options.items() for word in (option, *values.split())]


def make(measured: dict, folder: Path, paper: Path = PAPER) -> tuple[list[dict], str]:
    """Write the measurement, run the stage, and return the rows of the CSV and the Markdown."""
    (folder / "layers.json").write_text(json.dumps(measured))
    return make_table("table1", folder / "table1", "--paper", paper, "--measured", folder / "layers.json")


def test_table_has_the_papers_cells_and_the_measured_ones(layers, tmp_path):
    """Were a layer's time 3 n^1.5 d^0.5 at every size, that is what the table says."""
    measured = json.loads(layers.read_text())
    for time in measured["times"]:
        time["seconds"] = 3 * time["n"] ** 1.5 * time["d"] ** 0.5
    rows, markdown = make(measured, tmp_path)
    assert [row["layer"] for row in rows] == list(LAYER_TYPES)
    shown = {row["Layer type"]: row | behind for row, behind in zip(cells(markdown), further(markdown), strict=True)}
    assert shown["Recurrent"] | {"Sequential, ours": ""} == {
        "Layer type": "Recurrent",
        "Complexity, paper": "O(n · d^2)",
        "Multiply-adds, ours": "2 · n · d^2",
        "Time, ours": "n^1.5 · d^0.5",
        "Sequential, paper": "O(n)",
        "Sequential, ours": "",
        "Path, paper": "O(n)",
        "Path, ours": "2, 5, 9",
    }
    assert shown["Self-Attention with projections"]["Multiply-adds, ours"] == "2 · n^2 · d + 4 · n · d^2"
    assert shown["Convolutional, contiguous kernels"]["Time, ours"] == ""
    assert "nan" not in markdown


def test_exponents_are_shown_with_their_spread(layers, tmp_path):
    """Between two lengths there is one slope. At widths 5, 9 and 27, times that are 1 : 5 : 5 have two."""
    measured = json.loads(layers.read_text())
    for time in measured["times"]:
        time["seconds"] = 3.0 * time["n"] ** 2
    wider = [time | {"d": 9, "seconds": 5 * time["seconds"]} for time in measured["times"] if time["grid"] == "d"]
    measured["times"] += [time for time in wider if time["layer"] == "Recurrent"][:1]
    measured["times"] += [time | {"d": 27} for time in measured["times"][-1:]]
    rows, markdown = make(measured, tmp_path)
    recurrent = next(row for row in rows if row["layer"] == "Recurrent")
    assert [float(recurrent[f"n_{name}"]) for name in ("timed", "low", "high")] == pytest.approx([2, 2, 2])
    slopes = math.log(5) / math.log(9 / 5), 0
    assert [float(recurrent[f"d_{name}"]) for name in ("low", "high")] == pytest.approx(sorted(slopes))
    (line,) = [line for line in markdown.splitlines() if "Recurrent" in line and "2.0 (2.0 – 2.0)" in line]
    assert f"{float(recurrent['d_timed']):.1f} (0.0 – {max(slopes):.1f})" in line


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--lengths": "2 8 4"}, r"--lengths: expected 3 or more growing numbers from 1 on, found \[2, 8, 4\]"),
        ({"--paths": "1 2 3"}, "--paths: expected 3 or more growing numbers from 2 on"),
        ({"--k": "1"}, "--k: expected 2 or more, found 1"),
        ({"--seconds": "0"}, "--seconds: expected more than 0, found 0"),
    ],
)
def test_measuring_refuses_what_cannot_be_measured(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        measure.main([*arguments(OPTIONS | changes), "--output", str(tmp_path / "layers.json")])
    assert list(tmp_path.iterdir()) == []


def test_table_refuses_a_measurement_that_lacks_something(layers, tmp_path):
    measured = json.loads(layers.read_text())
    times = [time for time in measured["times"] if time["layer"] != "Recurrent"]
    with pytest.raises(
        InputError, match=r"layers.json, times: expected the layer types Self-Attention, Recurrent, .* found "
    ):
        make(measured | {"times": times}, tmp_path)
    del measured["times"][0]["seconds"]
    with pytest.raises(InputError, match=r"layers.json, times\[0\]: missing key 'seconds'"):
        make(measured, tmp_path)


def test_table_refuses_a_layer_type_that_is_not_measured(layers, tmp_path):
    (tmp_path / "paper.csv").write_text("layer,complexity,sequential,path\nSeparable,O(1),,\n")
    with pytest.raises(InputError, match=r"paper.csv: expected layer types among .*, found 'Separable'"):
        make(json.loads(layers.read_text()), tmp_path, tmp_path / "paper.csv")
