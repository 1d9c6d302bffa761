"""What probes share: predictions against a model run on one sentence at a time, scores, and what is refused."""

import json
from statistics import quantiles

import pytest
import torch
from msgspec.structs import replace
from support.probing import PAIRS, measured, options
from support.toy import random_lines, random_model, random_text, write_text

from transformer import __main__
from transformer.config.experiment import PAD, load, save
from transformer.config.runs import PROBED
from transformer.evaluation.measures import open_subject, predict, score
from transformer.evaluation.origin import describe
from transformer.model.packed import POSITIONS, pack

CPU = torch.device("cpu")
OWN = {
    "lengths": ["--data", "data", "--times", "1"],
    "averaging": ["--checkpoints", "1"],
    "smoothing": ["--beams", "1"],
    "heads": ["--choose", "5"],
}
pytestmark = pytest.mark.usefixtures("on_the_processor")


@torch.no_grad()
def test_predictions_are_those_of_each_sentence_alone():
    model, text = random_model(1), random_text(2, 23)
    predictions = predict(model, text)
    expected = []
    for source, labels in zip(text.source, text.target, strict=True):
        target = pack([[PAD, *labels[:-1]]], CPU)
        p = (model(pack([source], CPU), target) @ model.embedding.weight.T).softmax(dim=1)
        expected += [
            (-float(row[label].log()), float(row.max()), int(row.argmax()) == label)
            for row, label in zip(p, labels.tolist(), strict=True)
        ]
    losses, confidence, correct = zip(*expected, strict=True)
    assert predictions.losses == pytest.approx(losses, rel=1e-4)
    assert predictions.confidence == pytest.approx(confidence, rel=1e-4)
    assert predictions.correct.tolist() == list(correct)
    assert 0 < sum(correct) < len(correct)
    assert predictions.perplexity == pytest.approx(torch.tensor(losses).mean().exp().item(), rel=1e-4)


def test_score_of_known_sentences():
    """Half of the words of the references are written, all in their places: BLEU is the brevity penalty, exp(1 - 2)."""
    scores = score(["a b c d"], ["a b c d e f g h"], "en")
    assert scores["bleu"] == pytest.approx(100 * 2.718281828**-1)
    assert scores["length_ratio"] == 0.5
    assert set(scores["draws"]) == {36.788}


def test_interval_holds_95_percent_of_the_draws():
    references = random_lines(3, 60, longest=9)
    scores = score([line.replace("cd", "dc") for line in references], references, "en")
    cuts = quantiles(scores["draws"], n=40, method="inclusive")  # every 2.5 %
    assert (scores["low"], scores["high"]) == pytest.approx((cuts[0], cuts[-1]))
    assert scores["low"] < scores["bleu"] < scores["high"]


@pytest.mark.parametrize("name", PROBED)
def test_header(place, name):
    own = [place / option if option == "data" else option for option in OWN[name]]
    probed = measured(place, name, *own, "--sentences", 8)
    assert probed["run"] == describe(place / "run", None)
    assert (probed["language"], probed["sentences"]) == ("de", 8)


def test_sentences_are_drawn_at_equal_distances(place):
    subject = open_subject(place / "run", place / "dev.en", place / "dev.de", 4)
    lines = (place / "dev.en").read_text().splitlines()
    assert subject.sources == subject.references == [lines[10], lines[20], lines[30], lines[40]]


def refused(name: str, place, *more) -> str:
    """Return the one line with which the probe ends."""
    with pytest.raises(SystemExit) as error:
        __main__.main(["probe", *options(place, name, *more)])
    message = str(error.value)
    assert "\n" not in message
    return message


def test_sides_of_unequal_length_are_refused(own):
    write_text(own / "dev.de", random_lines(2, PAIRS - 1))
    message = refused("smoothing", own, "--beams", 1)
    assert message.startswith("transformer probe: error: expected as many lines on both sides")
    assert f"dev.en has {PAIRS}" in message
    assert f"dev.de has {PAIRS - 1}" in message


def test_empty_sides_are_refused(own):
    for language in ("en", "de"):
        write_text(own / f"dev.{language}", [])
    assert "expected sentence pairs, found none" in refused("smoothing", own, "--beams", 1)


def test_references_without_words_are_refused(own):
    write_text(own / "dev.de", [""] * PAIRS)
    message = refused("smoothing", own, "--beams", 1)
    assert message.endswith(f"BLEU: expected words in the references, found {PAIRS} blank lines")


@pytest.mark.parametrize(("language", "most"), [("en", POSITIONS - 5), ("de", POSITIONS)])
def test_a_line_that_is_too_long_is_named(own, language, most):
    """The model has no position for its last token; on the source side, there has to be room for the translation."""
    lines = (own / f"dev.{language}").read_text().splitlines()
    lines[30] = "ab " * 2000
    write_text(own / f"dev.{language}", lines)
    message = refused("smoothing", own, "--beams", 1, "--sentences", 4)
    assert f"dev.{language}, line 31: expected {most} subwords at most, found " in message


def test_weights_of_another_training_are_refused(own):
    path = own / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": "another"}))
    assert "average.safetensors: expected weights of the training another" in refused("smoothing", own, "--beams", 1)


def test_weights_that_do_not_fit_are_refused(own):
    path = own / "run" / "experiment.yaml"
    experiment = load(path)
    save(replace(experiment, model=replace(experiment.model, d_ff=65)), path)
    assert "feed_forward.inner.bias: expected shape (65,), found (64,)" in refused("smoothing", own, "--beams", 1)
