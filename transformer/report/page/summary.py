"""The summary of a page: the paper's scores beside ours, and what the trainings took."""

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from transformer.evaluation.records import Run
from transformer.files import InputError
from transformer.report.tables.cells import Cell, Row, difference_text, interval_text, mean_text
from transformer.report.tables.csvfiles import read_csv

CORES = re.compile(r"(.+), (\d+) of \d+ cores")  # how common/provenance.py names a processor
HOUR = 3600  # seconds


class Work(NamedTuple):
    """The work of a training: hours of all its cores or GPUs together."""

    unit: str  # core or GPU
    hours: float
    processor: str


class Usage(NamedTuple):
    """Hours of training on one kind of processor."""

    unit: str  # core or GPU
    hours: float
    runs: int
    hardware: list[str]


def closeness_of_table_2(path: str | Path) -> list[Row]:
    """Return BLEU of our systems, task by task, from Table 2's CSV. Raises InputError where a column is missing."""
    table = read_csv(path, ["model", "by"])
    tasks = [column.removesuffix("_difference") for column in table if column.endswith("_difference")]
    return [
        {"Model": row["model"], "Task": f"{task.upper()}, BLEU"} | closeness(row, f"{task}_bleu", f"{task}_", path)
        for row in table[table["by"] == "ours"].to_dict("records")
        for task in tasks
        if row[f"{task}_bleu"]
    ]


def closeness_of_table_4(path: str | Path) -> list[Row]:
    """Return F1 of our parsers from Table 4's CSV. Raises InputError where a column is missing."""
    table = read_csv(path, ["by", "training"])
    ours = table[table["by"] == "ours"].to_dict("records")
    return [
        {"Model": f"Parser ({row['training']})", "Task": "parsing, F1"} | closeness(row, "f1", "", path) for row in ours
    ]


def closeness(row: dict[str, str], score: str, prefix: str, path: str | Path) -> Row:
    """Return the paper's number and ours from a row; `score` is a column, and the others' names begin with `prefix`."""

    for column in (f"{score}_sd", *(f"{prefix}{name}" for name in ("low", "high", "paper", "difference", "runs"))):
        if column not in row:
            raise InputError(f"{path}: missing key {column!r}")

    def number(column: str) -> float:
        try:
            return float(row[column] or "nan")
        except ValueError:
            raise InputError(f"{path}, {column}: expected a number, found {row[column]!r}") from None

    low, high, paper, difference = (number(f"{prefix}{name}") for name in ("low", "high", "paper", "difference"))
    ours = {
        "Ours": mean_text(number(score), number(f"{score}_sd"), 1),
        "95 %": interval_text(low, high, 1),
        "− paper": difference_text(difference, 1),
    }
    runs = tuple(row[f"{prefix}runs"].split())
    return {"Paper": mean_text(paper, float("nan"), 1)} | {
        heading: Cell(text, runs if text else ()) for heading, text in ours.items()
    }


def usage(runs: dict[str, Run]) -> list[Usage]:
    """Return hours of training by unit, from run.json files by the run's name.

    A run that was continued on another machine counts in full there: run.json does not say what each machine did.
    """
    hours: defaultdict[str, list[float]] = defaultdict(list)
    hardware: defaultdict[str, set[str]] = defaultdict(set)
    for run in runs.values():
        last = run["starts"][-1]
        done = work(last["hardware"], last["processes"], run["seconds"])
        hours[done.unit].append(done.hours)
        hardware[done.unit].add(done.processor)
    return [Usage(unit, sum(of_unit), len(of_unit), sorted(hardware[unit])) for unit, of_unit in sorted(hours.items())]


def work(hardware: str, processes: int, seconds: float) -> Work:
    """Return the work of a training on so many processes, each on this hardware (common/provenance.py)."""
    hours = seconds / HOUR * processes
    if cores := CORES.fullmatch(hardware):
        return Work("core", hours * int(cores[2]), cores[1])
    return Work("GPU", hours, hardware)


def moved(runs: dict[str, Run]) -> list[str]:
    """Return the runs that were started on more than one kind of machine."""
    machines = {
        name: {(start["hardware"], start["processes"]) for start in run["starts"]} for name, run in runs.items()
    }
    return [name for name, kinds in machines.items() if len(kinds) > 1]
