"""Records of the analyses of trained runs, which Table 5 and two figures read. No torch here.

BLEU is that of the dev set's plain text: 95 % of the `draws`, BLEU on resampled sets, lie between `low` and `high`;
`length_ratio` is the number of words in the translations over that in the references. Losses are means of the
unsmoothed cross-entropy over target tokens, in nats, with the reference as the decoder's input.
"""

from pathlib import Path
from typing import TypedDict

from transformer.evaluation.attention import shape
from transformer.files import InputError
from transformer.records import Amount, Checksum, Count, Draws, Positive, RunRecord, Share, read_of_run

KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder to encoder"}  # of attention, in words


class Analysis(TypedDict):
    """The keys of all analyses; there is "language", too."""

    run: RunRecord
    sentences: Positive
    target_sha256: Checksum


class Bleu(TypedDict):
    bleu: float
    low: float
    high: float
    draws: Draws


class Average(Bleu):
    """An average of the last checkpoints, whose "steps" are listed."""

    checkpoints: Positive
    perplexity: Amount


class Averaging(Analysis):
    averages: list[Average]


class Group(Bleu):
    """Sentences of similar length.

    times: None for single sentences, in four groups by length; 1 for neighbours joined while they had no more tokens
    than the longest source sentence in training; another t for neighbours joined until they had t times as many.
    """

    times: Positive | None
    sentences: Positive
    tokens: Amount  # mean of the source, EOS included
    length_ratio: Amount


class GroupedByLength(Analysis):
    positions: str
    longest: Positive  # tokens of a source sentence in training
    skipped: Count  # joined sentences that the model has too few positions for
    groups: list[Group]  # none for a t without joined sentences


class Step(TypedDict):
    """A step in which one more head is masked: the one that raises the loss on some of the sentences least."""

    masked: Positive
    layer: Positive  # this and the head, of this step, count from 1
    head: Positive
    loss: float


class HeadsOfKind(TypedDict):
    """The heads of one kind of attention, tables [layer][head]."""

    increase: list[list[float]]  # of the loss with this head alone masked
    distance: list[list[Amount]]  # mean, in tokens, that it looks over
    equal: Amount  # the distance with the same weight for all visible tokens
    curve: list[Step]


class HeadsByKind(TypedDict):
    encoder: HeadsOfKind
    decoder: HeadsOfKind
    cross: HeadsOfKind


class Masked(Bleu):
    """BLEU with so many heads of a kind masked, in the order of its curve."""

    kind: str | None
    masked: Count


class Heads(Analysis):
    layers: Positive
    heads: Positive
    loss: float
    kinds: HeadsByKind
    bleu: list[Masked]


class Calibration(TypedDict):
    """The distance of probabilities from the truth; there are "bins", too."""

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


PAYLOADS = {"averaging": Averaging, "heads": Heads, "lengths": GroupedByLength, "smoothing": Smoothing}  # by analysis


def read_heads(path: str | Path) -> Heads:
    """Return an analysis of heads. Raises InputError naming the file and what is missing in it."""
    content = read_of_run(path, Heads)
    N, h = content["layers"], content["heads"]
    for kind in KINDS:
        found, where = content["kinds"][kind], f"{path}, {kind}"
        for name in ("increase", "distance"):
            if (actual := shape(found[name])) != (N, h):
                raise InputError(f"{where}, {name}: expected {N} layers of {h} heads, found shape {actual}")
        if (steps := len(found["curve"])) != N * h:
            raise InputError(f"{where}, curve: expected {N * h} heads, found {steps}")
    return content
