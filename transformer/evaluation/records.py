"""Records of runs and of their scores: what run.json and score files hold, by those who write and who read them.

Neither torch nor pandas is imported here, as the score stage needs neither.
"""

from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from transformer.files import InputError
from transformer.records import Amount, Checksum, Count, Draws, Kind, Positive, Steps, read_json, typed

Taken = TypedDict("Taken", {"from": str, "sha256": Checksum})  # the folder that a run was taken from, its run.json


class Name(TypedDict):
    """The names of a run."""

    task: str
    experiment: str
    seed: Count


class Start(TypedDict):
    """A start of a training, or a resumption."""

    started: str
    step: Count
    processes: Positive
    hardware: str


class Learned(Name):
    """The training of a run, as run.json has always described it."""

    scale: str
    steps: Positive
    parameters: Positive
    dev_perplexity: float | None
    flops: Amount  # of the training
    seconds: Amount  # of the training
    hardware: str
    commit: str
    digest: Checksum  # of the settings and the data
    data_sha256: Checksum


class Trained(Learned):
    """The training of a run, as run.json and score files describe it."""

    fidelity: str


class Run(Trained):
    """The content of run.json."""

    source: str
    target: str
    starts: Annotated[list[Start], Meta(min_length=1)]
    finished: str
    taken: NotRequired[Taken]


class RunRecord(Trained):
    """The run behind a score, as a score file must describe it."""

    averaged_steps: Steps
    decoding: dict[str, Any]


class Variant(TypedDict):
    """A score by one measure."""

    score: float
    signature: str


class Part(TypedDict):
    """The scores of a set of sentences: by the name of each measure, and as "paper" the name of the paper's."""

    scores: dict[str, str | Variant]


class Subset(Part):
    """The scores of a part of a test set."""

    sentences: Positive


class Translated(Part):
    """The content of a score file of a run's translation."""

    run: RunRecord
    language: str
    hyp_sha256: Checksum
    ref_sha256: Checksum
    draws: Draws  # BLEU on resampled test sets
    subsets: NotRequired[dict[str, Subset]]


class WithSubsets(Translated):
    """The content of a score file that tells which parts of the test set were scored, too, if any."""

    subsets: dict[str, Subset]


class Brackets(TypedDict):
    """Measures of trees; None where there was nothing to divide by."""

    f1: float | None
    recall: float | None
    precision: float | None
    tagging: float | None
    sentences: Count
    errors: Count


class Lengths(TypedDict):
    """Measures of all sentences, and of those of 40 words at most."""

    all: Brackets
    len40: Brackets


class Parsed(TypedDict):
    """The content of a score file of a run's parses."""

    run: RunRecord
    by: str  # whose tags leave words out
    gold_sha256: Checksum
    draws: Draws  # F1 on resampled test sets
    scores: Lengths
    without_repair: Lengths
    repaired: list[int]  # lines
    strict: Lengths  # by each tree's own tags


class Traced(RunRecord):
    """The run behind a score whose weights can be checked."""

    taken: NotRequired[Taken]
    weights_sha256: str | None  # none where they were left where the run was taken from


class Described(Run, RunRecord):
    """The run behind a score, with all that the page tells of it."""


def read_scored(path: str | Path) -> Translated | Parsed:
    """Return a score file of either kind. Raises InputError naming the file and the key."""
    content = read_json(path)
    return read_of_run(path, Parsed) if isinstance(content, dict) and "by" in content else read_translated(path)


def number_of(score: Translated | Parsed) -> float | None:
    """Return what a score adds to its table's cell: the paper's variant of BLEU, or F1."""
    scores = score["scores"]
    return scores["all"]["f1"] if "by" in score else scores[scores["paper"]]["score"]


def read_of_run(path: str | Path, kind: type[Kind]) -> Kind:
    """Return the content of a file that tells the run behind it. Raises InputError naming the file and the key."""
    content = read_json(path)
    if isinstance(content, dict) and "run" in content and content["run"] is None:
        raise InputError(f"{path}: expected a score with its run (--run), found one without")
    return typed(content, kind, path)


def read_translated(path: str | Path, kind: type[Translated] = Translated) -> Translated:
    """Return a translation's score file. Raises InputError naming the file and the key."""
    content = read_of_run(path, kind)
    parts = {"scores": content["scores"]}
    parts |= {f"subsets.{name}.scores": part["scores"] for name, part in content.get("subsets", {}).items()}
    for place, scores in parts.items():
        for name, value in scores.items():
            if isinstance(value, str) != (name == "paper"):
                expected = "a measure's name" if name == "paper" else "object"
                raise InputError(f"{path}, {place}.{name}: expected {expected}, found {value!r}")
        for name in ("paper", scores.get("paper")):
            if name not in scores:
                raise InputError(f"{path}, {place}: missing key {name!r}")
    return content


def run_name(run: Name) -> str:
    """Return `task/experiment/seed` of a run's record, or of `vars` of an experiment."""
    return "/".join(str(run[key]) for key in ("task", "experiment", "seed"))


def variants(scores: dict[str, str | Variant]) -> dict[str, Variant]:
    """Return the scores of a translation by measure."""
    return {name: variant for name, variant in scores.items() if name != "paper"}
