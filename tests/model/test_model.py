"""Parts of the model that test_reference.py does not cover: gradients, positions, initial values, dropout."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from support.toy import packed

from transformer.config.experiment import EOS, PAD
from transformer.model.attention import attention
from transformer.model.transformer import Embedding, FeedForward, Residual, Transformer, sinusoids

LENGTHS = (4, 7, 1, 5)  # of the sentences in a batch, short and long ones


def sentences(seed: int, lengths: tuple[int, ...] = LENGTHS, rows: int = 37) -> list[np.ndarray]:
    """Return random token ids without PAD."""
    random = np.random.default_rng(seed)
    return [random.integers(1, rows, length) for length in lengths]


def test_dropout_within_the_feed_forward_network_is_off_unless_given(experiment):
    """This is tensor2tensor's relu_dropout. The numbers after the ReLU are all 1 and pass unchanged."""
    for changes, values in (({"P_drop_relu": 0.5}, {0.0, 2.0}), ({}, {1.0})):
        layer = FeedForward(replace(experiment.model, d_model=64, d_ff=64, **changes))
        for linear, weight, bias in ((layer.inner, torch.zeros(64, 64), 1), (layer.outer, torch.eye(64), 0)):
            linear.weight.data.copy_(weight)
            linear.bias.data.fill_(bias)
        assert set(layer(torch.rand(9, 64)).flatten().tolist()) == values
        assert set(layer.eval()(torch.rand(9, 64)).flatten().tolist()) == {1.0}


@pytest.mark.parametrize(
    ("layout", "d_model", "expected"),
    [
        ("interleaved", 4, [0.909297, -0.416147, 0.0199987, 0.9998]),
        ("interleaved", 3, [0.909297, -0.416147, 0.0043089]),  # angles 2 and 2 / 10000^(2/3), without the last cosine
        ("concatenated", 4, [0.909297, 0.0002, -0.416147, 1]),
        ("concatenated", 5, [0.909297, 0.0002, -0.416147, 1, 0]),
        ("concatenated", 6, [0.909297, 0.0199987, 0.0002, -0.416147, 0.9998, 1]),
    ],
)
def test_sinusoids_by_hand(layout, d_model, expected):
    """Position 2. Concatenated: sines, then cosines, of 2 to 2 / 10000. An odd width ends in zero."""
    torch.testing.assert_close(sinusoids(3, d_model, layout)[2], torch.tensor(expected), atol=1e-6, rtol=0)


def test_words_are_numbered_in_each_sentence(experiment):
    """A word of three subwords, a word of one, EOS. A parser's output: PAD, a bracket, two tags, a bracket."""
    embedding = Embedding(replace(experiment.model, positions="words"))
    embedding.new_word[[PAD, EOS, 10, 11, 20, 21]] = 1  # 12 continues a word; 30 and 31 are brackets
    source, target = [10, 12, 12, 11, EOS], [PAD, 30, 20, 21, 31]
    positions = torch.tensor([*range(5), *range(5)])
    words = embedding.count_words(torch.tensor(source + target), positions)
    assert words.tolist() == [0, 0, 0, 1, 2, 0, 0, 1, 2, 2]


def test_a_words_number_is_added_with_the_frequencies_in_the_opposite_order(experiment):
    torch.manual_seed(2)
    embedding = Transformer(replace(experiment.model, positions="words")).embedding
    embedding.new_word.fill_(1)
    output = embedding(torch.tensor([9, 4, 9]), torch.tensor([0, 1, 0]))
    table = embedding.position_table
    rows = embedding.weight[[9, 4, 9]] * 13**0.5 + table[[0, 1, 0]]
    torch.testing.assert_close(output, rows + table[[0, 1, 0]][:, range(12, -1, -1)])


def test_matrices_start_uniform_within_glorots_bound(experiment):
    """The inputs and outputs are those of the fused matrix, like in the authors' code."""
    torch.manual_seed(1)
    for name, parameter in Transformer(replace(experiment.model, target_spaces=32)).named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif parameter.dim() == 2 and not name.startswith("embedding"):
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.95 * bound < parameter.abs().max().item() <= bound
            assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.15)


