"""The LSTM compared with NumPy, the convolutions with conv1d, sentence by sentence, and the steps of beam search."""

import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from support.toy import CPU, DECODING, ROWS, greedy, logits, random_sentences
from torch.utils.flop_counter import FlopCounterMode

from transformer.config.experiment import EOS, PAD, Model
from transformer.config.scales import RunName, ScaleSettings
from transformer.config.settings import read
from transformer.model.architectures import build, sketch
from transformer.model.cost import Lengths
from transformer.model.packed import Packed, collate, pack
from transformer.translation.translator import search

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("on_the_processor")
SMALL = {"d_model": 18, "P_drop": 0.1, "embedding_rows": ROWS, "output_rows": ROWS}
MODELS = {
    "lstm": Model(architecture="lstm", N=4, **SMALL),
    "conv": Model(architecture="conv", N=3, k=3, **SMALL),
    "conv, k = 4": Model(architecture="conv", N=2, k=4, **SMALL),
}
SOURCES = random_sentences(1, 7, longest=12)
TARGETS = [[PAD, *sentence[:-1]] for sentence in random_sentences(2, 7, longest=12)]


def varied(config: Model) -> torch.nn.Module:
    """Return a model in evaluation mode with very different outputs and without zero biases."""
    torch.manual_seed(4)
    model = build(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.4 if "embedding" in name else 0.2)
    return model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_layer(layer, xs):
    """Run an LSTM (Hochreiter and Schmidhuber, 1997) with PyTorch's order of gates: input, forget, cell, output."""
    W, U, b, c = (p.detach().double().numpy() for p in layer.parameters())
    h = s = np.zeros(U.shape[1])
    outputs = []
    for x in xs:
        i, f, g, o = np.split(W @ x + b + U @ h + c, 4)
        s = sigmoid(f) * s + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(s)
        outputs.append(h)
    return np.stack(outputs)


def lstm_reference(model, source, target):
    """Return the logits of one pair of sentences in NumPy, in float64."""
    E = model.embedding.detach().double().numpy()
    x = E[source] * (np.array(source) != PAD)[:, None]
    x = np.concatenate([lstm_layer(model.left_to_right, x), lstm_layer(model.right_to_left, x[::-1])[::-1]], axis=1)
    for number, layer in enumerate(model.encoder, 2):
        x = lstm_layer(layer, x) + (x if number >= 3 else 0)
    memory, a = x, {name: p.detach().double().numpy() for name, p in model.attention.named_parameters()}
    x = lstm_layer(model.decoder[0], E[target] * (np.array(target) != PAD)[:, None])
    contexts = []
    for query in x:
        sums = np.tanh(a["query.weight"] @ query + memory @ a["key.weight"].T + a["b"])
        weights = np.exp(sums @ (a["g"] * a["v"] / np.linalg.norm(a["v"])))
        contexts.append(weights @ memory / weights.sum())
    for number, layer in enumerate(model.decoder[1:], 2):
        x = lstm_layer(layer, np.concatenate([x, contexts], axis=1)) + (x if number >= 3 else 0)
    return torch.from_numpy(x @ E.T)


def weight(linear):
    """Return g v / ‖v‖, row by row."""
    g, v = (linear.parametrizations.weight[0], linear.parametrizations.weight)[1].original0, None
    v = linear.parametrizations.weight.original1
    return (g * v / v.norm(dim=1, keepdim=True)).double()


def mapped(linear, x):
    return x @ weight(linear).T + linear.bias.double()


def convolved(linear, x, left, right):
    """Convolve [n, d] with nn.functional.conv1d and zero padding, then apply the gated linear unit a * sigmoid(b)."""
    d = x.shape[1]
    kernel = weight(linear).view(2 * d, -1, d).transpose(1, 2)
    a, b = F.conv1d(F.pad(x.T[None], (left, right)), kernel, linear.bias.double())[0].T.chunk(2, dim=1)
    return a * torch.sigmoid(b)


