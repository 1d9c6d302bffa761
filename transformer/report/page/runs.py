"""The runs behind a page: how close they come to the paper, what they took, and a card of each."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from transformer.records import (
    Parsed,
    RunRecord,
    Start,
    Trained,
    Translated,
    read_json,
    read_scored,
    run_name,
    typed,
    variants,
)
from transformer.report.tables.cells import (
    averaged_text,
    difference_text,
    flops_text,
    interval_text,
    mean_text,
    read_printed,
)
from transformer.report.tables.render import Cell, Grid, Row, Table, html

_CORES = re.compile(r"(.+), (\d+) of \d+ cores")  # how transformer/provenance.py names a processor
_BRACKETS = {"F1": "f1", "Recall": "recall", "Precision": "precision"}
_CLOSENESS_CAPTION = (
    "The paper's scores and ours. Ours are means over seeds, ± their standard deviation; 95 %: where the "
    "mean lies on resampled test sentences."
)
_DETAILS_CAPTION = "Size, work and machine of each training. Unit-hours are hours times cores or GPUs."
_DETAILS_NOTES = [
    "Training alone is counted: neither preparation nor scoring, nor work that an interruption lost. No power was "
    "measured.",
    "Settings: `experiment.yaml` beside `run.json`. `config.yaml` states them; the pipeline searches for none.",
    "Software: `run.json` has the versions of each start, `requirements.lock` those of all packages.",
    "Data: `config.yaml` has the files of each split and their checksums, `docs/licences.md` the licences.",
    "Everything is made by `snakemake --cores all --config scale=SCALE`. All random numbers of a training derive from "
    "its seed, which ends the run's name.",
]


class _RunCard(NamedTuple):
    """The training of a run, as texts by heading, and its averages, decoding and scores, by score file."""

    run: str
    facts: dict[str, str]
    scores: list[dict[str, Any]]

    def text(self) -> str:
        """Format the card for a terminal."""
        lines = [self.run, *(f"  {heading:18}{text}" for heading, text in self.facts.items())]
        for score in self.scores:
            lines.append(f"  {score['file']}: {score['averaged']}; {score['decoding']}")
            lines += [f"    {name:16}{value:6.2f}  {signature}" for name, value, signature in score["measures"]]
        return "\n".join(lines)


def read_run_records(paths: Iterable[str | Path]) -> dict[str, Trained]:
    """Read run.json files, by the name of the run."""
    return {run_name(run): run for run in (read_json(path, Trained) for path in paths)}


def run_cards(runs: dict[str, Trained], scores: Iterable[str | Path]) -> list[_RunCard]:
    """Make a card for each run; a score whose run.json is gone has its own record of the run."""
    cards = {name: _RunCard(name, _facts(run), []) for name, run in runs.items()}
    for path in scores:
        score = read_scored(path)
        run = typed(score["run"], RunRecord, f"{path}, run")
        card = cards.setdefault(run_name(run), _RunCard(run_name(run), _facts(run), []))
        about = {
            "file": Path(path).name,
            "averaged": averaged_text(run["averaged_steps"]),
            "decoding": ", ".join(f"{key} {value}" for key, value in run["decoding"].items()),
            "measures": _measures(score),
        }
        card.scores.append(about)
    return list(cards.values())


def _facts(run: Trained) -> dict[str, str]:
    starts = [
        f"{start['started']} at step {start['step']:,}, {start['processes']} × {start['hardware']}"
        for start in run["starts"]
    ]
    return {
        "Commit": run["commit"],
        "Data (SHA-256)": run["data_sha256"],
        "Settings (digest)": run["digest"],
        "Fidelity": run["fidelity"],
        "Steps": f"{run['steps']:,}",
        "Parameters": f"{run['parameters']:,}",
        "FLOPs": flops_text(run["flops"]),
        "Time": f"{run['seconds']:,.0f} s",
        "Hardware": run["hardware"],
        "Started": "; ".join(starts),
        "Finished": run["finished"],
    }


def _measures(score: Translated | Parsed) -> list[tuple[str, float, str]]:
    """List name, score and signature: F1 and its parts, or every variant of BLEU with a star on the paper's."""
    if "by" in score:
        brackets, signature = score["scores"]["all"], f"COLLINS.prm, by {score['by']}"
        return [(name, brackets[key], signature) for name, key in _BRACKETS.items() if brackets[key] is not None]
    paper = score["scores"]["paper"]
    return [
        (f"{name} *" if name == paper else name, variant["score"], variant["signature"])
        for name, variant in variants(score["scores"]).items()
    ]


