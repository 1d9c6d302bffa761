"""Figures of analyses, heads and lengths: numbers, captions and refusals; test_recorded.py compares what is drawn."""

import json
from types import SimpleNamespace

import numpy as np
from support.scored import score

from transformer.report.figures.analyses import bleu_length, head_importance, short_number

KINDS = ("encoder", "decoder", "cross")
RUN = "en-de/base/1"


def bleu(value: float, low: float, high: float) -> dict:
    return {"bleu": value, "low": low, "high": high, "draws": [value], "length_ratio": 1.0}


def analysis_of_heads(N: int = 2, h: int = 3) -> dict:
    """Return an analysis without two equal numbers; without the second head of the cross attention loss is less."""
    kinds, scores = {}, [{"kind": None, "masked": 0} | bleu(30.0, 28.0, 31.0)]
    for number, kind in enumerate(KINDS):
        table = number + np.arange(N * h).reshape(N, h) / 10
        curve = [{"masked": n, "layer": 1, "head": 1, "loss": number + n} for n in range(1, N * h + 1)]
        kinds[kind] = {"increase": (table / 100).tolist(), "distance": table.tolist()}
        kinds[kind] |= {"equal": number + 7.25, "curve": curve}
        scores.append({"kind": kind, "masked": 3} | bleu(20.0 + number, 19.0, 23.5 + number))
    kinds["cross"]["increase"][0][1] = -0.0125
    content = {"run": score(30.0)["run"], "target_sha256": "ab", "sentences": 1014, "layers": N, "heads": h}
    return content | {"loss": 0.5, "kinds": kinds, "bleu": scores}


def drawn_heads(folder, content):
    (folder / "heads.json").write_text(json.dumps(content))
    return head_importance(SimpleNamespace(heads=str(folder / "heads.json")), None)


def test_many_heads_have_no_numbers(tmp_path):
    """Of the decoder, 1.0, 1.1 and 1.2 have the mean 1.1; 1.3, 1.4 and 1.5 have 1.4."""
    drawing = drawn_heads(tmp_path, analysis_of_heads())
    assert "; decoder 1.1, 1.4 (equal weights: 8.2);" in drawing.caption
    assert "decoder to encoder: head 3 of layer 2 matters most, 0.025 nats" in drawing.alt
    assert any(axes.texts for axes in drawing.figure.axes)
    assert not any(axes.texts for axes in drawn_heads(tmp_path, analysis_of_heads(N=6, h=16)).figure.axes)


def test_numbers_are_short_and_right():
    numbers = [(0.0314, 3), (-0.0125, 3), (1.26, 3), (-0.0004, 3), (10.44, 1), (0.55, 1), (0.04, 1)]
    assert [short_number(*number) for number in numbers] == [".031", "−.013", "1.3", "0", "10.4", "0.6", "0"]


def analysis_of_lengths(positions: str = "sinusoid", skipped: int = 0, **run) -> dict:
    """Return an analysis of two groups of single sentences and two of joined ones."""
    numbers = [(None, 20, 10.5, 30.0), (None, 20, 20.5, 25.0), (1, 12, 42.0, 20.0), (2, 6, 83.0, 5.0)]
    groups = [
        {"times": times, "sentences": sentences, "tokens": tokens} | bleu(value, value - 2, value + 3)
        for times, sentences, tokens, value in numbers
    ]
    content = {"run": score(30.0, **run)["run"], "target_sha256": "ab", "sentences": 40, "positions": positions}
    return content | {"longest": 40, "skipped": skipped, "groups": groups}


def drawn_lengths(folder, *contents, expected=()):
    paths = [folder / f"lengths{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    params = SimpleNamespace(dev_label="toy", expected=list(expected))
    return bleu_length(SimpleNamespace(lengths=list(map(str, paths))), params)


def test_without_a_run_the_axes_say_so(tmp_path):
    drawing = drawn_lengths(tmp_path, expected=[RUN])
    assert [text.get_text() for text in drawing.figure.axes[0].texts] == ["no runs"]
    assert "Runs:" not in drawing.caption
    assert f"not shown: {RUN}" in drawing.caption
