"""Calibration by hand, and the beams against the stages translate and score."""

import json

import numpy as np
import pytest
from support.probing import by_stages, measured

from transformer.evaluation.significance import limits
from transformer.evaluation.smoothing import calibration

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def smoothing(place):
    return measured(place, "smoothing", "--beams", 1, 5)


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
    """Certainty may come out as a little more than 1; where it is always right, nothing is missing."""
    found = calibration(np.array([1.0, 1 + 1e-7, 0.1]), np.array([1, 1, 0]))
    assert [entry["tokens"] for entry in found["bins"]] == [1, *[0] * 8, 2]
    assert found["error"] == pytest.approx(0.1 / 3, abs=1e-6)


def test_beams_are_those_of_the_stages(smoothing, place, tmp_path):
    lines = (place / "dev.en").read_text().splitlines()
    assert [entry.pop("beam") for entry in smoothing["beams"]] == [1, 5]
    for entry, beam in zip(smoothing["beams"], (1, 5), strict=True):
        assert entry == by_stages(place / "run", (lines, lines), tmp_path, beam=beam)
        assert 0 < entry["bleu"] < 100


def test_of_the_training_and_the_dev_set(smoothing, place):
    """Perplexity is that of the average, which test_averaging.py compares with the training's own."""
    assert smoothing["epsilon_ls"] == 0.1
    average = measured(place, "averaging", "--checkpoints", 3)["averages"][0]
    assert smoothing["perplexity"] == average["perplexity"]
    low, high = limits(smoothing["perplexity_draws"])
    assert low < smoothing["perplexity"] < high
    tokens = sum(entry["tokens"] for entry in smoothing["calibration"]["bins"])
    dev = np.fromfile(place / "data" / "dev.target.offsets", dtype="<i8")
    assert tokens == dev[-1]
    assert 0 < smoothing["calibration"]["accuracy"] < 1
    assert json.loads((place / "smoothing.json").read_text())["sentences"] == len(dev) - 1
