"""Recall by distance: the sequences have the answer at its distance, and encoders learn the task."""

import json

import numpy as np
import pytest
from msgspec.structs import replace
from support.project import ROOT

from transformer.config import settings
from transformer.config.scales import ScaleSettings
from transformer.evaluation.recall import FILLER, KEYS, VALUES, draw_sequences, measure_recall
from transformer.report.figures.curves import recall
from transformer.report.tables.table1 import accuracies

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture
def of_paper(monkeypatch):
    monkeypatch.chdir(ROOT)
    return ScaleSettings(settings.read([], []), "paper").section("recall")


@pytest.mark.parametrize("distance", [4, 32])
def test_the_answer_occurs_once_at_its_distance(distance):
    """Each sequence is read by hand: the question's key occurs once before, then its value, then the distance."""
    ids, values = draw_sequences(np.random.default_rng(1), 200, distance)
    for row, value in zip(ids.tolist(), values.tolist(), strict=True):
        keys = [place for place, token in enumerate(row) if KEYS <= token < VALUES]
        asked = [place for place in keys if row[place] == row[-1]]
        assert asked == [len(row) - 1 - distance - 2, len(row) - 1]
        assert row[asked[0] + 1] == VALUES + value
        assert len(keys) == 5
        assert len({row[place] for place in keys}) == 4
        assert all(VALUES <= row[place + 1] < FILLER for place in keys[:-1])
    assert len(set(values.tolist())) == 16


@pytest.mark.slow
def test_a_convolution_learns_only_within_its_reach(of_paper):
    """It learns distance 4 but not 12, because it reaches only six tokens. The result is reproducible."""
    conv = replace(of_paper, models={"conv": of_paper.models["conv"]}, distances=[4, 12], seeds=[1])
    (model,) = measure_recall(replace(conv, steps=800))["models"]
    assert model["accuracy"]["4"] > 0.5
    assert model["accuracy"]["12"] < 0.2
    few = [measure_recall(replace(conv, steps=101))["models"][0]["accuracy"] for _ in range(2)]
    assert few[0] == few[1]


def test_encoders_are_of_one_size_and_readers_see_their_accuracies(of_paper, tmp_path):
    found = measure_recall(replace(of_paper, distances=[4, 12], seeds=[1], steps=101, tested=50))
    sizes = [model["parameters"] for model in found["models"]]
    assert max(sizes) < 1.05 * min(sizes)
    (tmp_path / "recall.json").write_text(json.dumps(found))
    drawing = recall(recall=str(tmp_path / "recall.json"))
    of_conv = [model["accuracy"]["12"] for model in found["models"] if model["architecture"] == "conv"]
    assert f"Convolution {np.mean(of_conv):.2f}" in drawing.alt
    frames = accuracies(found)
    assert list(frames) == ["Attention", "Recurrence", "Convolution"]
    assert frames["Convolution"][12].tolist() == of_conv
