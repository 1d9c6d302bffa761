"""Records of the files of probes. The module of a probe tells what its keys mean."""

from typing import TypedDict

from transformer.evaluation.records import RunRecord
from transformer.records import Amount, Checksum, Count, Draws, Positive, Share


class Probed(TypedDict):
    """The keys of all files of probes."""

    run: RunRecord
    sentences: Positive
    target_sha256: Checksum


class Score(TypedDict):
    """BLEU of some translations."""

    bleu: float
    low: float
    high: float
    draws: Draws


class Average(Score):
    """An average of the last checkpoints."""

    checkpoints: Positive
    perplexity: Amount


class Averaging(Probed):
    """The probe `averaging`."""

    averages: list[Average]


class Group(Score):
    """Sentences of similar length."""

    times: Positive | None
    sentences: Positive
    tokens: Amount
    length_ratio: Amount


class Lengths(Probed):
    """The probe `lengths`."""

    positions: str
    longest: Positive
    skipped: Count
    groups: list[Group]


class Step(TypedDict):
    """A step in which one more head is masked."""

    masked: Positive
    layer: Positive
    head: Positive
    loss: float


class Kind(TypedDict):
    """The heads of one kind of attention."""

    increase: list[list[float]]
    distance: list[list[Amount]]
    equal: Amount
    curve: list[Step]


class Kinds(TypedDict):
    """The heads of a model."""

    encoder: Kind
    decoder: Kind
    cross: Kind


class Masked(Score):
    """BLEU with so many heads of a kind masked."""

    kind: str | None
    masked: Count


class Heads(Probed):
    """The probe `heads`."""

    layers: Positive
    heads: Positive
    loss: float
    kinds: Kinds
    bleu: list[Masked]


class Calibration(TypedDict):
    """The distance of probabilities from the truth."""

    error: Share
    confidence: Share
    accuracy: Share


class Beam(Score):
    """BLEU by a search with this beam."""

    beam: Positive
    length_ratio: Amount


class Smoothing(Probed):
    """The probe `smoothing`."""

    epsilon_ls: Share
    perplexity: Amount
    perplexity_draws: Draws
    beams: list[Beam]
    calibration: Calibration


PAYLOADS = {"averaging": Averaging, "heads": Heads, "lengths": Lengths, "smoothing": Smoothing}  # by probe
