"""The attention of a trained run in some sentences, which Figures 3 to 5 and the page show: attention.json."""

import html
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from msgspec.structs import asdict

from transformer.config.experiment import EOS, PAD, load
from transformer.data.corpus import SPACE, Subwords
from transformer.files import InputError
from transformer.layout import Run
from transformer.records import Positive, read_json, run_name
from transformer.text import draw, read_lines

if TYPE_CHECKING:  # torch takes seconds, and reading the file needs none
    from transformer.model.transformer import Transformer

WEIGHT_DIGITS = 3  # of a weight
SIDES_OF = {"encoder": ("source", "source"), "decoder": ("target", "shifted"), "cross": ("target", "source")}
CONTINUED = "@@"  # ends a token whose word goes on in the next
TOKEN_NAMES = {EOS: "<EOS>", PAD: "<start>"}  # the decoder starts from PAD
HeadWeights = list[list[list[list[float]]]]  # [N, h, queries, keys]

# The words that a figure is about. One key is a keyword of Python.
Words = TypedDict("Words", {"from": str, "to": list[str]})


class Pair(TypedDict):
    """A sentence and its translation; "shifted" are the tokens that the decoder reads, one behind "target"."""

    title: str
    figures: dict[str, dict[str, Any]]  # the configuration of each
    source: list[str]
    target: list[str]
    shifted: list[str]
    encoder: HeadWeights
    decoder: HeadWeights
    cross: HeadWeights


class Attention(TypedDict):
    """The content of attention.json: weights of every layer and head for a few sentences."""

    run: str
    label: str
    layers: Positive
    heads: Positive
    sentences: list[Pair]


def attention(input: SimpleNamespace, params: SimpleNamespace) -> Attention:
    """Translate the sentences of the figures and some of a text, and return the weights of all heads.

    input: `text`, one sentence a line; `weights`, the average if None. params: `run`, a folder; `figures`, by name the
    text and the words; `count` sentences of the text, at equal distances, from those with at most `longest` tokens.
    """
    from transformer.device import best_device
    from transformer.model.weights import load_model
    from transformer.translation.translator import open_translator

    run = Run(params.run)
    experiment = load(run.experiment)
    model = load_model(input.weights or run.average, experiment.model).to(best_device())
    translator = open_translator(run.folder, model, {})
    lines = list(read_lines(input.text))
    lengths = map(len, translator.encode(lines))
    short = [number for number, length in enumerate(lengths) if 1 < length <= params.longest]  # 1 is a blank line
    sentences = sentences_of_figures(params.figures) + [
        {"title": f"Sentence {number + 1} of {Path(input.text).name}", "text": lines[number], "figures": {}}
        for number in draw(short, len(short), params.count)
    ]
    if not sentences:
        raise InputError(f"{input.text}: expected a sentence of at most {params.longest} tokens, found none")
    sources = translator.encode([sentence["text"] for sentence in sentences])
    return {
        "run": run_name(asdict(experiment)),
        "label": experiment.label,
        "layers": experiment.model.N,
        "heads": experiment.model.h,
        "sentences": [
            sentence | describe_pair(model, translator.vocabulary, source, target)
            for sentence, source, ((target, _),) in zip(sentences, sources, translator.search(sources), strict=True)
        ],
    }


def sentences_of_figures(figures: dict[str, dict]) -> list[dict]:
    """Return the sentences of the figures; figures of one sentence share it."""
    sentences = []
    for text in dict.fromkeys(entry["text"] for entry in figures.values()):
        own = {name: entry for name, entry in figures.items() if entry["text"] == text}
        title = " and ".join(name.replace("figure", "Figure ") for name in own)
        sentences.append({"title": title, "text": text, "figures": own})
    return sentences


def describe_pair(model: "Transformer", vocabulary: Subwords, source: list[int], target: list[int]) -> dict[str, Any]:
    """Return the tokens and the weights of a `Pair`, rounded. Raises InputError if a weight is no finite number."""
    from transformer.model.transformer import attention_weights

    target = [*target, EOS]
    taken = attention_weights(model, source, target)
    for kind, of_kind in taken.items():
        if not of_kind.isfinite().all():
            raise InputError(f"attention, {kind}: expected finite weights, found others")
    return {
        "source": names(vocabulary, source),
        "target": names(vocabulary, target),
        "shifted": names(vocabulary, [PAD, *target[:-1]]),
        **{kind: rounded_weights(of_kind.tolist()) for kind, of_kind in taken.items()},
    }


def names(vocabulary: Subwords, ids: list[int]) -> list[str]:
    """Return the tokens for readers: without Moses' escapes, and ending in @@ if the word goes on."""
    pieces = [TOKEN_NAMES.get(token) or vocabulary.processor.id_to_piece(token) for token in ids]
    begins = [token in TOKEN_NAMES or piece.startswith(SPACE) for token, piece in zip(ids, pieces, strict=True)]
    return [
        html.unescape(piece.removeprefix(SPACE)) + ("" if next_begins or token in TOKEN_NAMES else CONTINUED)
        for token, piece, next_begins in zip(ids, pieces, [*begins[1:], True], strict=True)
    ]


def rounded_weights(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero: they are written as 0, which is shorter than 0.0 on a page."""
    if isinstance(values, list):
        return [rounded_weights(value) for value in values]
    return round(values, WEIGHT_DIGITS) or 0


def read_attention(path: str | Path) -> Attention:
    """Return attention.json. Raises InputError naming the file, the sentence and the shapes."""
    content = read_json(path, Attention)
    for number, sentence in enumerate(content["sentences"], start=1):
        for kind, sides in SIDES_OF.items():
            expected = (content["layers"], content["heads"], *(len(sentence[side]) for side in sides))
            if (actual := shape(sentence[kind])) != expected:
                where = f"{path}, sentence {number}, {kind}"
                raise InputError(f"{where}: expected weights of shape {expected}, found {actual}")
    return content


def shape(numbers: list) -> tuple[int, ...] | str:
    """Return the shape of nested lists of numbers, or `ragged`."""
    try:
        return np.asarray(numbers, dtype=float).shape
    except ValueError:
        return "ragged"


def whole_weights(content: Attention) -> dict[str, Any]:
    """Return the same with weights as whole numbers, of which `unit` make 1: on a page they take half the bytes."""
    unit = 10**WEIGHT_DIGITS
    sentences = [
        sentence | {kind: (np.array(sentence[kind]) * unit).round().astype(int).tolist() for kind in SIDES_OF}
        for sentence in content["sentences"]
    ]
    return content | {"unit": unit, "sentences": sentences}
