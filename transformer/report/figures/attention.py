"""Attention as attention.json holds it: tokens as a reader sees them, and the weights of all heads, rounded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from transformer.files import InputError
from transformer.records import Positive, read_json

if TYPE_CHECKING:  # figures that read the file need no torch
    from transformer.data.subwords import Subwords
    from transformer.model.transformer import Transformer

DIGITS = 3  # of a weight
KINDS = {"encoder": ("source", "source"), "decoder": ("target", "shifted"), "cross": ("target", "source")}
Weights = list[list[list[list[float]]]]  # [N, h, queries, keys]


# The words of a sentence that a figure is about, by the names of the keys, one of which is a keyword of Python.
Words = TypedDict("Words", {"from": str, "to": list[str]})


class Pair(TypedDict):
    """A sentence and its translation; "shifted" are the tokens that the decoder reads, one behind "target"."""

    title: str
    figures: dict[str, dict[str, Any]]  # what the configuration says of each
    source: list[str]
    target: list[str]
    shifted: list[str]
    encoder: Weights
    decoder: Weights
    cross: Weights


class Attention(TypedDict):
    """The content of attention.json: weights of every layer and head for a few sentences."""

    run: str
    label: str
    layers: Positive
    heads: Positive
    sentences: list[Pair]


def read_attention(path: str | Path) -> Attention:
    """Return attention.json. Raises InputError naming the file, the sentence and the shapes."""
    attention = read_json(path, Attention)
    for number, sentence in enumerate(attention["sentences"], start=1):
        for kind, sides in KINDS.items():
            expected = (attention["layers"], attention["heads"], *(len(sentence[side]) for side in sides))
            if (actual := shape(sentence[kind])) != expected:
                where = f"{path}, sentence {number}, {kind}"
                raise InputError(f"{where}: expected weights of shape {expected}, found {actual}")
    return attention


def whole(attention: Attention) -> dict[str, Any]:
    """Return the same with weights as whole numbers, of which `unit` make 1: on a page they take half the bytes."""
    unit = 10**DIGITS
    sentences = [
        sentence | {kind: (np.array(sentence[kind]) * unit).round().astype(int).tolist() for kind in KINDS}
        for sentence in attention["sentences"]
    ]
    return attention | {"unit": unit, "sentences": sentences}


def shape(weights: Weights) -> tuple[int, ...] | str:
    """Return the shape of nested lists of numbers, or `ragged` where they have none."""
    try:
        return np.asarray(weights, dtype=float).shape
    except ValueError:
        return "ragged"


def describe(model: "Transformer", vocabulary: "Subwords", source: list[int], target: list[int]) -> dict[str, Any]:
    """Return the tokens and the weights of a `Pair`, rounded. Raises InputError where a weight is no finite number."""
    from transformer.config.experiment import EOS, PAD
    from transformer.model.overheard import weights
    from transformer.report.figures.tokens import names

    target = [*target, EOS]
    attention = weights(model, source, target)
    for kind, of_kind in attention.items():
        if not of_kind.isfinite().all():
            raise InputError(f"attention, {kind}: expected finite weights, found others")
    return {
        "source": names(vocabulary, source),
        "target": names(vocabulary, target),
        "shifted": names(vocabulary, [PAD, *target[:-1]]),
        **{kind: rounded(of_kind.tolist()) for kind, of_kind in attention.items()},
    }


def rounded(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero: they are written as 0, which is shorter than 0.0 on a page."""
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, DIGITS) or 0
