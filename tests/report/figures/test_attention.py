"""Figures 3 to 5 of hand-made weights. The tests read lines and texts from the axes."""

import json

import numpy as np
import pytest

from transformer.report.figures import COLORS
from transformer.report.figures.attention import _by_word, _distance, _entropies, _two_structured, figure3, figure4
from transformer.storage.files import InputError

ITS = {"text": "The bird its", "from": "its", "to": ["bird"]}


def test_weights_of_subwords_become_weights_of_words():
    """Weights to a word's subwords are added, weights from them averaged: (.1, .2 + .3, .4) and the mean of two."""
    weights = np.array([[[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4]])
    words, found = _by_word(["a", "b@@", "c", "d"], weights)
    assert words == ["a", "bc", "d"]
    np.testing.assert_allclose(found, [[[0.1, 0.5, 0.4], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]])


def test_structured_heads_are_sharp_and_unlike():
    """Uniform attention over 4 words has 2 bits. Two of the three sharp heads are nearly equal."""
    same, reverse, uniform = np.eye(4), np.eye(4)[::-1], np.full((4, 4), 0.25)
    nearly = 0.9 * same + 0.1 * uniform
    heads = np.stack([uniform, same, nearly, uniform, uniform, reverse])
    assert _entropies(heads)[[0, 1]] == pytest.approx([2, 0], abs=1e-6)
    assert _distance(same, reverse) == 1
    assert _distance(same, uniform) == pytest.approx(0.75)
    assert _two_structured(heads) == (1, 5)
    assert _two_structured(heads[:1]) == (0,)


def drawn(tmp_path, figure, **about):
    """Draw four words and three heads. In the second layer, "its" gives 0.2, 0.7 and 0.5 to "bird"."""
    other = np.full((3, 4, 4), 0.25)
    shown = other.copy()
    shown[:, 2] = [[0.8, 0.2, 0, 0], [0.3, 0.7, 0, 0], [0.46, 0.5, 0.04, 0]]
    words, layers = ["The", "bird", "its", "<EOS>"], [other.tolist(), shown.tolist()]
    sentence = {"title": "t", "figures": about} | dict.fromkeys(("source", "target", "shifted"), words)
    sentence |= dict.fromkeys(("encoder", "decoder", "cross"), layers)
    content = {"run": "en-de/base/1", "label": "toy", "layers": 2, "heads": 3, "sentences": [sentence]}
    (tmp_path / "attention.json").write_text(json.dumps(content))
    drawing = figure(attention=str(tmp_path / "attention.json"))
    (axes,) = drawing.figure.axes
    rays = [(line.get_color(), line.get_alpha()) for line in axes.lines]
    return drawing, {text.get_text() for text in axes.texts}, rays


def test_a_word_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="expected 'cat' once, found it 0 times"):
        drawn(tmp_path, figure4, figure4=ITS | {"to": ["cat"]})


def test_figure_3_has_a_line_for_each_weight_of_one_word(tmp_path):
    drawing, texts, rays = drawn(tmp_path, figure3, figure3=ITS)
    expected = [(COLORS[0], 0.8), (COLORS[0], 0.2), (COLORS[1], 0.3), (COLORS[1], 0.7), (COLORS[2], 0.46)]
    assert rays == [*expected, (COLORS[2], 0.5)]  # 0.04 is too faint
    assert "Each colour is one of the 3 heads of layer 2. Head 2 has the strongest link." in drawing.caption
    assert (
        "the strongest head gives “bird” 0.70 of the attention of “its”. The mean of all heads is 0.36, uniform "
        "attention 0.25" in drawing.caption
    )
    assert texts == {"from “its”, layer 2, all heads", "The", "bird", "its", "<EOS>"}
    other, _, _ = drawn(tmp_path, figure4, figure4=ITS)
    assert "Right: only from “its”, in head 2 of layer 2 and head 3 of layer 2." in other.caption
    assert "0.70 and 0.50" in other.caption
    assert "Not replicated" not in other.caption
    assert drawn(tmp_path, figure3, figure3=ITS | {"from": "Its"})[2] == rays  # preprocessing lowers the first letter
    unseen, _, _ = drawn(tmp_path, figure3, figure3=ITS | {"to": ["<EOS>"]})  # 0.25 in layer 1, like all words
    assert "Not replicated" in unseen.caption
