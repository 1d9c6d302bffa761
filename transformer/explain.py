"""The chain behind a table's cell: from the cell to the data, with what is there now checked against what was used."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from transformer.config import Decoding, load
from transformer.files import InputError, read_json, sha256
from transformer.runs import averaged_steps
from transformer.scorefiles import averaged_text, item, read_printed

# The score files behind each table's cells.
SCORES = {"table2": "test.json", "table3": "dev.last.json", "table4": "test.json"}
ROUNDING = 1e-9  # of a mean, by another order of its terms


@dataclass(frozen=True)
class Link:
    """One thing that a number depends on; `stale` says what has changed since, or is empty."""

    name: str
    what: str
    stale: str = ""


def cell(results: Path, table: str, experiment: str, task: str) -> tuple[Link, list[Path]]:
    """The cell of BLEU, or of F1, and the score files that it is the mean of.

    Raises InputError where the table or its runs are not there.
    """
    paths = sorted(results.glob(f"runs/{task}/{experiment}/*/{SCORES[table]}"))
    if not paths:
        raise InputError(f"{results}/runs/{task}/{experiment}: expected a run with {SCORES[table]}, found none")
    shown = number_in(results / "tables" / f"{table}.csv", table, experiment, task)
    mean = sum(number_of(path) for path in paths) / len(paths)
    stale = "" if abs(shown - mean) < ROUNDING else f"its scores make {mean:.4f} now"
    return Link("cell", f"{results}/tables/{table}.csv: {shown:.4f}, of {len(paths)} runs", stale), paths


def number_in(path: Path, table: str, experiment: str, task: str) -> float:
    """What the CSV file of a table says."""
    frame = read_printed(path, [])
    column = {"table2": f"{task}_bleu", "table3": "bleu", "table4": "f1"}[table]
    ours = {
        "table2": lambda: (frame["by"] == "ours") & (frame["model"] == f"Transformer ({experiment})"),
        "table3": lambda: frame["experiment"] == experiment,
        "table4": lambda: (frame["by"] == "ours") & (frame["task"] == task),
    }[table]()
    found = frame.loc[ours, column] if column in frame else pd.Series(dtype=str)
    if len(found) != 1 or not found.iloc[0]:
        raise InputError(f"{path}: expected a number for {experiment} on {task}, found none: make the table anew")
    return float(found.iloc[0])


def number_of(path: Path) -> float:
    """What a score file adds to its cell: the paper's variant of BLEU, or F1."""
    scores = item(read_json(path), "scores", str(path))
    return scores["all"]["f1"] if "all" in scores else scores[item(scores, "paper", str(path))]["score"]


def chain(path: Path) -> Iterator[Link]:
    """The links behind a score file, from the score to the data. Raises InputError where it is no run's score."""
    score = read_json(path)
    about, folder = item(score, "run", str(path)), path.parent
    data = folder.parents[3] / "data" / about["task"] / "data.json"
    yield Link("score", f"{path}: {number_of(path):.4f}, {signature(score)}")
    for side in ("hyp", "ref", "test", "gold"):
        if side in score:
            yield checked(side, score[side], score[f"{side}_sha256"], lambda side=side: sha256(score[side]))
    decoding = folder / "decoding.yaml"
    shown = ", ".join(f"{key} {value}" for key, value in about["decoding"].items())
    yield checked("decoding", shown, about["decoding"], lambda: asdict(load(decoding, Decoding)))
    weights = folder / ("last.safetensors" if ".last" in path.name else "average.safetensors")
    text = f"{weights}: {averaged_text(about['averaged_steps'])}"
    yield checked("weights", text, about["averaged_steps"], lambda: averaged_steps(weights))
    text = f"{folder}: commit {about['commit']}, {about['steps']:,} steps in {about['seconds']:,.0f} s"
    yield checked(
        "run", f"{text} on {about['hardware']}", about["digest"], lambda: read_json(folder / "run.json")["digest"]
    )
    experiment = folder / "experiment.yaml"
    text = f"{experiment}: with the data, digest {about['digest'][:12]}"
    yield checked("experiment", text, about["digest"], lambda: load(experiment).digest(about["data_sha256"]))
    text = f"{data}: {about['data_sha256'][:12]}"
    yield checked("data", text, about["data_sha256"], lambda: read_json(data)["sha256"])


def checked(name: str, what: str, used: Any, now: Callable[[], Any]) -> Link:
    """The link, stale where `now()` is not what was used, or cannot be read any more."""
    try:
        return Link(name, what, "" if now() == used else "has changed since")
    except (InputError, OSError) as error:
        return Link(name, what, f"cannot be checked: {error}")


def signature(score: dict) -> str:
    """How the number was computed."""
    scores = score["scores"]
    return f"labelled F1 by {score['by']}" if "all" in scores else scores[scores["paper"]]["signature"]


def stale(path: Path) -> str:
    """What has changed since a score file was written, in words; empty if nothing."""
    return "; ".join(f"{link.name} {link.stale}" for link in chain(path) if link.stale)