@pytest.mark.parametrize(("changes", "tables"), [({}, 1), ({"positions": "learned"}, 2), ({"tied": False}, 3)], ids=str)
def test_embeddings_start_normal(experiment, changes, tables):
    torch.manual_seed(1)
    model = Transformer(replace(experiment.model, embedding_rows=1009, output_rows=997, **changes))
    found = [table for name, table in model.named_parameters() if name.startswith(("embedding", "untied"))]
    assert len({table[7, 5].item() for table in found}) == tables
    for table in found:
        assert table.mean().item() == pytest.approx(0, abs=0.01)
        assert table.std().item() == pytest.approx(13**-0.5, rel=0.03)
        assert 3 * 13**-0.5 < table.abs().max().item() < 6 * 13**-0.5


@pytest.mark.parametrize("form", [{}, {"norm": "pre", "residual": False}, {"attention": "additive"}], ids=str)
@pytest.mark.parametrize("kind", ["P_drop", "P_drop_attention"])
def test_dropout_acts_only_in_training(experiment, kind, form):
    config = replace(experiment.model, **{"P_drop": 0.0, "P_drop_attention": 0.0, kind: 0.5} | form)
    model = Transformer(config)
    source, target = packed(sentences(1)), packed(sentences(2))
    assert not torch.equal(model(source, target), model(source, target))
    evaluated = model.eval()(source, target)
    assert torch.equal(evaluated, model(source, target))
    none = Transformer(replace(config, P_drop=0.0, P_drop_attention=0.0))
    none.load_state_dict(model.state_dict())
    assert torch.equal(none(source, target), evaluated)


@pytest.mark.parametrize("additive", [None, torch.linspace(-2, 2, 15).view(3, 5)], ids=["dot", "additive"])
def test_attention_dropout_acts_on_the_weights(additive):
    """A unit matrix as values makes the weights visible. Each weight is dropped, or doubled."""
    torch.manual_seed(1)
    Q, K, V = torch.randn(2, 3, 11, 5), torch.randn(2, 3, 13, 5), torch.eye(13).expand(2, 3, 13, 13)
    weights, dropped = (attention(Q, K, V, None, False, P_drop, None, additive) for P_drop in (0.0, 0.5))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 11))
    zero = dropped == 0
    torch.testing.assert_close(dropped[~zero], 2 * weights[~zero])
    assert zero.double().mean().item() == pytest.approx(0.5, abs=0.1)


def test_dropout_acts_on_the_embedding_sums_of_both_stacks(experiment):
    """Without layers, the output is the sum after dropout: zero, or 1 / (1 - P_drop) times the sum."""
    torch.manual_seed(1)
    model = Transformer(replace(experiment.model, N=0, P_drop=0.25))
    tokens = packed(sentences(1, (31, 37)))
    whole = model.embedding(tokens.ids, tokens.positions)
    for dropped in (model.encode(tokens), model.decode(tokens, whole, tokens)):
        zero = dropped == 0
        torch.testing.assert_close(dropped[~zero], whole[~zero] / 0.75)
        assert zero.double().mean().item() == pytest.approx(0.25, abs=0.1)


def test_dropout_acts_on_the_sublayer_before_it_is_added(experiment):
    """Dropout on the sum would also drop x. A preceding norm would give an output without zero mean."""
    torch.manual_seed(1)
    residual = Residual(replace(experiment.model, P_drop=0.5))
    x = torch.randn(11, 13)
    nothing = torch.zeros(11, 13)
    torch.testing.assert_close(residual(x, lambda _: nothing), F.layer_norm(x, (13,), eps=1e-6))
    halves = residual(nothing, torch.ones_like)
    torch.testing.assert_close(halves.mean(dim=1), torch.zeros(11), atol=1e-5, rtol=0)
    assert halves.unique().numel() > 1