def conv_reference(model, source, target):
    """Return the logits of one pair of sentences from the equations in §3 of the paper, in float64."""
    E, k, half = model.embedding.double(), model.config.k, math.sqrt(0.5)

    def embedded(ids, table):
        ids = torch.tensor(ids)
        return E[ids] * (ids != PAD)[:, None] + table.position_table.double()[: len(ids)]

    e = embedded(source, model.source)
    x = mapped(model.encoder_in, e)
    for block in model.encoder:
        x = (convolved(block, x, (k - 1) // 2, k // 2) + x) * half
    z = mapped(model.encoder_out, x)
    g = embedded(target, model.target)
    x = mapped(model.decoder_in, g)
    for block in model.decoder:
        h = convolved(block.convolution, x, k - 1, 0)
        queries = (mapped(block.query, h) + g) * half
        weights = torch.softmax(queries @ z.T, dim=1)
        m = len(source)
        contexts = weights @ ((z + e) * half) * (m * math.sqrt(1 / m))
        x = ((h + mapped(block.context, contexts)) * half + x) * half
    return mapped(model.decoder_out, x) @ E.T


REFERENCES = {"lstm": lstm_reference, "conv": conv_reference}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("multiple", [1, 16])
def test_logits_equal_those_of_the_equations(name, multiple):
    """The batch has sentences of many lengths. A `multiple` adds padding."""
    model = varied(MODELS[name])
    sides = []
    for sentences in (SOURCES, TARGETS):
        lengths = np.array([len(sentence) for sentence in sentences])
        sides.append(collate(np.concatenate(sentences).astype(np.int64), lengths, CPU, multiple))
    output = model(*sides) @ model.output_weight().T
    reference = REFERENCES[model.config.architecture]
    expected = torch.cat([reference(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)])
    torch.testing.assert_close(output[: len(expected)].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "conv"])
def test_gradients_equal_those_of_single_sentences(name):
    """The batch's gradients equal the sum over sentences. Each gradient is also compared with a difference quotient."""
    model = varied(MODELS[name])

    def loss(pairs):
        sources, targets = zip(*pairs, strict=True)
        packed = [pack([np.array(ids) for ids in side], CPU) for side in (sources, targets)]
        return (model(*packed) @ model.output_weight().T).logsumexp(dim=1).sum()

    pairs, parameters = list(zip(SOURCES, TARGETS, strict=True)), list(model.parameters())
    together = torch.autograd.grad(loss(pairs), parameters)
    single = [torch.autograd.grad(loss([pair]), parameters) for pair in pairs]
    for found, *expected in zip(together, *single, strict=True):
        torch.testing.assert_close(found, torch.stack(expected).sum(dim=0), rtol=1e-4, atol=1e-4)


def test_lstm_gradients_equal_those_of_the_reference():
    """The references are difference quotients of the NumPy model in float64."""
    model = varied(MODELS["lstm"])
    source, target = SOURCES[1], TARGETS[1]
    packed = [pack([np.array(ids)], CPU) for ids in (source, target)]
    (model(*packed) @ model.output_weight().T).logsumexp(dim=1).sum().backward()
    model = model.double()
    for parameter in model.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        place = int(gradient.abs().argmax())
        found, values = float(gradient[place]), []
        for step in (1e-5, -2e-5):
            flat[place] += step
            values.append(float(lstm_reference(model, source, target).logsumexp(dim=1).sum()))
        flat[place] += 1e-5
        assert found == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


def test_conv_gradients_equal_those_of_the_reference():
    """The reference is autograd, with the encoder's gradients divided by twice the number of attentions."""
    model = varied(MODELS["conv"])
    source, target = SOURCES[1], TARGETS[1]
    packed = [pack([np.array(ids)], CPU) for ids in (source, target)]
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad((model(*packed) @ model.output_weight().T).logsumexp(dim=1).sum(), parameters)
    expected = torch.autograd.grad(conv_reference(model, source, target).logsumexp(dim=1).sum(), parameters)
    for name, one, other in zip(names, found, expected, strict=True):
        if name.startswith(("encoder.", "encoder_out")):
            other = other / (2 * model.config.N)
        if name.startswith(("decoder", "encoder.", "encoder_out", "target")):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_steps_equal_the_whole_decoder(name):
    """This also holds after hypotheses have moved and sentences have ended."""
    model = varied(MODELS[name])
    with torch.no_grad():
        decoder = model.incremental()(pack([np.array(ids) for ids in SOURCES[:3]], CPU), ROWS)
        prefixes = [[[]], [[]], [[]]]
        tokens = [[PAD]] * 3
        sources = SOURCES[:3]
        moves = [([[0, 0]] * 3, [0, 1, 2]), ([[1, 0], [1, 1], [0, 1]], [2, 1]), ([[1, 0]] * 2, [1]), (None, [])]
        for parents, kept in moves:
            scores = decoder.step(torch.tensor(tokens))
            for source, rows, found in zip(sources, prefixes, scores, strict=True):
                for prefix, row in zip(rows, found, strict=True):
                    expected = logits(model, source, prefix)[-1].log_softmax(dim=0)
                    torch.testing.assert_close(row[1:], expected[1:], rtol=1e-4, atol=1e-4)
                    assert row[PAD] == -torch.inf
            if parents is None:
                break
            sources = [sources[sentence] for sentence in kept]
            rows = [[prefixes[sentence][parent] for parent in parents[sentence]] for sentence in kept]
            tokens = [[3 + (number + 5 * sentence) % 30 for number in range(2)] for sentence in range(len(kept))]
            prefixes = [[[*p, t] for p, t in zip(*pair, strict=True)] for pair in zip(rows, tokens, strict=True)]
            decoder.select(np.array(kept), np.array([parents[sentence] for sentence in kept]))


class Whole:
    """A decoder for beam search that recomputes the whole decoder for each hypothesis."""

    def __init__(self, model, sources, vocabulary):
        self.model, self.vocabulary = model, vocabulary
        self.rows = [(source, None) for source in sources]

    def step(self, tokens):
        self.rows = [
            (source, [[*prefix, token] for prefix, token in zip(prefixes or [[]] * len(row), row, strict=True)])
            for (source, prefixes), row in zip(self.rows, tokens.tolist(), strict=True)
        ]
        scores = [
            torch.stack([logits(self.model, source, prefix[1:])[-1] for prefix in prefixes]).log_softmax(dim=1)
            for source, prefixes in self.rows
        ]
        scores = torch.stack(scores)[:, :, : self.vocabulary]
        scores[:, :, PAD] = -torch.inf
        return scores

    def select(self, sentences, parents):
        kept = [(self.rows[s], row) for s, row in zip(sentences.tolist(), parents.tolist(), strict=True)]
        self.rows = [(source, [prefixes[parent] for parent in row]) for (source, prefixes), row in kept]


@pytest.mark.parametrize("name", MODELS)
def test_beam_search_finds_the_same_with_and_without_states(name, monkeypatch):
    model = varied(MODELS[name])
    found = search(model, ROWS, SOURCES, DECODING)
    opened = []

    def whole():
        def open_decoder(source, vocabulary):
            ends = (source.ids == EOS).nonzero().flatten() + 1
            sentences = [part.tolist() for part in source.ids.tensor_split(ends.tolist()) if len(part)]
            opened.append(len(sentences))
            return Whole(model, sentences, vocabulary)

        return open_decoder

    monkeypatch.setattr(model, "incremental", whole)
    expected = search(model, ROWS, SOURCES, DECODING)
    assert sum(opened) == len(SOURCES)
    assert [[ids for ids, _ in each] for each in found] == [[ids for ids, _ in each] for each in expected]
    assert len({tuple(each[0][0]) for each in found}) > 3
    greedy_found = search(model, ROWS, SOURCES[:2], replace(DECODING, beam_size=1))
    for source, ((ids, _),) in zip(SOURCES[:2], greedy_found, strict=True):
        assert greedy(model, source, ROWS, len(ids)) == ids


@pytest.mark.parametrize("name", ["lstm", "conv"])
def test_flops_equal_pytorchs_count(name, monkeypatch):
    """The counts are forward and backward on the meta device, for sentences of one length, within 2 %."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device does not support autocast
    config = replace(MODELS[name], N=3, d_model=256, embedding_rows=4000, output_rows=4000)
    model, B, L, M = sketch(config), 4, 8, 6
    with torch.device("meta"):
        ids = [torch.zeros(B * length, dtype=torch.long) for length in (L, M)]
        sides = [Packed(x, torch.arange(len(x) // B).repeat(B), (B, len(x) // B)) for x in ids]
        with FlopCounterMode(display=False) as counter:
            (model(*sides) @ model.output_weight().T).sum().backward()
    lengths = Lengths(B * L, B * M, B * L * L, B * M * M, B * L * M)
    assert model.flops(lengths) == pytest.approx(counter.get_total_flops(), rel=0.02)


@pytest.mark.parametrize("scale", ["multi30k", "iwslt15", "paper"])
def test_each_scales_rows_of_table_2_have_the_size_of_base_within_5_percent(scale):
    """All parameters count, as in Table 2: also ConvS2S's tables of positions."""
    configured = ScaleSettings(read([], [], ROOT / "config.yaml"), scale)
    task = configured.first_task
    models = {row: configured.experiment(RunName(task, row, 1)).model for row in ("base", "lstm", "conv")}
    sizes = {row: sum(x.numel() for x in sketch(model).parameters()) for row, model in models.items()}
    assert sizes["lstm"] == pytest.approx(sizes["base"], rel=0.05)
    assert sizes["conv"] == pytest.approx(sizes["base"], rel=0.05)
