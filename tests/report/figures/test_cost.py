"""BLEU over its costs: points, bars and names are read back from the axes."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.scored import score, write_scores

from transformer.report.figures.attention import ShownSentence, draw_attention
from transformer.report.figures.cost import Panel, bleu_flops, bleu_parameters, panels_of
from transformer.report.figures.style import new

TABLE_2, TABLE_3 = "workflow/paper/table2.csv", "workflow/paper/table3.csv"


def parameters(folder, *scores, expected=()):
    input = SimpleNamespace(score=write_scores(folder, *scores), paper=TABLE_3)
    return bleu_parameters(input, SimpleNamespace(dev_label="toy", expected=list(expected)))


def flops(folder, scores, dev, expected=()):
    input = SimpleNamespace(score=write_scores(folder / "test", *scores), dev=write_scores(folder / "dev", *dev))
    input.paper = TABLE_2
    return bleu_flops(input, SimpleNamespace(label="toy", expected=list(expected)))


def test_parameters_have_means_over_seeds_and_the_papers_rows(tmp_path):
    """30 and 34: mean 32, deviation √8. The paper leaves heads-1's parameters blank: base's 65 million."""
    scores = score(30.0), score(34.0, seed=2), score(20.0, experiment="mine", parameters=7)
    drawing = parameters(tmp_path, *scores, expected=["en-de/big/1"])
    printed, ours = drawing.data["points"].values()
    by_name = {point["name"]: point for point in printed}
    assert len(printed) == 20
    assert by_name["heads-1"] == {"name": "heads-1", "kind": "A", "x": 65e6, "y": 24.9}
    assert by_name["big"]["x"] == 213e6
    assert ours[0] == {"name": "base", "kind": "base", "x": 1_900_544, "y": 32.0}
    assert ours[1] == {"name": "mine", "kind": "ours", "x": 7.0, "y": 20.0}
    (bars,) = [bars for bars in drawing.figure.axes[1].containers if bars.has_yerr and bars.lines[2][0].get_segments()]
    ((low, high),) = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
    assert high - low == pytest.approx(2 * math.sqrt(8))
    assert "not shown: en-de/big/1" in drawing.caption


def test_scales_are_shared_if_ours_can_be_compared(tmp_path):
    far, near = (
        parameters(tmp_path / str(count), score(30.0, parameters=count)).figure.axes for count in (9, 65_000_000)
    )
    assert far[0].get_xlim() != far[1].get_xlim()
    assert near[0].get_xlim() == near[1].get_xlim()


def test_flops_have_a_row_per_task_and_names_that_do_not_overlap(tmp_path):
    scores = score(30.0), score(40.0, experiment="big", flops=6e15), score(50.0, task="en-fr")
    drawing = flops(tmp_path, scores, [score(25.0, experiment="heads-1")])
    printed, ours, _, french = drawing.data["points"].values()
    assert {"name": "Transformer (big)", "kind": "paper", "x": 2.3e19, "y": 28.4} in printed
    assert "ByteNet" not in {point["name"] for point in printed}  # no FLOPs in print
    kinds = [("base", "test set"), ("big", "test set"), ("heads-1", "dev")]
    assert [(point["name"], point["kind"]) for point in ours] == kinds
    assert [point["y"] for point in french] == [50.0]
    for axes, count in ((drawing.figure.axes[0], 7), (drawing.figure.axes[2], 9)):
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == count
        assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


def test_without_any_score_the_papers_side_stands_alone(tmp_path):
    tmp_path.joinpath("test").mkdir()
    drawing = flops(tmp_path, [], [], ["en-de/base/1"])
    printed, ours = drawing.data["points"].values()
    assert (len(printed), ours) == (7, [])
    assert "no scores" in [text.get_text() for text in drawing.figure.axes[1].texts]
    assert "not shown: en-de/base/1" in drawing.caption


def test_words_of_figures_are_drawn_as_they_are():
    """As many dollars as in a formula, and one that matplotlib could not read."""
    words = ["$x$", "$\\frac$"]
    drawn, axes = new(3.5, 3)
    draw_attention(axes, 0, ShownSentence(words, np.ones((1, 2, 2)) / 2, 1, "a run", {}), [0], "title")
    drawn.draw_without_rendering()
    shown = [text for text in axes.texts if text.get_text() in words]
    assert len(shown) == 4
    points = pd.DataFrame({"name": [], "x": [], "y": []})
    of_labels, _ = panels_of([[Panel("ours: $\\frac$", points)] * 2], "x")
    of_labels.draw_without_rendering()
