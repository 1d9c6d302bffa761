"""Figures 3 to 5: encoder self-attention within a sentence, by layer and head."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transformer.data.corpus import CONTINUED
from transformer.evaluation.analyses.heads import KINDS
from transformer.evaluation.attention import Attention
from transformer.report.figures import COLORS
from transformer.report.figures.style import COLUMN_INCHES, LINE_INCHES, MEDIUM, Drawing, canvas, label, new
from transformer.storage.files import InputError
from transformer.storage.records import read_summed

_FAINTEST = 0.05  # minimum drawn weight, because many faint lines hide the strong ones
_BESIDE, _HEADING, _BELOW = 0.8, 0.3, 0.1  # inches for the words on each side, for the title, and below the words
_SPACING = LINE_INCHES * 1.15  # inches between words
_SEEN = 2.0  # minimum attention of a head that attends to a word, as a multiple of uniform attention
_CELL = 0.06  # inches per head's mark on a word
_SQUARE = 0.16  # inches per weight in a grid
_MOST_TOKENS = 100  # maximum per side of a grid, because 300 tokens take minutes and 10 GB
_READING = f"Stronger lines are larger weights. Weights below {_FAINTEST} are omitted. "
_READING += "If a word has several tokens, its incoming weights are added and its outgoing weights averaged."


class _ShownSentence(NamedTuple):
    """The words of a sentence in attention.json, with the attention of all encoder layers."""

    words: list[str]
    weights: np.ndarray  # [layers, h, words, words]; the last axis sums to 1
    where: str  # the run, for captions
    about: dict  # the figure's configuration: from, to

    def shares(self) -> tuple[int, np.ndarray]:
        """Find the position of the word "from", and the attention that it gives the words "to": [layers, h]."""
        places = []
        folded = [word.casefold() for word in self.words]  # because preprocessing may have changed case
        for word in (self.about["from"], *self.about["to"]):
            words, own = (self.words, word) if word in self.words else (folded, word.casefold())
            if (count := words.count(own)) != 1:
                raise InputError(f"figures: expected {word!r} once, found it {count} times in {self.words}")
            places.append(words.index(own))
        start, *to = places
        return start, self.weights[:, :, start, to].sum(axis=2)

    def canvas(self, panels: int) -> tuple[Figure, Axes]:
        return canvas(panels * COLUMN_INCHES, _BELOW + _SPACING * len(self.words) + _HEADING)

    def strongest(self, weights: np.ndarray) -> str:
        listed = (f"“{self.words[end]}” {weights[end]:.2f}" for end in np.argsort(-weights)[:3])
        return f"Lines from “{self.about['from']}” to {', '.join(listed)}"

    def answer(self, shares: np.ndarray, given: list[float]) -> str:
        """Describe the attention that a word gives others: in these heads, on average, and with uniform weights."""
        equal = len(self.about["to"]) / len(self.words)
        found = "" if given[0] >= _SEEN * equal else "Not replicated: no head gives twice the uniform attention. "
        strongest = "head gives" if len(given) == 1 else f"{len(given)} heads give"
        return (
            f"{found}Of all {shares.size} heads in {len(shares)} layers, the strongest {strongest} "
            f"“{' '.join(self.about['to'])}” {' and '.join(f'{share:.2f}' for share in given)} of the attention of "
            f"“{self.about['from']}”. The mean of all heads is {shares.mean():.2f}, uniform attention {equal:.2f}. "
        )


def _sentence_of(figure: str, attention: str) -> _ShownSentence:
    described = read_summed(attention, Attention)
    entry = next(entry for entry in described["sentences"] if figure in entry["figures"])
    layers = [_by_word(entry["source"], np.array(layer, dtype=float).round(6)) for layer in entry["encoder"]]
    where = f"Encoder self-attention of {described['run']} ({described['label']})."
    return _ShownSentence(layers[0][0], np.stack([own for _, own in layers]), where, entry["figures"][figure])


def _strongest_heads(shares: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Return layer and head, from 0, of the largest shares. Ties are resolved by order."""
    places = np.argsort(-shares.round(6), axis=None, kind="stable")[:most]
    return [(int(layer), int(head)) for layer, head in zip(*np.unravel_index(places, shares.shape), strict=True)]


def _layer(layers: int) -> int:
    """Return the layer at the relative depth of the paper's layer 5 of 6."""
    return math.floor(5 * layers / 6 + 0.5)


