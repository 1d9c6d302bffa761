"""Figures 3 to 5: attention within a sentence, in the encoder, by layer and head."""

import math
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from transformer.files import InputError
from transformer.records import typed
from transformer.report.figures import COLORS
from transformer.report.figures.attention import Attention, Words
from transformer.report.figures.boxes import LINE_INCHES, canvas, label
from transformer.report.figures.style import COLUMN_INCHES, MEDIUM, Drawing
from transformer.report.figures.tokens import CONTINUED

FAINTEST = 0.05  # a smaller weight is not drawn: many of them are a fog
WORDS, HEADING, BELOW = 0.8, 0.3, 0.1  # inches for the words on either side, for the title, below the words
SPACING = LINE_INCHES * 1.15  # from word to word
CELL = 0.06  # width of one head's mark on a word
READING = f"The stronger a line, the larger the weight; those below {FAINTEST} are left out. "
READING += "Of a word in several tokens, the weights that it is given are added and those that it gives averaged."


class Sentence(NamedTuple):
    """A sentence of attention.json as words, in the layer that the figures show."""

    words: list[str]
    weights: np.ndarray  # [h, words, words], the last axis sums to 1
    layer: int  # from 1
    where: str  # the run and the layer, for captions
    about: dict  # what the configuration says of the figure: from, to


def sentence(attention: Attention, figure: str) -> Sentence:
    """Return the sentence that `figure` shows. Raises InputError where attention.json has no sentence for it."""
    for entry in attention["sentences"]:
        if figure in entry["figures"]:
            break
    else:
        titles = ", ".join(entry["title"] for entry in attention["sentences"])
        raise InputError(f"{figure}: expected a sentence for it among those with attention, found {titles}")
    number = layer_of(attention["layers"])
    words, weights = by_word(entry["source"], np.array(entry["encoder"][number - 1], dtype=float))
    where = f"Encoder self-attention of {attention['run']} ({attention['label']}), layer {number} of "
    where += f"{attention['layers']}, which is five sixths of the way up, halves rounded up; the paper's is 5 of 6."
    return Sentence(words, weights, number, where, entry["figures"][figure])


def ends(shown: Sentence) -> Words:
    """Return the words that a figure is about. Raises InputError where they are missing."""
    return typed(shown.about, Words, "figures")


def layer_of(layers: int) -> int:
    """Return the layer, from 1, that is to `layers` as 5 is to the paper's 6."""
    return math.floor(5 * layers / 6 + 0.5)


