"""The model against numbers worked by hand, and what must not change an output; test_reference.py has it whole."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer.config.experiment import EOS, PAD
from transformer.model.attention import attention
from transformer.model.kernels import Pad, Unpad
from transformer.model.packed import POSITIONS, pack
from transformer.model.transformer import Embedding, Residual, Transformer, sinusoids

CPU = torch.device("cpu")
LENGTHS = (4, 7, 1, 5)  # of the sentences of a batch: shorter and longer ones together


@pytest.fixture
def model(experiment) -> Transformer:
    """Build a model in double precision, where rounding hides nothing, and without dropout."""
    torch.manual_seed(1)
    return Transformer(experiment.model).double().eval()


def sentences(seed: int, lengths: tuple[int, ...] = LENGTHS, rows: int = 37) -> list[np.ndarray]:
    """Return random token ids, none of them PAD."""
    random = np.random.default_rng(seed)
    return [random.integers(1, rows, length) for length in lengths]


def packed(sentences: list[np.ndarray]):
    return pack(sentences, CPU)


def split(output: torch.Tensor, lengths: tuple[int, ...] = LENGTHS) -> tuple[torch.Tensor, ...]:
    return output.split(lengths)


def randomize(module: nn.Module) -> nn.Module:
    """Make every parameter random, so that no bias is zero and no gain is one."""
    torch.manual_seed(2)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


# What must not change an output.


def test_a_later_target_token_changes_no_earlier_output(model):
    source, before = sentences(1), sentences(2)
    after = [sentence.copy() for sentence in before]
    after[1][3] = before[1][3] % 36 + 1
    old, new = (split(model(packed(source), packed(target)))[1] for target in (before, after))
    torch.testing.assert_close(new[:3], old[:3])
    assert all(not torch.allclose(new[position], old[position]) for position in range(3, 7))


def test_every_source_token_changes_every_target_output(model):
    (target,) = sentences(2, (3,))
    (source,) = sentences(1, (4,))
    old = model(packed([source]), packed([target]))
    for position in range(4):
        other = source.copy()
        other[position] = source[position] % 36 + 1
        new = model(packed([other]), packed([target]))
        assert not any(torch.allclose(*rows) for rows in zip(new, old, strict=True))


@pytest.mark.parametrize("row", range(4))
def test_a_pair_alone_equals_the_pair_among_longer_and_shorter_ones(model, row):
    sources, targets = sentences(1), sentences(2, LENGTHS[::-1])
    together = split(model(packed(sources), packed(targets)), LENGTHS[::-1])[row]
    alone = model(packed([sources[row]]), packed([targets[row]]))
    torch.testing.assert_close(together, alone)


def test_a_pair_alone_has_the_gradients_of_the_pair_among_others(model):
    sources, targets = sentences(1), sentences(2)
    gradients = []
    for output in (
        split(model(packed(sources), packed(targets)))[2],
        model(packed([sources[2]]), packed([targets[2]])),
    ):
        model.zero_grad()
        output.square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(*gradients)


# §3.1 and §3.2.


def test_attention_by_hand():
    """Two keys, the first of which the query matches: weights e^2 / (e^2 + 1) and 1 / (e^2 + 1), as 4 / sqrt(4) = 2."""
    Q, K = torch.tensor([[[[2.0, 0, 0, 0]]]]), torch.tensor([[[[2.0, 0, 0, 0], [0, 2.0, 0, 0]]]])
    V = torch.tensor([[[[1.0], [10.0]]]])
    assert attention(Q, K, V, None, False, 0.0).item() == pytest.approx(1 * 0.880797 + 10 * 0.119203, abs=1e-5)


def test_the_stacks_apply_their_layers_in_turn(model):
    """§3.1: no normalisation or other step stands between the layers, or after the last."""
    source, target = packed(sentences(1)), packed(sentences(2))
    memory = model.embedding(source.ids, source.positions)
    for layer in model.encoder:
        memory = layer(memory, source)
    torch.testing.assert_close(model.encode(source), memory)
    x = model.embedding(target.ids, target.positions)
    for layer in model.decoder:
        x = layer(x, target, memory, source)
    torch.testing.assert_close(model(source, target), x)


# §3.4 and §3.5: embeddings and positions.


def test_sinusoids_by_hand():
    """d_model = 4: angles pos and pos / 100, sine and cosine in turn."""
    expected = [
        [0, 1, 0, 1],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    torch.testing.assert_close(sinusoids(3, 4, "interleaved"), torch.tensor(expected), atol=1e-6, rtol=0)


def test_sinusoids_of_an_odd_width_lack_the_last_cosine():
    """Angles of width 3 are pos and pos / 10000^(2/3) = pos / 464.159."""
    expected = torch.tensor([0.841471, 0.540302, 0.0021544])
    torch.testing.assert_close(sinusoids(2, 3, "interleaved")[1], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("d_model", "expected"),
    [
        (4, [0.909297, 0.0002, -0.416147, 1]),
        (5, [0.909297, 0.0002, -0.416147, 1, 0]),
        (6, [0.909297, 0.0199987, 0.0002, -0.416147, 0.9998, 1]),
        (3, [0.909297, -0.416147, 0]),
    ],
)
def test_concatenated_sinusoids_by_hand(d_model, expected):
    """Position 2: sines, then cosines, of 2 to 2 / 10000 in even steps of the exponent; an odd width ends in zero."""
    torch.testing.assert_close(sinusoids(3, d_model, "concatenated")[2], torch.tensor(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_product_of_two_positions_depends_on_their_distance_alone(layout):
    """§3.5: sin a sin b + cos a cos b = cos (a - b)."""
    table = sinusoids(50, 8, layout).double()
    products = table @ table.T
    for distance in (1, 7, 30):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-6, rtol=0)


@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_an_embedding_is_the_scaled_row_plus_the_position(experiment, positions):
    embedding = randomize(Embedding(replace(experiment.model, positions=positions)))
    output = embedding(torch.tensor([9, 4]), torch.tensor([0, 6]))
    rows = embedding.weight[[9, 4]] * 13**0.5
    torch.testing.assert_close(output, rows + embedding.position_table[[0, 6]])


def test_words_are_numbered_in_each_sentence(experiment):
    """A word of three subwords and one of one, then EOS; a parser's output: PAD, a bracket, two tags, a bracket."""
    embedding = Embedding(replace(experiment.model, positions="words"))
    embedding.new_word[[PAD, EOS, 10, 11, 20, 21]] = 1  # 12 goes on with a word; 30 and 31 are brackets
    source, target = [10, 12, 12, 11, EOS], [PAD, 30, 20, 21, 31]
    positions = torch.tensor([*range(5), *range(5)])
    words = embedding.count_words(torch.tensor(source + target), positions)
    assert words.tolist() == [0, 0, 0, 1, 2, 0, 0, 1, 2, 2]


