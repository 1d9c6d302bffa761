"""Masked heads and their distances, compared with attention changed by hand, sentence by sentence."""

import math
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.analysing import PAIRS, analyse, by_commands, opened
from support.toy import forge, packed, random_model, random_text
from torch import nn

from transformer.config.experiment import PAD
from transformer.evaluation.masking import (
    Head,
    TeacherForced,
    _curve,
    distances,
)
from transformer.model.transformer import attention_weights, attentions
from transformer.model.weights import load_tensors, save_tensors

pytestmark = pytest.mark.usefixtures("on_the_processor")
MATRIX = {"encoder": "encoder.0.self_attention", "decoder": "decoder.0.self_attention"}
MATRIX |= {"cross": "decoder.0.cross_attention"}
KINDS, D_V = tuple(MATRIX), 16
TEXT = random_text(1, 13)


@pytest.fixture
def model(monkeypatch):
    """Return a model of two layers and two heads without zero biases. No batch holds all sentences."""
    monkeypatch.setattr("transformer.evaluation.masking._BATCH", 16)
    model = random_model(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model.requires_grad_(False)


@contextmanager
def without_values(model, heads):
    """Set V of these heads to zero in each attention of the model."""

    def of_module(attend, number):
        return lambda Q, K, V, *rest: attend(Q, K, V * (torch.arange(V.shape[1]) != number)[:, None, None], *rest)

    with ExitStack() as stack:
        for kind, layer, head in heads:
            module = attentions(model)[kind][layer]
            stack.callback(setattr, module, "attend", module.attend)
            module.attend = of_module(module.attend, head)
        yield


def pairs(text=TEXT):
    """Return the sentences one by one: source, decoder input, and labels."""
    for source, labels in zip(text.source, text.target, strict=True):
        labels = labels.astype(np.int64)
        yield packed([source]), packed([[PAD, *labels[:-1]]]), torch.from_numpy(labels)


def loss_by_hand(model, heads=()) -> float:
    """Return the mean cross-entropy of PyTorch, computed sentence by sentence."""
    with without_values(model, heads):
        losses = [
            F.cross_entropy(model(source, target) @ model.output_weight().T, labels, reduction="none")
            for source, target, labels in pairs()
        ]
    return torch.cat(losses).mean().item()


@pytest.mark.parametrize("heads", [[], *([Head(kind, 1, 0)] for kind in KINDS), [Head(kind, 0, 1) for kind in KINDS]])
def test_losses_are_pytorchs(model, heads):
    assert TeacherForced(model, TEXT, range(13)).loss(heads) == pytest.approx(loss_by_hand(model, heads), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_curve_takes_the_head_that_costs_least_on_some_sentences_and_measures_on_all(model, kind):
    heads = [Head(kind, layer, head) for layer in range(2) for head in range(2)]
    chosen, everything = TeacherForced(model, TEXT, range(5)), TeacherForced(model, TEXT, range(13))
    removed = []
    for head, loss in _curve(heads, chosen, everything):
        losses = {other: chosen.loss([*removed, other]) for other in heads if other not in removed}
        assert losses[head] == min(losses.values())
        removed.append(head)
        assert loss == pytest.approx(loss_by_hand(model, removed), abs=1e-5)
    assert sorted(removed) == heads


def test_distances_equal_those_of_single_sentences(model):
    measured = distances(model, TEXT)
    sums, queries = {kind: np.zeros((3, 2)) for kind in KINDS}, dict.fromkeys(KINDS, 0)
    for source, target in zip(TEXT.source, TEXT.target, strict=True):
        for kind, table in attention_weights(model, source.tolist(), target.tolist()).items():
            L_q, L_k = table.shape[2:]
            even = np.tril(np.ones((L_q, L_k))) if kind == "decoder" else np.ones((L_q, L_k))
            even = np.broadcast_to(even / even.sum(axis=1, keepdims=True), (1, 2, L_q, L_k))
            for i in range(L_q):
                far = np.array([abs(j - i * L_k / L_q) for j in range(L_k)])
                sums[kind] += np.concatenate([table.numpy(), even])[:, :, i] @ far
            queries[kind] += L_q
    for kind in KINDS:
        np.testing.assert_allclose(measured[kind], sums[kind] / queries[kind], rtol=1e-5)


def test_the_analysis_of_a_run_of_one_layer_and_two_heads(place, own, tmp_path):
    """The first masked head costs the same as in isolation. Without the memory, copies are lost. BLEU as with zeros."""
    run = opened(place)
    found = analyse("heads", run, choose=7)
    assert math.exp(found["loss"]) == pytest.approx(run.predict().perplexity, rel=1e-5)
    assert (found["layers"], found["heads"], found["sentences"]) == (1, 2, PAIRS)
    assert tuple(found["kinds"]) == KINDS
    for of_kind in found["kinds"].values():
        steps = of_kind["curve"]
        assert [step["masked"] for step in steps] == [1, 2]
        assert {(step["layer"], step["head"]) for step in steps} == {(1, 1), (1, 2)}
        first = of_kind["increase"][0][steps[0]["head"] - 1]
        assert steps[0]["loss"] - found["loss"] == pytest.approx(first, abs=3e-6)
        assert min(*of_kind["distance"][0], of_kind["equal"]) > 0
    assert found["kinds"]["cross"]["curve"][-1]["loss"] > found["loss"] + 1
    # A quarter of two heads is rounded to none, a half to one, three quarters to two.
    scores = {(entry["kind"], entry["masked"]): entry for entry in found["bleu"]}
    assert list(scores) == [(None, 0), *((kind, count) for kind in KINDS for count in (1, 2))]
    assert scores["cross", 2]["bleu"] < scores[None, 0]["bleu"]
    lines = (own / "dev.en").read_text().splitlines()
    tensors, header = load_tensors(own / "run" / "average.safetensors")
    forge(own / "run")
    for kind, count in ((None, 0), ("decoder", 1), ("cross", 1)):
        changed = dict(tensors)
        for step in found["kinds"][kind]["curve"][:count] if kind else []:
            name, first = f"{MATRIX[kind]}.output.weight", (step["head"] - 1) * D_V
            changed[name] = changed[name].clone()
            changed[name][:, first : first + D_V] = 0
        save_tensors(own / "run" / "average.safetensors", changed, header)
        expected = by_commands(own / "run", (lines, lines), tmp_path)
        assert {key: scores[kind, count][key] for key in expected} == expected
