"""Figures of BLEU. The tests read points, bars and names from the axes."""

import math
from itertools import combinations

import pytest
from support.scored import score, write_scores

from transformer.report.figures.bleu import bleu_flops, bleu_parameters, differences

TABLE_2, TABLE_3 = "workflow/paper/table2.csv", "workflow/paper/table3.csv"


def test_each_experiment_has_the_papers_difference_and_our_two(tmp_path):
    """25.8 is the paper's base, 24.9 its heads-1. Without our row, nothing is drawn."""
    scored = [
        [
            score(bleu, experiment=name, seed=seed)
            for name, seed, bleu in (("base", 1, 30), ("base", 2, 31), ("heads-1", 1, low))
        ]
        for low in (28, 29)
    ]
    dev, test = (write_scores(tmp_path / str(place), *scores) for place, scores in enumerate(scored))
    drawing = differences(paper=TABLE_3, score=dev, test=test, expected=["en-de/big/1"])
    (axes,) = drawing.figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["heads-1"]
    handles, labels = axes.get_legend_handles_labels()
    lines = [handle if label == "the paper" else handle.lines[0] for handle, label in zip(handles, labels, strict=True)]
    drawn = {label: (*line.get_xdata(), line.get_marker()) for label, line in zip(labels, lines, strict=True)}
    expected = {"the paper": (-0.9, "D"), "ours, dev": (-2.5, "o"), "ours, test": (-1.5, "s")}
    assert {label: (pytest.approx(value), marker) for label, (value, marker) in expected.items()} == drawn
    for line, bars, value in zip(lines[1:], (handle.lines[2][0] for handle in handles[1:]), (-2.5, -1.5), strict=True):
        ((low, height), (high, _)) = bars.get_segments()[0]
        assert low < value < high
        assert (low + high) / 2 == pytest.approx(value, abs=0.3 * (high - low))
        assert height == line.get_ydata()[0]
    assert "heads-1: −0.9, −2.5, −1.5." in drawing.alt
    assert "not shown: en-de/big/1" in drawing.caption


def parameters(folder, *scores, expected=()):
    files = {"score": write_scores(folder, *scores), "paper": TABLE_3}
    return bleu_parameters(**files, dev_label="toy", expected=list(expected))


def flops(folder, scores):
    return bleu_flops(score=write_scores(folder / "test", *scores), paper=TABLE_2, label="toy", expected=[])


def test_parameters_have_means_over_seeds_and_the_papers_rows(tmp_path):
    """30 and 34: mean 32, deviation √8. A blank in the paper has base's parameters, and is not drawn."""
    scores = score(30.0), score(34.0, seed=2), score(20.0, experiment="mine", parameters=7)
    drawing = parameters(tmp_path, *scores, expected=["en-de/big/1"])
    printed, ours = drawing.alt.split("; ")
    assert printed.count(" at ") == 11
    assert "heads-1" not in printed
    assert "big 26.4 at 2.1e+08" in printed
    assert ours == "ours: toy: base 32.0 at 1.9e+06, mine 20.0 at 7"
    (bars,) = [bars for bars in drawing.figure.axes[1].containers if bars.has_yerr and bars.lines[2][0].get_segments()]
    ((low, high),) = [segment[:, 1] for segment in bars.lines[2][0].get_segments()]
    assert high - low == pytest.approx(2 * math.sqrt(8))
    assert "not shown: en-de/big/1" in drawing.caption
    assert drawing.figure.axes[0].get_xlim() != drawing.figure.axes[1].get_xlim()


def test_scales_are_shared_if_ours_can_be_compared(tmp_path):
    left, right = parameters(tmp_path, score(30.0, parameters=65_000_000)).figure.axes
    assert left.get_xlim() == right.get_xlim()


def test_ticks_do_not_overlap_where_all_cost_about_the_same(tmp_path):
    drawing = flops(tmp_path, [score(30.0), score(31.0, experiment="lstm", flops=1.4e15)])
    drawing.figure.draw_without_rendering()
    axes = drawing.figure.axes[1]
    boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
    assert len(boxes) > 1
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_flops_have_a_row_per_task_and_names_that_do_not_overlap(tmp_path):
    scores = score(30.0), score(40.0, experiment="big", flops=6e15), score(50.0, task="en-fr")
    drawing = flops(tmp_path, scores)
    printed, ours, _, french = drawing.alt.split("; ")
    assert "Transformer (big) 28.4 at 2.3e+19" in printed
    assert "ByteNet" not in printed  # no printed FLOPs
    assert ours == "EN-DE, ours: toy: base 30.0 at 1.5e+15, big 40.0 at 6e+15"
    assert french == "EN-FR, ours: toy: base 50.0 at 1.5e+15"
    for axes, count in ((drawing.figure.axes[0], 7), (drawing.figure.axes[2], 9)):
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == count
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
