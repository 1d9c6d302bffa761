"""The analyses of trained runs: what Table 5, its figures and the page read, and attention.json itself.

BLEU is that of the dev set's plain text: 95 % of the `draws`, BLEU on resampled sets, lie between `low` and `high`;
`length_ratio` is the number of words in the translations over that in the references. Losses are means of the
unsmoothed cross-entropy over target tokens, in nats, with the reference as the decoder's input.

Torch is imported when it is needed: reading the files needs none.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np
from msgspec.structs import asdict

from transformer.storage.files import InputError, draw, read_lines
from transformer.storage.records import Amount, Checksum, Count, Draws, Positive, RunRecord, Share, run_name

if TYPE_CHECKING:
    from transformer.translation.translator import Translation, Translator

logger = logging.getLogger(__name__)
KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder to encoder"}  # of attention, in words
_UNIT = 1000  # attention weights are rounded to parts of it

_HeadWeights = list[list[list[list[float]]]]  # [N, h, queries, keys]


class Analysis(TypedDict):  # has "language", too
    run: RunRecord
    sentences: Positive
    target_sha256: Checksum


class Bleu(TypedDict):
    bleu: float
    low: float
    high: float
    draws: Draws


class Average(Bleu):  # of the last checkpoints, whose "steps" are listed
    checkpoints: Positive
    perplexity: Amount


class Averaging(Analysis):
    averages: list[Average]


class _Group(Bleu):  # sentences of similar length
    # None: single sentences; 1: neighbours joined while they had no more tokens than the longest source sentence in
    # training; another t: neighbours joined until they had t times as many.
    times: Positive | None
    sentences: Positive
    tokens: Amount  # mean of the source, EOS included
    length_ratio: Amount


class GroupedByLength(Analysis):
    positions: str
    longest: Positive  # tokens of a source sentence in training, of the `quantile` with the shortest
    quantile: NotRequired[Share]  # all, if not given
    skipped: Count  # joined sentences that the model has too few positions for
    groups: list[_Group]  # none for a t without joined sentences


def longest_of(quantile: float) -> str:
    """Name the sentences whose length is `longest`."""
    return "the longest" if quantile == 1 else f"the longest of the shortest {100 * quantile:g} %"


class Step(TypedDict):  # one more head is masked: the one that raises the loss on some of the sentences least
    masked: Positive
    layer: Positive  # this and the head, of this step, count from 1
    head: Positive
    loss: float


class HeadsOfKind(TypedDict):  # tables [layer][head]
    increase: list[list[float]]  # of the loss with this head alone masked
    distance: list[list[Amount]]  # mean, in tokens, that it looks over
    equal: Amount  # the distance with the same weight for all visible tokens
    curve: list[Step]


class Masked(Bleu):  # so many heads of a kind, in the order of its curve
    kind: str | None
    masked: Count


class Heads(Analysis):
    layers: Positive
    heads: Positive
    loss: float
    kinds: dict[str, HeadsOfKind]
    bleu: list[Masked]


class Calibration(TypedDict):  # has "bins", too
    error: Share
    confidence: Share
    accuracy: Share


class Beam(Bleu):
    beam: Positive
    length_ratio: Amount


class Smoothing(Analysis):
    epsilon_ls: Share
    perplexity: Amount
    perplexity_draws: Draws
    beams: list[Beam]
    calibration: Calibration


class _Search(Beam):
    alpha: Amount


class Tuning(Analysis):
    searches: list[_Search]


PAYLOADS = {"averaging": Averaging, "heads": Heads, "lengths": GroupedByLength, "smoothing": Smoothing}  # by analysis
PAYLOADS |= {"tuning": Tuning}


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