def _by_word(tokens: list[str], weights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Join tokens to words, and weights [h, tokens, tokens] to [h, words, words], as in `_READING`."""
    starts = [number for number in range(len(tokens)) if not (number and tokens[number - 1].endswith(CONTINUED))]
    words = [
        "".join(token.removesuffix(CONTINUED) for token in tokens[start:end])
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True)
    ]
    given = np.add.reduceat(weights, starts, axis=2)
    lengths = np.diff([*starts, len(tokens)])
    return words, np.add.reduceat(given, starts, axis=1) / lengths[:, None]


def figure3(*, attention: str) -> Drawing:
    """Draw attention from one word in all heads of the layer with the strongest link to its completion."""
    shown = _sentence_of("figure3", attention)
    (start, shares), word, completion = shown.shares(), shown.about["from"], " ".join(shown.about["to"])
    ((layer, head),) = _strongest_heads(shares, 1)
    weights = shown.weights[layer]
    figure, axes = shown.canvas(1)
    _draw_attention(axes, 0, shown.words, weights, f"from “{word}”, layer {layer + 1}, all heads", start)
    caption = (
        f"A long-distance dependency: attention from “{word}” to its completion “{completion}”. Each colour is one of "
        f"the {len(weights)} heads of layer {layer + 1}. Head {head + 1} has the strongest link. {shown.where} "
        f"{shown.answer(shares, [shares[layer, head]])}{_READING}"
    )
    return Drawing(figure, caption, shown.strongest(weights.mean(axis=0)[start]))


def figure4(*, attention: str) -> Drawing:
    """Draw anaphora: the two heads with the strongest attention from a pronoun to its antecedent."""
    shown = _sentence_of("figure4", attention)
    (start, shares), word, antecedent = shown.shares(), shown.about["from"], " ".join(shown.about["to"])
    places = _strongest_heads(shares, 2)
    chosen = np.stack([shown.weights[place] for place in places])  # [two, words, words]
    names = [f"head {head + 1} of layer {layer + 1}" for layer, head in places]
    figure, axes = shown.canvas(2)
    _draw_attention(axes, 0, shown.words, chosen[:1], f"all words, {names[0]}")
    _draw_attention(axes, COLUMN_INCHES, shown.words, chosen, f"only from “{word}”, both", start)
    caption = (
        f"Anaphora: “{word}” refers to “{antecedent}”. Left: all attention of {names[0]}. Right: only from “{word}”, "
        f"in {' and '.join(names)}. {shown.where} {shown.answer(shares, [shares[place] for place in places])}{_READING}"
    )
    return Drawing(figure, caption, shown.strongest(chosen[0, start]))


def figure5(*, attention: str) -> Drawing:
    """Draw two heads with different behaviour."""
    shown = _sentence_of("figure5", attention)
    number = _layer(len(shown.weights))
    weights = shown.weights[number - 1]
    heads = _two_structured(weights)
    figure, axes = shown.canvas(2)
    for side, head in enumerate(heads):
        title = f"all words, head {head + 1}"
        _draw_attention(axes, side * COLUMN_INCHES, shown.words, weights[[head]], title, hue=side)
    bits = _entropies(weights)
    apart = _distance(*weights[list(heads)]) if len(heads) == 2 else 0.0
    listing = " and ".join(f"head {head + 1} ({bits[head]:.1f} bits)" for head in heads)
    caption = (
        f"Two heads with different behaviour: {listing}. The numbers in brackets are the mean entropy of a word's "
        f"attention; uniform attention has {math.log2(len(shown.words)):.1f} bits. {shown.where} Layer {number} of "
        f"{len(shown.weights)} corresponds to the paper's layer 5 of 6. Among the half of its heads with the lowest "
        f"entropy, these two differ most: their total variation distance is {apart:.2f} (maximum 1). {_READING}"
    )
    patterns = []
    for head in heads:
        most = weights[head].argmax(axis=1)
        pairs = (f"{word} to {shown.words[end]}" for word, end in zip(shown.words, most, strict=True))
        patterns.append(f"head {head + 1}: {', '.join(pairs)}")
    return Drawing(figure, caption, "; ".join(patterns))


def _entropies(weights: np.ndarray) -> np.ndarray:
    """Return the mean entropy over words of each head's weights, in bits: [h]."""
    return -(weights * np.log2(np.maximum(weights, 1e-9))).sum(axis=2).mean(axis=1)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean total variation distance between two heads' weights [words, words], from 0 to 1."""
    return float(np.abs(one - other).sum(axis=1).mean() / 2)


def _two_structured(weights: np.ndarray) -> tuple[int, ...]:
    """Find the two most different heads among the half of heads (minimum two) with the lowest entropy."""
    kept = np.argsort(_entropies(weights), kind="stable")[: max(2, len(weights) // 2)]
    pairs = combinations(sorted(kept.tolist()), 2)
    return max(pairs, key=lambda pair: _distance(*weights[list(pair)]), default=(0,))


def _draw_attention(
    axes: Axes, left: float, words: list[str], weights: np.ndarray, title: str, start: int | None = None, hue: int = 0
) -> None:
    """Draw the words twice, and lines from the word at `start`, or from all words. Opacity shows the weights.

    weights: [heads, words, words]. left: left edge of a panel of COLUMN_INCHES. hue: the first head's colour; colours
    repeat after eight heads.
    """
    count, strip = len(words), _CELL * len(weights)
    heights = _BELOW + _SPACING * (count - 0.5 - np.arange(count))
    ends = left + _BESIDE, left + COLUMN_INCHES - _BESIDE - strip
    label(axes, left + COLUMN_INCHES / 2, _BELOW + _SPACING * count + _HEADING / 2, title, size=MEDIUM)
    for row, (word, y) in enumerate(zip(words, heights, strict=True)):
        weight = "bold" if row == start else "normal"
        label(axes, ends[0] - 0.05, y - 0.035, word, ha="right", va="baseline", weight=weight, parse_math=False)
        label(axes, ends[1] + strip + 0.05, y - 0.035, word, ha="left", va="baseline", parse_math=False)
    rows = list(range(count)) if start is None else [start]
    for number, given in enumerate(weights[:, rows]):
        color = COLORS[(hue + number) % len(COLORS)]
        # The lines of several heads end at different heights of a word, so that their colours do not mix.
        shift = _SPACING * 0.7 * ((number + 0.5) / len(weights) - 0.5)
        for place, end in np.argwhere(given >= _FAINTEST):
            line = {"color": color, "alpha": min(1.0, given[place, end]), "lw": 1.4, "solid_capstyle": "butt"}
            axes.plot(ends, (heights[rows[place]], heights[end] - shift), **line)
        # The right column shows this head's maximum weight for each word.
        for y, weight in zip(heights, given.max(axis=0), strict=True):
            if weight >= _FAINTEST:
                corner = ends[1] + _CELL * number, y - _SPACING * 0.45
                axes.add_patch(Rectangle(corner, _CELL, _SPACING * 0.9, fc=color, alpha=min(1.0, weight), lw=0))


def require_drawable(tokens: int) -> None:
    """Raise InputError if `grids` cannot draw a sentence with so many tokens."""
    if tokens > _MOST_TOKENS:
        problem = f"expected up to {_MOST_TOKENS} tokens in a sentence and in its translation, found {tokens}"
        raise InputError(f"{problem}; shorten the sentence, or use --text, which draws no picture")


def grids(attention: Attention, layer: int | None, head: int | None) -> Figure:
    """Draw the weights of one sentence as three grids: encoder, decoder, cross-attention. Each query has a row.

    layer, head: from 1. The defaults are the layer of Figure 5 and the mean of all heads. Raises InputError.
    """
    layer = layer or _layer(attention["layers"])
    for name, asked, most in (("layer", layer, attention["layers"]), ("head", head or 1, attention["heads"])):
        if asked > most:
            raise InputError(f"{name}: expected 1 to {most}, found {asked}")
    (entry,) = attention["sentences"]
    sides = {"encoder": ("source", "source"), "decoder": ("target", "shifted"), "cross": ("target", "source")}
    keys = [len(entry[columns]) for _, columns in sides.values()]
    require_drawable(max(keys))
    size = sum(keys) * _SQUARE + 3.5, max(keys) * _SQUARE + 1.6
    figure, panels = new(*size, ncols=3, gridspec_kw={"width_ratios": keys})
    for axes, (kind, (rows, columns)) in zip(panels, sides.items(), strict=True):
        heads = np.array(entry[kind][layer - 1], dtype=float)
        axes.imshow(heads.mean(axis=0) if head is None else heads[head - 1], cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(entry[columns])), entry[columns], rotation=90, parse_math=False)
        axes.set_yticks(range(len(entry[rows])), entry[rows], parse_math=False)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.set_title(KINDS[kind].replace(" to ", "\nto "), loc="left")
    figure.suptitle(f"Layer {layer}, {f'head {head}' if head else 'mean of all heads'}: rows attend to columns")
    return figure
