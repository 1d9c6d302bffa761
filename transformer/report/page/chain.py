"""The chain behind a table's cell: from the cell to the data, with what is there now checked against what was used."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformer.config.experiment import Decoding, load
from transformer.data.manifest import Manifest
from transformer.evaluation.origin import ADDED
from transformer.evaluation.records import Traced, number_of, read_scored
from transformer.files import InputError, sha256
from transformer.records import read_json, typed
from transformer.report.tables.cells import averaged_text
from transformer.report.tables.csvfiles import read_csv

# The score files behind each table's cells.
SCORES = {"table2": "test.json", "table3": "dev.last.json", "table4": "test.json"}
ROUNDING = 1e-9  # error of a mean whose terms were added in another order


@dataclass(frozen=True)
class Link:
    """A thing that a number depends on; `stale` says what has changed since, or is empty."""

    name: str
    what: str
    stale: str = ""


def cell(results: Path, table: str, experiment: str, task: str) -> tuple[Link, list[Path]]:
    """Return the cell of BLEU, or of F1, and the score files that it is the mean of.

    Raises InputError where the table has no such cell, or its runs are not there.
    """
    shown, runs = read_cell(results / "tables" / f"{table}.csv", table, experiment, task)
    paths = [results / "runs" / run / SCORES[table] for run in runs]
    mean = sum(number_of(read_scored(path)) for path in paths) / len(paths)
    stale = "" if abs(shown - mean) < ROUNDING else f"its scores make {mean:.4f} now"
    return Link("cell", f"{results}/tables/{table}.csv: {shown:.4f}, of {len(paths)} runs", stale), paths


def read_cell(path: Path, table: str, experiment: str, task: str) -> tuple[float, list[str]]:
    """Return the number in a table's CSV file, and the runs that it says are behind it."""
    frame, prefix = read_csv(path, []), f"{task}_" if table == "table2" else ""
    runs, number = f"{prefix}runs", "f1" if table == "table4" else f"{prefix}bleu"
    rows = frame[frame[runs].str.startswith(f"{task}/{experiment}/")] if runs in frame else frame[:0]
    if len(rows) != 1:
        raise InputError(f"{path}: expected a number for {experiment} on {task}, found none: make the table again")
    return float(rows[number].iloc[0]), rows[runs].iloc[0].split()


def chain(path: Path) -> Iterator[Link]:
    """Yield the links behind a score file, from the score to the data. Raises InputError where it is no run's score."""
    score, folder = read_scored(path), path.parent
    run, scores = typed(score["run"], Traced, f"{path}, run"), score["scores"]
    signature = f"labelled F1 by {score['by']}" if "by" in score else scores[scores["paper"]]["signature"]
    yield Link("score", f"{path}: {number_of(score):.4f}, {signature}")
    for side in ("hyp", "ref", "test", "gold"):
        if side in score:
            text = str(score[side])
            yield checked(side, text, score.get(f"{side}_sha256"), partial(sha256, text))
    shown = ", ".join(f"{key} {value}" for key, value in run["decoding"].items())
    yield checked("decoding", shown, run["decoding"], lambda: asdict(load(folder / "decoding.yaml", Decoding)))
    weights = folder / ("last.safetensors" if ".last" in path.name else "average.safetensors")
    shown, used = f"{weights}: {averaged_text(run['averaged_steps'])}", run["weights_sha256"]
    if used is None:
        yield Link("weights", f"{shown}; not taken with the run as they were, so not checked")
    else:
        yield checked("weights", shown, used, lambda: sha256(weights))
    shown = f"commit {run['commit']}, {run['steps']:,} steps in {run['seconds']:,.0f} s on {run['hardware']}"
    if taken := run.get("taken"):
        shown = f"taken from {taken['from']} (run.json {taken['sha256'][:12]}), {shown}"
    trained = {key: value for key, value in run.items() if key not in ADDED}
    yield checked("run", f"{folder}: {shown}", trained, lambda: read_json(folder / "run.json"))
    experiment = folder / "experiment.yaml"
    shown = f"{experiment}: with the data, digest {run['digest'][:12]}"
    yield checked("experiment", shown, run["digest"], lambda: load(experiment).digest(run["data_sha256"]))
    data = folder.parents[3] / "data" / run["task"] / "data.json"
    shown = f"{data}: {run['data_sha256'][:12]}"
    if "taken" in run and not data.exists():
        yield Link("data", f"{shown}; not here, so not checked")
        return
    yield checked("data", shown, run["data_sha256"], lambda: read_json(data, Manifest)["sha256"])


def checked(name: str, what: str, used: Any, now: Callable[[], Any]) -> Link:
    """Return the link, stale where `now()` is not what was used, or cannot be read any more."""
    try:
        return Link(name, what, "" if now() == used else "has changed since")
    except (InputError, OSError) as error:
        return Link(name, what, f"cannot be checked: {error}")


def stale(path: Path) -> str:
    """Return what has changed since a score file was written, in words; empty if nothing has."""
    return "; ".join(f"{link.name} {link.stale}" for link in chain(path) if link.stale)
