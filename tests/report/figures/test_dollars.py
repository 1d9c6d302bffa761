"""Words of figures that look like formulas."""

import numpy as np
import pandas as pd

from transformer.report.figures.attention import ShownSentence, draw_attention
from transformer.report.figures.cost import Panel, panels_of
from transformer.report.figures.style import new


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