def test_a_words_number_is_added_with_the_frequencies_in_the_opposite_order(experiment):
    embedding = randomize(Embedding(replace(experiment.model, positions="words")))
    embedding.new_word.fill_(1)
    output = embedding(torch.tensor([9, 4, 9]), torch.tensor([0, 1, 0]))
    table = embedding.position_table
    rows = embedding.weight[[9, 4, 9]] * 13**0.5 + table[[0, 1, 0]]
    torch.testing.assert_close(output, rows + table[[0, 1, 0]][:, range(12, -1, -1)])


def test_pad_embeds_to_its_position_alone(experiment):
    embedding = randomize(Embedding(experiment.model))
    positions = torch.tensor([0, 5])
    assert torch.equal(embedding(torch.full((2,), PAD), positions), embedding.position_table[positions])


@pytest.mark.parametrize(("positions", "learned"), [("sinusoid", 0), ("learned", POSITIONS * 13)])
def test_only_learned_positions_are_parameters(experiment, positions, learned):
    """13 is d_model. The sinusoids are not in a checkpoint either: they can be made again."""
    model = Transformer(replace(experiment.model, positions=positions))
    count = {name: tensor.numel() for name, tensor in model.named_parameters() if name.startswith("embedding.")}
    assert sum(count.values()) == 37 * 13 + learned
    assert set(count) == {name for name in model.state_dict() if name.startswith("embedding.")}


