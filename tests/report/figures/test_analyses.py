"""Figures of the analyses of heads and lengths: numbers, captions and gaps. The record's are compared byte for byte."""

import json
from pathlib import Path

import numpy as np
from support.scored import score

from transformer.report.figures.analyses import _short_number, bleu_length, head_importance
from transformer.storage.records import without_sum

RECORD = Path(__file__).parents[3] / "results/record/multi30k/runs/en-de/base/1"
KINDS = ("encoder", "decoder", "cross")


def analysis_of_heads(N: int = 2, h: int = 3) -> dict:
    """Return an analysis without equal numbers. The loss is lower without the second head of the cross attention."""
    bleu = {"bleu": 30.0, "low": 28.0, "high": 31.0, "draws": [30.0], "length_ratio": 1.0}
    kinds, scores = {}, [bleu | {"kind": None, "masked": 0}]
    for number, kind in enumerate(KINDS):
        table = number + np.arange(N * h).reshape(N, h) / 10
        curve = [{"masked": n, "layer": 1, "head": 1, "loss": number + n} for n in range(1, N * h + 1)]
        kinds[kind] = {"increase": (table / 100).tolist(), "distance": table.tolist()}
        kinds[kind] |= {"equal": number + 7.25, "curve": curve}
        scores.append(bleu | {"kind": kind, "masked": 3, "bleu": 29.0})
    kinds["cross"]["increase"][0][1] = -0.0125
    content = {"run": score(30.0)["run"], "target_sha256": "ab", "sentences": 1014, "layers": N, "heads": h}
    return content | {"loss": 0.5, "kinds": kinds, "bleu": scores}


def drawn_heads(folder, content):
    (folder / "heads.json").write_text(json.dumps(content))
    return head_importance(heads=str(folder / "heads.json"))


def test_many_heads_have_no_numbers(tmp_path):
    """In the decoder, 1.0, 1.1 and 1.2 have the mean 1.1. 1.3, 1.4 and 1.5 have 1.4."""
    drawing = drawn_heads(tmp_path, analysis_of_heads())
    assert "; decoder 1.1, 1.4 (8.2);" in drawing.caption
    assert "decoder to encoder: head 3 of layer 2 is most important, 0.025 nats" in drawing.alt
    assert any(axes.texts for axes in drawing.figure.axes)
    assert not any(axes.texts for axes in drawn_heads(tmp_path, analysis_of_heads(N=6, h=16)).figure.axes)


def test_numbers_are_short_and_right():
    numbers = [(0.0314, 3), (-0.0125, 3), (1.26, 3), (-0.0004, 3), (10.44, 1), (0.55, 1), (0.04, 1)]
    assert [_short_number(*number) for number in numbers] == [".031", "−.013", "1.3", "0", "10.4", "0.6", "0"]


def test_an_architecture_without_a_title_has_its_name(tmp_path):
    record = json.loads((RECORD / "lengths.json").read_text())
    (tmp_path / "lengths.json").write_text(json.dumps(without_sum(record) | {"positions": "sru"}))
    drawing = bleu_length(lengths=[str(tmp_path / "lengths.json")], dev_label="toy", expected=[])
    assert "Runs: sru: en-de/base/1." in drawing.caption
    assert "sru" in [text.get_text() for text in drawing.figure.legends[0].get_texts()]


def test_axes_without_a_run_have_a_note():
    drawing = bleu_length(lengths=[], dev_label="toy", expected=["en-de/base/1"])
    assert [text.get_text() for text in drawing.figure.axes[0].texts] == ["no runs"]
    assert "not shown: en-de/base/1" in drawing.caption
