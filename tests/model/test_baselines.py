"""The LSTM compared with NumPy and the convolutions with conv1d, sentence by sentence; sizes and FLOPs of both."""

import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from support.toy import BASELINES, CPU, packed, random_baseline, random_sentences
from torch.utils.flop_counter import FlopCounterMode

from transformer.config.experiment import PAD
from transformer.config.scales import RunName, ScaleSettings
from transformer.config.settings import read
from transformer.model.architectures import sketch
from transformer.model.cost import Lengths
from transformer.model.packed import Packed, collate

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("on_the_processor")
SOURCES = random_sentences(1, 7, longest=12)
TARGETS = [[PAD, *sentence[:-1]] for sentence in random_sentences(2, 7, longest=12)]


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
    z, share = mapped(model.encoder_out, x), 1 / (2 * model.config.N)
    z = share * z + (1 - share) * z.detach()  # divides the gradient by twice the number of attentions
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


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("multiple", [1, 16])
def test_logits_equal_those_of_the_equations(name, multiple):
    """The batch has sentences of many lengths. A `multiple` adds padding."""
    model = random_baseline(name)
    sides = []
    for sentences in (SOURCES, TARGETS):
        lengths = np.array([len(sentence) for sentence in sentences])
        sides.append(collate(np.concatenate(sentences).astype(np.int64), lengths, CPU, multiple))
    output = model(*sides) @ model.output_weight().T
    reference = REFERENCES[model.config.architecture]
    expected = torch.cat([reference(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)])
    torch.testing.assert_close(output[: len(expected)].double(), expected, rtol=1e-5, atol=1e-5)


def gradients(model):
    """Return the gradients of the batch's loss, each with its parameter's name."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    loss = (model(packed(SOURCES), packed(TARGETS)) @ model.output_weight().T).logsumexp(dim=1).sum()
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def reference_loss(model):
    """Return the loss from the equations, sentence by sentence."""
    reference = REFERENCES[model.config.architecture]
    pairs = zip(SOURCES, TARGETS, strict=True)
    return sum(reference(model, *pair).logsumexp(dim=1).sum() for pair in pairs)


def test_lstm_gradients_equal_those_of_the_reference():
    """The references are difference quotients of the NumPy model in float64, at the largest number of each gradient."""
    model = random_baseline("lstm")
    found = gradients(model)
    model = model.double()
    for name, parameter in model.named_parameters():
        flat, place, values = parameter.data.view(-1), int(found[name].abs().argmax()), []
        for step in (1e-5, -2e-5):
            flat[place] += step
            values.append(float(reference_loss(model)))
        flat[place] += 1e-5
        assert float(found[name].view(-1)[place]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


def test_conv_gradients_equal_those_of_the_reference():
    model = random_baseline("conv")
    expected = torch.autograd.grad(reference_loss(model), list(model.parameters()))
    torch.testing.assert_close([*gradients(model).values()], [*expected], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["lstm", "conv"])
def test_flops_equal_pytorchs_count(name, monkeypatch):
    """The counts are forward and backward on the meta device, for sentences of one length, within 2 %."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device does not support autocast
    config = replace(BASELINES[name], N=3, d_model=256, embedding_rows=4000, output_rows=4000)
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