def test_learned_positions_learn(experiment):
    model = Transformer(replace(experiment.model, positions="learned"))
    model(packed(sentences(1)), packed(sentences(2))).square().sum().backward()
    used = model.embedding.position_table.grad.abs().sum(dim=1) > 0
    assert used.nonzero().flatten().tolist() == list(range(max(LENGTHS)))


def test_one_matrix_embeds_source_and_target_and_is_the_only_one_with_a_row_for_each_token(model):
    """§3.4: what the softmax multiplies with is the same tensor (loss.py takes `embedding.weight`)."""
    vocabulary_sized = [name for name, tensor in model.state_dict().items() if 37 in tensor.shape]
    assert vocabulary_sized == ["embedding.weight"]
    source, target = packed([np.array([11])]), packed([np.array([12])])
    gradient = torch.autograd.grad(model(source, target).square().sum(), model.embedding.weight)[0]
    assert gradient.abs().sum(dim=1).nonzero().flatten().tolist() == [11, 12]


# The authors' table of target languages.


@pytest.fixture
def coded(experiment) -> Transformer:
    """Build a model with that table and without layers, so that nothing hides what the layers are given."""
    return randomize(Transformer(replace(experiment.model, N=0, target_spaces=32))).eval()


def test_one_row_of_the_table_is_added_to_the_encoders_input_alone(coded):
    tokens = packed(sentences(1))
    whole = coded.embedding(tokens.ids, tokens.positions)
    torch.testing.assert_close(coded.encode(tokens), whole + coded.target_spaces[9])
    torch.testing.assert_close(coded.decode(tokens, whole, tokens), whole)


def test_the_table_has_32_rows_of_which_one_learns(coded):
    assert coded.target_spaces.shape == (32, 13)
    coded.encode(packed(sentences(1))).square().sum().backward()
    assert coded.target_spaces.grad.abs().sum(dim=1).nonzero().flatten().tolist() == [9]


def test_the_table_is_a_parameter_only_where_it_is_wanted(model, coded):
    assert "target_spaces" in coded.state_dict()
    assert "target_spaces" not in model.state_dict()


# Initialisation.


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("encoder.1.self_attention.query_key_value", 13, 3 * (5 + 5 + 7)),  # one fused matrix, one bound
        ("encoder.0.self_attention.output", 3 * 7, 13),
        ("encoder.0.feed_forward.inner", 13, 17),
        ("encoder.1.feed_forward.outer", 17, 13),
        ("decoder.0.self_attention.query_key_value", 13, 3 * (5 + 5 + 7)),
        ("decoder.1.cross_attention.query", 13, 3 * 5),
        ("decoder.0.cross_attention.key_value", 13, 3 * (5 + 7)),
        ("decoder.0.cross_attention.output", 3 * 7, 13),
    ],
)
def test_matrices_start_uniform_within_glorots_bound(model, name, inputs, outputs):
    bound = math.sqrt(6 / (inputs + outputs))
    linear = model.get_submodule(name)
    assert 0.95 * bound < linear.weight.abs().max().item() <= bound
    assert linear.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.15)
    assert not linear.bias.any()


@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_embeddings_start_normal(experiment, positions):
    torch.manual_seed(1)
    model = Transformer(replace(experiment.model, embedding_rows=1009, positions=positions))
    for parameter in model.embedding.parameters():
        assert parameter.mean().item() == pytest.approx(0, abs=0.01)
        assert parameter.std().item() == pytest.approx(13**-0.5, rel=0.03)


def test_the_table_of_target_languages_starts_uniform_within_glorots_bound(experiment):
    torch.manual_seed(1)
    table = Transformer(replace(experiment.model, target_spaces=32)).target_spaces
    bound = math.sqrt(6 / (32 + 13))
    assert 0.95 * bound < table.abs().max().item() <= bound
    assert table.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_normalisation_starts_as_none(model):
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3
    assert all((norm.weight == 1).all() and not norm.bias.any() for norm in norms)


# §5.4: dropout.


