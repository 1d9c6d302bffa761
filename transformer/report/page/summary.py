"""The summary of a page: the paper's scores beside ours, and what the trainings took."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from transformer.files import InputError
from transformer.records import Start, Trained
from transformer.report.tables.cells import (
    difference_text,
    flops_text,
    interval_text,
    mean_text,
    read_printed,
)
from transformer.report.tables.render import Cell, Grid, Row, Table, html

CORES = re.compile(r"(.+), (\d+) of \d+ cores")  # how transformer/provenance.py names a processor
CLOSENESS_CAPTION = (
    "The paper's scores and ours. Ours are means over seeds, ± their standard deviation; 95 %: where the "
    "mean lies on resampled test sentences."
)
DETAILS_CAPTION = "Size, work and machine of each training. Unit-hours are hours times cores or GPUs."
DETAILS_NOTES = [
    "Training alone is counted: neither preparation nor scoring, nor work that an interruption lost. No power was "
    "measured.",
    "Settings: `experiment.yaml` beside `run.json`. `config.yaml` states them; the pipeline searches for none.",
    "Software: `run.json` has the versions of each start, `requirements.lock` those of all packages.",
    "Data: `config.yaml` has the files of each split and their checksums, `docs/licences.md` the licences.",
    "Everything is made by `snakemake --cores all --config scale=SCALE`. All random numbers of a training derive from "
    "its seed, which ends the run's name.",
]


class Usage(NamedTuple):
    """Hours of training on one kind of processor."""

    unit: str  # core or GPU
    hours: float
    runs: int
    hardware: list[str]


def closeness(tables: Iterable[str | Path]) -> Markup:
    """Show the paper's scores beside ours, from the CSV files of Tables 2 and 4; empty without any.

    The column of differences is shown if a table has any: if the data are the paper's.
    """
    readers = {"table2": translation_scores, "table4": parsing_scores}
    rows = [row for path in map(Path, tables) if path.stem in readers for row in readers[path.stem](path)]
    if not rows:
        return Markup()
    apart = any(str(row["− paper"]) for row in rows)
    if not apart:
        rows = [{heading: cell for heading, cell in row.items() if heading != "− paper"} for row in rows]
    grid = Grid(("Model", "Task"), rows)
    return html(Table("closeness", "Scores", CLOSENESS_CAPTION, grid, []), scrolls="Scores, scrolls")


def translation_scores(table: Path) -> list[Row]:
    """List BLEU of our systems, task by task, from Table 2. Raises InputError for a missing column."""
    path = table.with_suffix(".csv")
    frame = read_printed(path, ["model", "by"])
    tasks = [column.removesuffix("_difference") for column in frame if column.endswith("_difference")]
    return [
        {"Model": row["model"], "Task": f"{task.upper()}, BLEU"} | score_pair(row, f"{task}_bleu", f"{task}_", path)
        for row in frame[frame["by"] == "ours"].to_dict("records")
        for task in tasks
        if row[f"{task}_bleu"]
    ]


def parsing_scores(table: Path) -> list[Row]:
    """List F1 of our parsers from Table 4. Raises InputError for a missing column."""
    path = table.with_suffix(".csv")
    frame = read_printed(path, ["by", "training"])
    return [
        {"Model": f"Parser ({row['training']})", "Task": "parsing, F1"} | score_pair(row, "f1", "", path)
        for row in frame[frame["by"] == "ours"].to_dict("records")
    ]


def score_pair(row: dict[str, str], score: str, prefix: str, path: Path) -> Row:
    """Format the paper's number and ours; `score` is a column, and the others' names begin with `prefix`."""
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


def usage(runs: dict[str, Trained]) -> list[Usage]:
    """Sum the hours of training by unit.

    A run that was continued on another machine counts in full there: run.json does not say what each machine did.
    """
    hours: defaultdict[str, list[float]] = defaultdict(list)
    hardware: defaultdict[str, set[str]] = defaultdict(set)
    for run in runs.values():
        unit, count, processor = units(run["starts"][-1])
        hours[unit].append(run["seconds"] / 3600 * count)
        hardware[unit].add(processor)
    return [Usage(unit, sum(of_unit), len(of_unit), sorted(hardware[unit])) for unit, of_unit in sorted(hours.items())]


def units(start: Start) -> tuple[str, int, str]:
    """Count the cores or GPUs of a start: the unit, how many of it, the processor's name."""
    if cores := CORES.fullmatch(start["hardware"]):
        return "core", start["processes"] * int(cores[2]), cores[1]
    return "GPU", start["processes"], start["hardware"]


def moved_runs(runs: dict[str, Trained]) -> list[str]:
    """List the runs that were started on more than one kind of machine."""
    machines = {
        name: {(start["hardware"], start["processes"]) for start in run["starts"]} for name, run in runs.items()
    }
    return [name for name, kinds in machines.items() if len(kinds) > 1]


def training_details(runs: dict[str, Trained]) -> Markup:
    """Show what reviewers ask of trainings: a row for each run, and where the rest is answered; empty without any."""
    rows = [
        {
            "Run": name,
            "Parameters": f"{run['parameters']:,}",
            "Steps": f"{run['steps']:,}",
            "Dev perplexity": mean_text(run["dev_perplexity"], float("nan"), 2),
            "FLOPs": flops_text(run["flops"]),
            "Hours": f"{run['seconds'] / 3600:.2f}",
            "Unit-hours": f"{run['seconds'] / 3600 * units(run['starts'][-1])[1]:.2f}",
            "Machine": f"{run['starts'][-1]['processes']} × {run['starts'][-1]['hardware']}",
        }
        for name, run in runs.items()
    ]
    table = Table("details", "Trainings", DETAILS_CAPTION, Grid(("Run", "Machine"), rows), [DETAILS_NOTES])
    return html(table, scrolls="Trainings, scrolls") if rows else Markup()
