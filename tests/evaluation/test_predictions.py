"""Predictions against a model on one sentence at a time; averages and beams against the subcommands."""

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support.analysing import STEPS, analyse, by_commands
from support.commands import do
from support.toy import random_model, random_text

from transformer.config.experiment import PAD, load, save
from transformer.device import World
from transformer.evaluation.predictions import averaging, calibration, predict, smoothing
from transformer.evaluation.significance import limits
from transformer.files import InputError
from transformer.layout import Data
from transformer.model import weights
from transformer.model.packed import pack
from transformer.training.batches import open_text
from transformer.training.log import Evaluation

pytestmark = pytest.mark.usefixtures("on_the_processor")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def averages(place):
    return analyse(averaging, place, checkpoints=[1, 2, 3, 4])["averages"]


def dev_perplexity(place, file) -> float:
    """Return the perplexity of the encoded dev set, as a training measures it."""
    experiment = load(place / "run" / "experiment.yaml")
    dev = open_text(Data(place / "data"), "dev", experiment)
    evaluation = Evaluation(dev, None, (600, 600), 0, World(0, 1, CPU))
    return evaluation.perplexity(weights.load_model(file, experiment.model), torch.float32)


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


def test_only_checkpoints_that_were_kept_are_averaged(averages, place):
    assert [entry["steps"] for entry in averages] == [
        [STEPS],
        [STEPS - 10, STEPS],
        [STEPS - 20, STEPS - 10, STEPS],
    ]
    assert averages[0]["perplexity"] == pytest.approx(dev_perplexity(place, place / "run" / "last.safetensors"))
    assert len({entry["perplexity"] for entry in averages}) == 3


@pytest.mark.parametrize("count", [1, 3])
def test_an_average_is_that_of_the_subcommand(averages, own, tmp_path, count):
    run = own / "run"
    for path in sorted((run / "checkpoints").iterdir())[:-count]:
        path.unlink()
    experiment = load(run / "experiment.yaml")
    training = replace(experiment.training, averaged_checkpoints=count)
    save(replace(experiment, training=training), run / "experiment.yaml")
    do("average", "--run", run)
    lines = (own / "dev.en").read_text().splitlines()
    entry = averages[count - 1]
    expected = by_commands(run, (lines, lines), tmp_path)
    assert {key: entry[key] for key in expected} == expected
    assert 0 < entry["bleu"] < 100
    assert entry["perplexity"] == pytest.approx(dev_perplexity(own, run / "average.safetensors"))


def test_missing_or_foreign_checkpoints_are_refused(own):
    for path in sorted((own / "run" / "checkpoints").iterdir())[:-1]:
        path.unlink()
    with pytest.raises(InputError, match=r"/checkpoints: expected 2 checkpoints at least, found 1$"):
        analyse(averaging, own, checkpoints=[2, 10])
    tensors, header = weights.load(own / "run" / "last.safetensors")
    weights.save(own / "run" / "checkpoints" / "00000001.safetensors", tensors, header | {"digest": "another"})
    with pytest.raises(
        InputError, match=r"/00000001\.safetensors: expected weights of the training \w+, found another"
    ):
        analyse(averaging, own, checkpoints=[1])


def test_calibration_by_hand():
    """Of the five tokens, two are in (0.9, 1], two in (0.2, 0.3], and one in (0.5, 0.6]."""
    found = calibration(np.array([0.95, 0.25, 0.55, 0.91, 0.3]), np.array([1, 1, 1, 0, 0]))
    gaps = 2 * (0.93 - 0.5), 2 * (0.5 - 0.275), 1 - 0.55
    assert found["error"] == pytest.approx(sum(gaps) / 5)
    assert (found["confidence"], found["accuracy"]) == pytest.approx((2.96 / 5, 3 / 5))
    assert [entry["tokens"] for entry in found["bins"]] == [0, 0, 2, 0, 0, 1, 0, 0, 0, 2]
    assert found["bins"][2] == pytest.approx({"tokens": 2, "confidence": 0.275, "accuracy": 0.5})
    assert found["bins"][0] == {"tokens": 0, "confidence": None, "accuracy": None}


def test_calibration_at_the_ends():
    """Certainty may come out as a little more than 1; if it is always right, nothing is missing."""
    found = calibration(np.array([1.0, 1 + 1e-7, 0.1]), np.array([1, 1, 0]))
    assert [entry["tokens"] for entry in found["bins"]] == [1, *[0] * 8, 2]
    assert found["error"] == pytest.approx(0.1 / 3, abs=1e-6)


def test_smoothing_has_the_beams_of_the_subcommands(averages, place, tmp_path):
    found = analyse(smoothing, place, beams=[1, 5])
    lines = (place / "dev.en").read_text().splitlines()
    for entry, beam in zip(found["beams"], (1, 5), strict=True):
        assert entry == {"beam": beam} | by_commands(place / "run", (lines, lines), tmp_path, beam=beam)
        assert 0 < entry["bleu"] < 100
    assert (found["epsilon_ls"], found["perplexity"]) == (0.1, averages[2]["perplexity"])
    low, high = limits(found["perplexity_draws"])
    assert low < found["perplexity"] < high
    tokens = sum(entry["tokens"] for entry in found["calibration"]["bins"])
    assert tokens == np.fromfile(place / "data" / "dev.target.offsets", dtype="<i8")[-1]
    assert 0 < found["calibration"]["accuracy"] < 1
