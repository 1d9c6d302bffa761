"""Attention weights of trained runs in sentences: attention.json, for Figures 3 to 5 and the page's viewer.

Torch is imported when it is needed: reading the file needs none.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from msgspec.structs import asdict

from transformer.evaluation.analyses.heads import KINDS
from transformer.storage.files import InputError, draw, read_lines
from transformer.storage.records import Positive, run_name

if TYPE_CHECKING:
    from transformer.translation.translator import Translation, Translator

logger = logging.getLogger(__name__)
_UNIT = 1000  # attention weights are rounded to parts of it

_HeadWeights = list[list[list[list[float]]]]  # [N, h, queries, keys]


class _Pair(TypedDict):  # a sentence and its translation
    title: str
    figures: dict[str, dict[str, Any]]  # the configuration of each
    source: list[str]
    target: list[str]
    shifted: list[str]  # what the decoder reads, one behind the target
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
    """Return the same with weights as whole numbers, of which `unit` make 1: on a page they take half the bytes."""
    sentences = [
        sentence | {kind: (np.array(sentence[kind]) * _UNIT).round().astype(int).tolist() for kind in KINDS}
        for sentence in content["sentences"]
    ]
    return content | {"unit": _UNIT, "sentences": sentences}


def attention(input: SimpleNamespace, params: SimpleNamespace) -> Attention:
    """Translate the sentences of the figures and some of a text, and return the weights of all heads.

    input: `text`, one sentence a line; `weights`, the average if None. params: `run`, a folder; `figures`, by name the
    text and the words; `count` sentences of the text, at equal distances, from those with at most `longest` tokens.
    """
    from transformer.translation.translator import open_translator

    translator = open_translator(params.run, input.weights)
    lines = list(read_lines(input.text))
    lengths = {number: len(ids) for number, ids in enumerate(translator.encode(lines)) if len(ids) > 1}  # 1: blank
    short = [number for number, length in lengths.items() if length <= params.longest]
    if not short:
        short = sorted(sorted(lengths, key=lengths.__getitem__)[: params.count])
        no = f"no sentence of at most {params.longest} tokens (attention.longest)"
        logger.warning("%s: %s: the shortest are shown", input.text, no)
    sentences = []
    for text in dict.fromkeys(entry["text"] for entry in params.figures.values()):  # figures of one sentence share it
        own = {name: entry for name, entry in params.figures.items() if entry["text"] == text}
        title = " and ".join(name.replace("figure", "Figure ") for name in own)
        sentences.append({"title": title, "text": text, "figures": own})
    sentences += [
        {"title": f"Sentence {number + 1} of {Path(input.text).name}", "text": lines[number], "figures": {}}
        for number in draw(short, len(short), params.count)
    ]
    if not sentences:
        raise InputError(f"{input.text}: expected a sentence, found blank lines")
    texts = [sentence["text"] for sentence in sentences]
    return described(translator, zip(sentences, texts, translator.translate(texts), strict=True))


def own_sentence(input: SimpleNamespace, params: SimpleNamespace) -> Attention:
    """Return the weights of all heads in the `sentence` and its translation, the `target` or, if None, the run's."""
    from transformer.translation.translator import open_translator

    about = {"title": params.sentence, "figures": {}}
    return described(open_translator(params.run, input.weights), [(about, params.sentence, params.target)])


def described(translator: "Translator", sentences: Iterable[tuple[dict, str, "str | Translation | None"]]) -> Attention:
    """Return the weights in sentences and their translations, each with what is said about it, and the model's size.

    Raises InputError if a weight is no finite number.
    """
    pairs, experiment = [], translator.experiment
    for about, source, target in sentences:
        pair = translator.attention(source, target)._asdict()
        if not all(np.isfinite(pair[kind]).all() for kind in KINDS):
            raise InputError("attention: expected finite weights, found others")
        pairs.append(about | pair | {kind: _short(pair[kind].tolist()) for kind in KINDS})
    sizes = {"layers": experiment.model.N, "heads": experiment.model.h}
    return {"run": run_name(asdict(experiment)), "label": experiment.label, **sizes, "sentences": pairs}


def _short(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero: they are written as 0, which is shorter than 0.0 on a page."""
    return [_short(value) for value in values] if isinstance(values, list) else round(values, 3) or 0
