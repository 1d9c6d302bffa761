"""The differences from base: the paper's and two of ours, read back from the axes."""

from types import SimpleNamespace

import pytest
from support.project import ROOT
from support.scored import score, write_scores

from transformer.report.figures.effects import differences


def test_each_experiment_has_the_papers_difference_and_two_of_ours(tmp_path):
    """25.8 is the paper's base, 24.9 its heads-1; without a row of ours nothing is drawn."""
    scored = [
        [
            score(bleu, experiment=name, seed=seed)
            for name, seed, bleu in (("base", 1, 30), ("base", 2, 31), ("heads-1", 1, low))
        ]
        for low in (28, 29)
    ]
    dev, test = (write_scores(tmp_path / str(place), *scores) for place, scores in enumerate(scored))
    input = SimpleNamespace(paper=str(ROOT / "workflow/paper/table3.csv"), score=dev, test=test)
    drawing = differences(input, SimpleNamespace(expected=["en-de/big/1"], data_of_paper=False))
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
