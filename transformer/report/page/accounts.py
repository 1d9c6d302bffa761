"""Accounts of runs, as the files of each tell them, for REPRODUCIBILITY.md; those of older versions tell less."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from msgspec import Meta

from transformer.config.experiment import Decoding, load
from transformer.config.yamlfile import read_yaml
from transformer.evaluation.records import Brackets, Learned, Name, Taken, run_name
from transformer.files import InputError
from transformer.records import Checksum, Count, Positive, read_json, typed
from transformer.report.page.summary import Work, work
from transformer.training.metrics import Line, read_metrics

UNRECORDED = "not recorded"
F1 = "F1"


class Began(TypedDict):
    """A start of a training."""

    hardware: str
    commit: NotRequired[str]
    processes: NotRequired[Positive]
    products: NotRequired[str]  # the type that matrices are multiplied in
    versions: NotRequired[dict[str, str]]


class Recorded(Learned):
    """The content of run.json. The first versions wrote the one start's keys beside the others."""

    source: str
    target: str
    fidelity: NotRequired[str]
    dev_bleu: NotRequired[float | None]
    starts: NotRequired[Annotated[list[Began], Meta(min_length=1)]]
    products: NotRequired[str]
    versions: NotRequired[dict[str, str]]
    taken: NotRequired[Taken]


class Settings(TypedDict):
    """The sections of experiment.yaml that a result depends on."""

    model: dict[str, Any]
    training: dict[str, Any]
    preparation: dict[str, Any]


class Variant(TypedDict):
    """A score by one measure, which the first versions called "bleu"."""

    score: NotRequired[float]
    bleu: NotRequired[float]
    signature: str


class Source(Name):
    """The run behind a score."""

    digest: Checksum


class Score(NamedTuple):
    """The number of a score file that stands in tables."""

    measure: str
    value: float | None
    signature: str
    sentences: int
    compared_with: str  # the SHA-256 of references or treebank


@dataclass(frozen=True)
class Account:
    """A run: its run.json and what lies beside it, where that is there. Scores by the names of their files."""

    name: str
    record: Recorded
    settings: Settings | None
    decoding: Decoding | None
    metrics: list[Line]
    scores: dict[str, Score] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Return `task/experiment`: runs that differ in their seed alone."""
        return self.name.rpartition("/")[0]

    @property
    def starts(self) -> list[Began]:
        """Return the starts; the one whose keys stand beside the others where there is no list of them."""
        return self.record.get("starts") or [self.record]

    @property
    def work(self) -> Work:
        """Return the training's work, all of it counted on the machine where it ended."""
        last = self.starts[-1]
        return work(last["hardware"], last.get("processes", 1), self.record["seconds"])


def read_account(path: str | Path, missing: list[str]) -> Account:
    """Return the run of a run.json without its scores. Names what is not beside it in `missing`.

    Raises InputError naming a file that cannot be read.
    """
    record, folder = read_json(path, Recorded), Path(path).parent
    name = run_name(record)
    paths = {file: folder / file for file in ("experiment.yaml", "decoding.yaml", "metrics.jsonl")}
    missing += [f"{name}: no {file}" for file, beside in paths.items() if not beside.exists()]
    experiment, decoding, metrics = (beside if beside.exists() else None for beside in paths.values())
    return Account(
        name,
        record,
        typed(read_yaml(experiment), Settings, experiment) if experiment else None,
        load(decoding, Decoding) if decoding else None,
        read_metrics(metrics) if metrics else [],
    )


def read_scores(paths: Iterable[str], accounts: dict[str, Account]) -> list[str]:
    """Add the score files to their runs. Returns what is wrong with those that belong to no run as it is now.

    Raises InputError naming a file that is no score of a run.
    """
    wrong = []
    for path in paths:
        content = read_json(path, dict)
        source = typed(content.get("run"), Source, f"{path}, run")
        name, file = run_name(source), Path(path).name
        if name not in accounts:
            wrong.append(f"{name}: {file} is there, but no run.json")
            continue
        accounts[name].scores[file] = score_of(content, path)
        if source["digest"] != accounts[name].record["digest"]:
            wrong.append(f"{name}: {file} is of another training than run.json")
    return wrong


def score_of(content: dict[str, Any], path: str) -> Score:
    """Return F1 of a parser, or a translation's BLEU by the paper's measure. Raises InputError naming the file."""
    scores = content.get("scores")
    if "by" in content:
        brackets = typed(scores, dict[str, Any], f"{path}, scores").get("all")
        found = typed(brackets, Brackets, f"{path}, scores.all")
        gold = typed(content.get("gold_sha256"), Checksum, f"{path}, gold_sha256")
        return Score(F1, found["f1"], f"COLLINS.prm, by {content['by']}", found["sentences"], gold)
    paper = typed(typed(scores, dict[str, Any], f"{path}, scores").get("paper"), str, f"{path}, scores.paper")
    variant = typed(scores.get(paper), Variant, f"{path}, scores.{paper}")
    value = variant.get("score", variant.get("bleu"))
    if value is None:
        raise InputError(f"{path}, scores.{paper}: missing key 'score'")
    sentences = typed(content.get("sentences"), Count, f"{path}, sentences")
    reference = typed(content.get("ref_sha256"), Checksum, f"{path}, ref_sha256")
    return Score(f"BLEU ({paper})", value, variant["signature"], sentences, reference)
