"""Attention weights of trained runs in sentences: attention.json, for Figures 3 to 5 and the page's viewer."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from transformer.evaluation.analyses.heads import KINDS
from transformer.storage.files import InputError, draw, read_lines
from transformer.storage.records import Positive

if TYPE_CHECKING:
    from transformer.translation.translator import Translation, Translator

logger = logging.getLogger(__name__)
_UNIT = 1000  # attention weights are rounded to multiples of 1 / _UNIT

_HeadWeights = list[list[list[list[float]]]]  # [N, h, queries, keys]


class _Pair(TypedDict):  # a sentence and its translation
    title: str
    figures: dict[str, dict[str, Any]]  # configurations by name
    source: list[str]
    target: list[str]
    shifted: list[str]  # the decoder's input: the target shifted right by one token
    encoder: _HeadWeights
    decoder: _HeadWeights
    cross: _HeadWeights


class Attention(TypedDict):  # attention.json
    run: str
    label: str
    layers: Positive
    heads: Positive
    sentences: list[_Pair]


def whole_weights(content: Attention) -> dict[str, Any]:
    """Convert weights to integers. `unit` is the integer for a weight of 1. This halves the bytes on a page."""
    sentences = [
        sentence | {kind: (np.array(sentence[kind]) * _UNIT).round().astype(int).tolist() for kind in KINDS}
        for sentence in content["sentences"]
    ]
    return content | {"unit": _UNIT, "sentences": sentences}


def weights_in_text(
    translator: "Translator", text: Path, count: int, longest: int, figures: dict[str, dict[str, Any]]
) -> Attention:
    """Translate the figures' sentences and sentences of a text, and return the weights of all heads.

    text: one sentence a line. `count` of those with up to `longest` tokens are chosen at equal distances.
    figures: text and words by name.
    """
    lines = list(read_lines(text))
    lengths = {number: len(ids) for number, ids in enumerate(translator.encode(lines)) if len(ids) > 1}  # 1: blank
    short = [number for number, length in lengths.items() if length <= longest]
    if not short:
        short = sorted(sorted(lengths, key=lengths.__getitem__)[:count])
        no = f"no sentence of up to {longest} tokens (attention.longest)"
        logger.warning("%s: %s: the shortest are shown", text, no)
    sentences = []
    for shown in dict.fromkeys(entry["text"] for entry in figures.values()):  # figures may share a sentence
        own = {name: entry for name, entry in figures.items() if entry["text"] == shown}
        title = " and ".join(name.replace("figure", "Figure ") for name in own)
        sentences.append({"title": title, "text": shown, "figures": own})
    sentences += [
        {"title": f"Sentence {number + 1} of {text.name}", "text": lines[number], "figures": {}}
        for number in draw(short, len(short), count)
    ]
    if not sentences:
        raise InputError(f"{text}: expected a sentence, found blank lines")
    texts = [sentence["text"] for sentence in sentences]
    return weights_in(translator, zip(sentences, texts, translator.translate(texts), strict=True))


def weights_in(
    translator: "Translator", sentences: Iterable[tuple[dict, str, "str | Translation | None"]]
) -> Attention:
    """Return the weights of all heads in sentences and their translations, and the model's size.

    sentences: (title and figures, source, translation) of each. If the translation is None, the model translates.
    Raises InputError if a weight is not finite.
    """
    pairs, experiment = [], translator.experiment
    for about, source, target in sentences:
        pair = translator.attention(source, target)._asdict()
        if not all(np.isfinite(pair[kind]).all() for kind in KINDS):
            raise InputError("attention: expected finite weights, found others")
        pairs.append(about | pair | {kind: _short(pair[kind].tolist()) for kind in KINDS})
    sizes = {"layers": experiment.model.N, "heads": experiment.model.h}
    return {"run": experiment.name, "label": experiment.label, **sizes, "sentences": pairs}


def _short(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero and become 0, which is shorter than 0.0 on a page."""
    return [_short(value) for value in values] if isinstance(values, list) else round(values, 3) or 0
