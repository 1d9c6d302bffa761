"""The probe `heads` of a run that has learned to copy: against its own loss, and the stages translate and score."""

import math

import pytest
from support.probing import PAIRS, by_stages, measured

from transformer.model.weights import load, save

pytestmark = pytest.mark.usefixtures("on_the_processor")
MATRIX = {"encoder": "encoder.0.self_attention", "decoder": "decoder.0.self_attention"}
MATRIX |= {"cross": "decoder.0.cross_attention"}
KINDS, D_V = tuple(MATRIX), 16


@pytest.fixture(scope="module")
def heads(place):
    """Return what the probe wrote of the run, which has one layer of two heads."""
    return measured(place, "heads", "--choose", 7)


def test_the_loss_is_that_of_the_perplexity(heads, place):
    average = measured(place, "averaging", "--checkpoints", 3)["averages"][0]
    assert math.exp(heads["loss"]) == pytest.approx(average["perplexity"], rel=1e-5)
    assert (heads["layers"], heads["heads"], heads["sentences"]) == (1, 2, PAIRS)


def test_a_curve_begins_and_ends_as_it_must(heads):
    """The first head that goes costs what it costs alone; heads are those of the layers, each once."""
    assert list(heads["kinds"]) == list(KINDS)
    for measures in heads["kinds"].values():
        steps = measures["curve"]
        assert [step["masked"] for step in steps] == [1, 2]
        assert {(step["layer"], step["head"]) for step in steps} == {(1, 1), (1, 2)}
        first = measures["increase"][0][steps[0]["head"] - 1]
        assert steps[0]["loss"] - heads["loss"] == pytest.approx(first, abs=3e-6)


def test_without_the_memory_a_copy_is_lost(heads):
    """The last two heads that look at the source are all that is known of it; distances are not below zero."""
    cross = heads["kinds"]["cross"]
    assert cross["curve"][-1]["loss"] > heads["loss"] + 1
    for measures in heads["kinds"].values():
        assert min(measures["distance"][0]) > 0
        assert measures["equal"] > 0


def test_bleu_is_that_of_the_stages_with_weights_of_zero(heads, own, tmp_path):
    """A quarter of two heads is none, rounded; a half is one, three quarters are two."""
    assert [(entry["kind"], entry["masked"]) for entry in heads["bleu"]] == [
        (None, 0),
        *((kind, masked) for kind in KINDS for masked in (1, 2)),
    ]
    lines = (own / "dev.en").read_text().splitlines()
    tensors, header = load(own / "run" / "average.safetensors")
    for entry in heads["bleu"]:
        changed = dict(tensors)
        for step in heads["kinds"][entry["kind"]]["curve"][: entry["masked"]] if entry["kind"] else []:
            name = f"{MATRIX[entry['kind']]}.output.weight"
            first = (step["head"] - 1) * D_V
            changed[name] = changed[name].clone()
            changed[name][:, first : first + D_V] = 0
        save(own / "run" / "average.safetensors", changed, header)
        expected = by_stages(own / "run", (lines, lines), tmp_path)
        assert {key: entry[key] for key in expected} == expected
    scores = {(entry["kind"], entry["masked"]): entry["bleu"] for entry in heads["bleu"]}
    assert scores["cross", 2] < scores[None, 0]