def closeness(tables: Iterable[str | Path]) -> Markup:
    """Show the paper's scores beside ours, and differences if a table has any, from Tables 2 and 4; empty without."""
    rows = [row for path in map(Path, tables) if path.stem in ("table2", "table4") for row in _scores(path)]
    if not rows:
        return Markup()
    if not any(str(row["− paper"]) for row in rows):
        rows = [{heading: cell for heading, cell in row.items() if heading != "− paper"} for row in rows]
    grid = Grid(("Model", "Task"), rows)
    return html(Table("closeness", "Scores", _CLOSENESS_CAPTION, grid, []), scrolls="Scores, scrolls")


def _scores(table: Path) -> list[Row]:
    """List BLEU of our systems, task by task, from Table 2, or F1 of our parsers from Table 4."""
    frame = read_printed(table.with_suffix(".csv"))
    rows = frame[frame["by"] == "ours"].to_dict("records")
    if table.stem == "table4":
        return [
            {"Model": f"Parser ({row['training']})", "Task": "parsing, F1"} | _score_pair(row, "f1", "") for row in rows
        ]
    tasks = [column.removesuffix("_difference") for column in frame if column.endswith("_difference")]
    return [
        {"Model": row["model"], "Task": f"{task.upper()}, BLEU"} | _score_pair(row, f"{task}_bleu", f"{task}_")
        for row in rows
        for task in tasks
        if row[f"{task}_bleu"]
    ]


def _score_pair(row: dict[str, str], score: str, prefix: str) -> Row:
    """Format the paper's number and ours; `score` is a column, and the others' names begin with `prefix`."""

    def number(column: str) -> float:
        return float(row[column] or "nan")

    ours = {
        "Ours": mean_text(number(score), number(f"{score}_sd"), 1),
        "95 %": interval_text(number(f"{prefix}low"), number(f"{prefix}high"), 1),
        "− paper": difference_text(number(f"{prefix}difference"), 1),
    }
    runs = tuple(row[f"{prefix}runs"].split())
    cells = {heading: Cell(text, runs if text else ()) for heading, text in ours.items()}
    return {"Paper": mean_text(number(f"{prefix}paper"), float("nan"), 1)} | cells


def usage(runs: dict[str, Trained]) -> list[dict[str, Any]]:
    """Sum the hours of training by unit; a run that was continued on another machine counts in full there."""
    trained = defaultdict(list)
    for run in runs.values():
        unit, count, processor = _units(run["starts"][-1])
        trained[unit].append((run["seconds"] / 3600 * count, processor))
    return [
        {
            "unit": unit,
            "hours": sum(hours for hours, _ in each),
            "runs": len(each),
            "hardware": sorted({processor for _, processor in each}),
        }
        for unit, each in sorted(trained.items())
    ]


def _units(start: Start) -> tuple[str, int, str]:
    """Count the cores or GPUs of a start: the unit, how many of it, the processor's name."""
    if cores := _CORES.fullmatch(start["hardware"]):
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
            "Unit-hours": f"{run['seconds'] / 3600 * _units(run['starts'][-1])[1]:.2f}",
            "Machine": f"{run['starts'][-1]['processes']} × {run['starts'][-1]['hardware']}",
        }
        for name, run in runs.items()
    ]
    table = Table("details", "Trainings", _DETAILS_CAPTION, Grid(("Run", "Machine"), rows), [_DETAILS_NOTES])
    return html(table, scrolls="Trainings, scrolls") if rows else Markup()