@pytest.mark.parametrize("kind", ["P_drop", "P_drop_attention"])
def test_dropout_acts_in_training_alone(experiment, kind):
    config = replace(experiment.model, **{"P_drop": 0.0, "P_drop_attention": 0.0, kind: 0.5})
    model = Transformer(config)
    source, target = packed(sentences(1)), packed(sentences(2))
    assert not torch.equal(model(source, target), model(source, target))
    evaluated = model.eval()(source, target)
    assert torch.equal(evaluated, model(source, target))
    none = Transformer(replace(config, P_drop=0.0, P_drop_attention=0.0))
    none.load_state_dict(model.state_dict())
    assert torch.equal(none(source, target), evaluated)


def test_attention_dropout_acts_on_the_weights():
    """Values that are a unit matrix show them: each is dropped, or as without dropout but twice as much."""
    torch.manual_seed(1)
    Q, K, V = torch.randn(2, 3, 11, 5), torch.randn(2, 3, 13, 5), torch.eye(13).expand(2, 3, 13, 13)
    weights, dropped = (attention(Q, K, V, None, False, P_drop) for P_drop in (0.0, 0.5))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 11))
    zero = dropped == 0
    torch.testing.assert_close(dropped[~zero], 2 * weights[~zero])
    assert zero.double().mean().item() == pytest.approx(0.5, abs=0.1)


def test_dropout_acts_on_the_embedding_sums_of_both_stacks(experiment):
    """Without layers the output is the dropped sum: zero, or 1 / (1 - P_drop) times the sum."""
    torch.manual_seed(1)
    model = Transformer(replace(experiment.model, N=0, P_drop=0.25))
    tokens = packed(sentences(1, (31, 37)))
    whole = model.embedding(tokens.ids, tokens.positions)
    for dropped in (model.encode(tokens), model.decode(tokens, whole, tokens)):
        zero = dropped == 0
        torch.testing.assert_close(dropped[~zero], whole[~zero] / 0.75)
        assert zero.double().mean().item() == pytest.approx(0.25, abs=0.1)


def test_dropout_acts_on_the_sublayer_before_it_is_added(experiment):
    """Were it on the sum, x would be dropped too; were the norm first, the output would not have zero mean."""
    torch.manual_seed(1)
    residual = Residual(replace(experiment.model, P_drop=0.5))
    x = torch.randn(11, 13)
    nothing = torch.zeros(11, 13)
    torch.testing.assert_close(residual(x, nothing), F.layer_norm(x, (13,), eps=1e-6))
    halves = residual(nothing, torch.ones(11, 13))
    torch.testing.assert_close(halves.mean(dim=1), torch.zeros(11), atol=1e-5, rtol=0)
    assert halves.unique().numel() > 1


# Packed to padded and back.

SLOTS = torch.tensor([0, 1, 4, 5, 6])  # of two sentences, of 2 and 3 tokens, in a grid of 2 by 4


def test_pad_and_unpad_by_hand():
    x = torch.arange(1.0, 6.0)[:, None]
    grid = Pad.apply(x, SLOTS, 8)
    assert grid.flatten().tolist() == [1, 2, 0, 0, 3, 4, 5, 0]
    assert torch.equal(Unpad.apply(grid, SLOTS, len(SLOTS)), x)


def test_gradients_of_pad_and_unpad():
    torch.manual_seed(1)
    x, grid = (torch.randn(rows, 3, dtype=torch.float64, requires_grad=True) for rows in (5, 8))
    for more in (0, 3):  # rows behind those that have slots
        x = torch.randn(len(SLOTS) + more, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: Pad.apply(x, SLOTS, 8), x)
        assert torch.autograd.gradcheck(lambda grid, more=more: Unpad.apply(grid, SLOTS, len(SLOTS) + more), grid)


def test_sizes_of_every_kind_fit(experiment):
    """d_k, d_v and d_model are independent of each other, as rows A and B of Table 3 need."""
    assert len(set(dataclasses.astuple(experiment.model)[:6])) == 6
    output = Transformer(experiment.model)(packed(sentences(1)), packed(sentences(2)))
    assert output.shape == (sum(LENGTHS), 13)
