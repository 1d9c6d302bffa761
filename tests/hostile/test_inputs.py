"""Inputs of ill will: words that look like code, brackets without end."""

import numpy as np
import pandas as pd
import pytest

from transformer.files import InputError
from transformer.parsing.trees import bracketed, parse
from transformer.report.figures.attention import Sentence, draw_attention
from transformer.report.figures.cost import Panel, panels_of
from transformer.report.figures.style import new

DEEP = 200_000


# Words that look like code.


def test_words_of_figures_are_drawn_as_they_are():
    """As many dollars as in a formula, and one that matplotlib could not read."""
    words = ["$x$", "$\\frac$"]
    drawn, axes = new(3.5, 3)
    draw_attention(axes, 0, Sentence(words, np.ones((1, 2, 2)) / 2, 1, "a run", {}), {0: "black"}, "title")
    drawn.draw_without_rendering()
    shown = [text for text in axes.texts if text.get_text() in words]
    assert len(shown) == 4
    points = pd.DataFrame({"name": [], "x": [], "y": []})
    of_labels, _ = panels_of([[Panel("ours: $\\frac$", points)] * 2], "x")
    of_labels.draw_without_rendering()


def test_brackets_without_end():
    """As deep as no recursion reaches; one that is missing is missed."""
    tree = f"{'(S ' * DEEP}(A a){')' * DEEP}"
    ((_, read),) = parse([tree], "trees")
    assert bracketed(read) == tree
    with pytest.raises(InputError, match=r"trees, line 1: unbalanced brackets: .* lacks 1 '\)'"):
        list(parse([tree[:-1]], "trees"))