def by_word(tokens: list[str], weights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return words and the weights [h, words, words] between them, from weights [h, tokens, tokens]; see `READING`."""
    starts = [number for number in range(len(tokens)) if not (number and tokens[number - 1].endswith(CONTINUED))]
    words = [
        "".join(token.removesuffix(CONTINUED) for token in tokens[start:end])
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True)
    ]
    given = np.add.reduceat(weights, starts, axis=2)
    lengths = np.diff([*starts, len(tokens)])
    return words, np.add.reduceat(given, starts, axis=1) / lengths[:, None]


def place(words: list[str], word: str) -> int:
    """Return where the word is. Raises InputError where it is not there just once."""
    if words.count(word) != 1:
        raise InputError(
            f"figures: expected {word!r} once in the sentence, found it {words.count(word)} times: {words}"
        )
    return words.index(word)


def shares(shown: Sentence) -> np.ndarray:
    """Return [h]: how much of the attention of the word "from" goes to the words "to"."""
    start, *to = (place(shown.words, word) for word in (ends(shown)["from"], *ends(shown)["to"]))
    return shown.weights[:, start, to].sum(axis=1)


def entropies(weights: np.ndarray) -> np.ndarray:
    """Return [h]: the entropy, in bits, of whom a word attends to, as the mean over words."""
    return -(weights * np.log2(np.maximum(weights, 1e-9))).sum(axis=2).mean(axis=1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the distance of two heads' patterns [words, words], from 0 to 1: total variation, averaged over words."""
    return float(np.abs(one - other).sum(axis=1).mean() / 2)


def two_structured(weights: np.ndarray) -> tuple[int, ...]:
    """Return the two heads whose patterns differ most, among the half (two at least) with the lowest entropy."""
    kept = np.argsort(entropies(weights), kind="stable")[: max(2, len(weights) // 2)]
    pairs = combinations(sorted(kept.tolist()), 2)
    return max(pairs, key=lambda pair: distance(*weights[list(pair)]), default=(0,))


def figure3(attention: Attention) -> Drawing:
    """Draw attention from one word in all heads: a dependency over a distance."""
    shown = sentence(attention, "figure3")
    to_words = shares(shown)
    word, completion = ends(shown)["from"], " ".join(ends(shown)["to"])
    figure, axes = canvas(COLUMN_INCHES, height_of(shown))
    draw(axes, 0, shown, colored(range(len(to_words))), f"from “{word}”, all heads", [place(shown.words, word)])
    best = int(to_words.argmax())
    caption = (
        f"A dependency over a distance: attention from “{word}”, which “{completion}” completes, a colour "
        f"for each of the {len(to_words)} heads. {shown.where} On average heads "
        f"give “{completion}” {to_words.mean():.2f} of it, head {best + 1} most, {to_words[best]:.2f}. {READING}"
    )
    strongest = shown.weights.mean(axis=0)[place(shown.words, word)]
    return Drawing(
        figure, caption, f"Lines from “{word}” to {listed(shown.words, strongest)}", data(shown, shares=to_words)
    )


def figure4(attention: Attention) -> Drawing:
    """Draw anaphora: a head that finds what a pronoun stands for; beside it, from the pronoun alone, two such heads."""
    shown = sentence(attention, "figure4")
    to_words = shares(shown)
    heads = np.argsort(-to_words, kind="stable")[:2].tolist()
    word, antecedent = ends(shown)["from"], " ".join(ends(shown)["to"])
    figure, axes = canvas(2 * COLUMN_INCHES, height_of(shown))
    draw(axes, 0, shown, colored(heads[:1]), f"all words, head {heads[0] + 1}")
    numbers = " and ".join(str(head + 1) for head in heads)
    draw(axes, COLUMN_INCHES, shown, colored(heads), f"from “{word}”, heads {numbers}", [place(shown.words, word)])
    given = " and ".join(f"{to_words[head]:.2f}" for head in heads)
    caption = (
        f"What “{word}” stands for. Left: all attention of head {heads[0] + 1}. Right: from “{word}” alone, "
        f"in heads {numbers}. {shown.where} Of all heads these give most of the attention of “{word}” to "
        f"“{antecedent}”: {given}, where {1 / len(shown.words):.2f} would be an equal share. {READING}"
    )
    alt = f"Lines from “{word}” to {listed(shown.words, shown.weights[heads[0], place(shown.words, word)])}"
    return Drawing(figure, caption, alt, data(shown, shares=to_words, heads=heads))


def figure5(attention: Attention) -> Drawing:
    """Draw two heads that do different things."""
    shown = sentence(attention, "figure5")
    heads = two_structured(shown.weights)
    figure, axes = canvas(2 * COLUMN_INCHES, height_of(shown))
    for side, head in enumerate(heads):
        draw(axes, side * COLUMN_INCHES, shown, colored([head], side), f"all words, head {head + 1}")
    bits = entropies(shown.weights)
    apart = distance(*shown.weights[list(heads)]) if len(heads) == 2 else 0.0
    listing = " and ".join(f"head {head + 1}, {bits[head]:.1f} bits" for head in heads)
    caption = (
        f"Two heads that do different things: {listing}. {shown.where} Of the half of the heads whose "
        f"attention has the lowest entropy, these differ most: {apart:.2f} in total variation, of at most 1. {READING}"
    )

    def typical(head: int) -> str:  # whom each word attends to most
        most = shown.weights[head].argmax(axis=1)
        return ", ".join(f"{word} to {shown.words[end]}" for word, end in zip(shown.words, most, strict=True))

    alt = "; ".join(f"head {head + 1}: {typical(head)}" for head in heads)
    return Drawing(figure, caption, alt, data(shown, entropies=bits, heads=heads, distance=apart))


def data(shown: Sentence, heads: Iterable[int] = (), **measured) -> dict:
    """Return the numbers that the caption rests on; heads are counted from 1."""
    numbers = {key: np.round(values, 4).tolist() for key, values in measured.items()}
    return {"layer": shown.layer, "words": shown.words, "heads": [head + 1 for head in heads], **shown.about, **numbers}


def listed(words: list[str], weights: np.ndarray) -> str:
    """Return the three words with most weight, and how much, for those who cannot see the lines."""
    return ", ".join(f"“{words[index]}” {weights[index]:.2f}" for index in np.argsort(-weights)[:3])


def height_of(shown: Sentence) -> float:
    """Return the height of a figure with a line for each word."""
    return BELOW + SPACING * len(shown.words) + HEADING


def draw(
    axes: Axes, left: float, shown: Sentence, heads: dict[int, str], title: str, starts: list[int] | None = None
) -> None:
    """Draw the words twice, and lines from those at `starts`, or from all, as strong as the heads' weights.

    left: the left edge of a panel that is COLUMN_INCHES wide. heads: by head, its colour.
    """
    count, strip = len(shown.words), CELL * len(heads)
    heights = [BELOW + SPACING * (count - 0.5 - row) for row in range(count)]
    ends = left + WORDS, left + COLUMN_INCHES - WORDS - strip
    label(axes, left + COLUMN_INCHES / 2, BELOW + SPACING * count + HEADING / 2, title, size=MEDIUM)
    for row, (word, y) in enumerate(zip(shown.words, heights, strict=True)):
        weight = "bold" if starts and row in starts else "normal"
        label(axes, ends[0] - 0.05, y - 0.035, word, ha="right", va="baseline", weight=weight, parse_math=False)
        label(axes, ends[1] + strip + 0.05, y - 0.035, word, ha="left", va="baseline", parse_math=False)
    rows = range(count) if starts is None else starts

    def strong(weights: np.ndarray) -> list[tuple[float, float]]:
        return [(y, weight) for y, weight in zip(heights, weights, strict=True) if weight >= FAINTEST]

    for number, (head, color) in enumerate(heads.items()):
        # Side by side, so that their colours do not mix.
        shift = SPACING * 0.7 * ((number + 0.5) / len(heads) - 0.5)
        for row in rows:
            for y, weight in strong(shown.weights[head, row]):
                line = {"color": color, "alpha": min(1.0, weight), "lw": 1.4, "solid_capstyle": "butt"}
                axes.plot(ends, (heights[row], y - shift), **line)
        # On the right, the most that this head gives a word from any on the left.
        for y, weight in strong(shown.weights[head, list(rows)].max(axis=0)):
            corner = ends[1] + CELL * number, y - SPACING * 0.45
            axes.add_patch(Rectangle(corner, CELL, SPACING * 0.9, fc=color, alpha=min(1.0, weight), lw=0))


def colored(heads: Iterable[int], first: int = 0) -> dict[int, str]:
    """Return a colour for each head; they are repeated after eight."""
    return {head: COLORS[(first + number) % len(COLORS)] for number, head in enumerate(heads)}
