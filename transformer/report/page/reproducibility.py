"""REPRODUCIBILITY.md: what reviewers and readers ask of a scale's runs, answered from the runs' files."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from transformer.report.page.accounts import UNRECORDED, Account
from transformer.report.page.energy import Power, number_text
from transformer.report.page.page import TEMPLATES
from transformer.report.tables.cells import Row, flops_text, mean_text
from transformer.report.tables.render import Grid, markdown_grid
from transformer.templates import text_environment

NOT_RUN = "not run"
UNSCORED = "in no table"


def runs_grid(accounts: dict[str, Account], expected: Iterable[str], power: Power) -> Grid:
    """Return a row for each expected run, and for any other: its size, its hours and its estimated energy."""
    rows = []
    for name in dict.fromkeys([*expected, *accounts]):
        if name not in accounts:
            blank = dict.fromkeys(("Parameters", "Steps", "Hours", "Unit-hours", "Unit", "FLOPs", "kWh, estimated"), "")
            rows.append({"Run": name} | blank | {"Remarks": NOT_RUN})
            continue
        run = accounts[name]
        rows.append(
            {
                "Run": name,
                "Parameters": f"{run.record['parameters']:,}",
                "Steps": f"{run.record['steps']:,}",
                "Hours": number_text(run.record["seconds"] / 3600),
                "Unit-hours": number_text(run.work.hours),
                "Unit": run.work.unit,
                "FLOPs": flops_text(run.record["flops"]),
                "kWh, estimated": number_text(power.kwh(run.work)),
                "Remarks": "; ".join(remarks(run)),
            }
        )
    return Grid(("Run", "Unit", "Remarks"), rows)


def remarks(run: Account) -> list[str]:
    """Return what a reader of a run's hours has to know."""
    told = []
    if taken := run.record.get("taken"):
        told.append(f"made elsewhere: taken from {taken['from']}, run.json's SHA-256 {taken['sha256']}")
    if len(run.starts) > 1:
        told.append(f"{len(run.starts)} starts")
    if len({(start["hardware"], start.get("processes")) for start in run.starts}) > 1:
        told.append("on several machines, and counted in full on the last")
    if "processes" not in run.starts[-1]:
        told.append(f"number of processes {UNRECORDED}, counted as one")
    return told


def scores_grid(accounts: dict[str, Account], expected: Iterable[str]) -> Grid:
    """Return a row for each task and experiment: dev beside test scores, means over seeds ± standard deviation."""
    runs = list(accounts.values())
    files = sorted({file for run in runs for file in run.scores})  # dev before test
    rows: list[Row] = []
    for group in dict.fromkeys(name.rpartition("/")[0] for name in [*expected, *accounts]):
        own = [run for run in runs if run.group == group]
        planned = sum(name.rpartition("/")[0] == group for name in {*expected, *accounts})
        row = {"Runs of": group, "Made": f"{len(own)} of {planned}"}
        row["Seeds"] = ", ".join(str(run.record["seed"]) for run in own)
        row["Dev perplexity"] = mean(own, lambda run: run.record["dev_perplexity"])
        row["Lowest dev perplexity"] = mean(own, lowest)
        row["Early dev BLEU"] = mean(own, lambda run: run.record.get("dev_bleu"))
        row |= {file: mean(own, lambda run, file=file: value(run, file), UNSCORED) for file in files}
        measures = dict.fromkeys(score.measure for run in own for score in run.scores.values())
        rows.append(row | {"Measure": ", ".join(measures)})
    return Grid(("Runs of", "Seeds", "Measure"), rows)


def mean(runs: list[Account], number: Callable[[Account], float | None], without: str = UNRECORDED) -> str:
    """Return the mean over runs with its deviation, and over how many of them where some have no such number."""
    numbers = pd.Series([found for run in runs if (found := number(run)) is not None], dtype=float)
    if numbers.empty:
        return without if runs else NOT_RUN
    text = mean_text(numbers.mean(), numbers.std(), 2)
    return text if len(numbers) == len(runs) else f"{text} ({len(numbers)} of {len(runs)} runs)"


def lowest(run: Account) -> float | None:
    """Return the lowest perplexity on the dev set at any time of the training."""
    return min((line["dev_perplexity"] for line in run.metrics if "dev_perplexity" in line), default=None)


def value(run: Account, file: str) -> float | None:
    """Return the number of a score file."""
    return run.scores[file].value if file in run.scores else None


def commands_grid(targets: Iterable[str], document: str, options: list[str], module: bool) -> Grid:
    """Return the command that makes each table and figure that this scale has, and the one that makes all.

    In a `module` of another workflow, where all may be something else, the one that makes this document.
    """
    files = {Path(target).stem: target for target in targets}
    files |= {"this file": document} if module else {"all, and this file": ""}
    commands = {
        name: shlex.join(["snakemake", "--cores", "all", *filter(None, [file]), *options])
        for name, file in files.items()
    }
    return Grid(("What", "Command"), [{"What": name, "Command": f"`{commands[name]}`"} for name in commands])


def options_of_commands(scale: str, configfiles: list[str], module: bool) -> list[str]:
    """Return how the configuration is named to Snakemake, and to verbs; a `module` gets its scale by its own."""
    named = ["--configfile", *configfiles] if configfiles else []
    return named if module else [*named, "--config", f"scale={scale}"]


def signatures(accounts: Iterable[Account]) -> list[str]:
    """Return the signatures of the scores, each once."""
    return list(dict.fromkeys(score.signature for run in accounts for score in run.scores.values()))


def render(**content: Any) -> str:
    """Return the document; grids among the content become tables of Markdown."""
    jinja = text_environment(TEMPLATES)
    jinja.filters |= {"grid": markdown_grid, "number": number_text}
    return jinja.get_template("reproducibility.md").render(**content)
