"""Notes under tables of scores: how ours were computed, by which runs, and which runs are missing."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from transformer.evaluation.significance import RESAMPLES, SEED
from transformer.report.tables.cells import WITHIN, averaged_text, flops_text, mean_cell, mean_text
from transformer.report.tables.differences import LEVEL, MARGIN, NO_VERDICT, TRANSLATES
from transformer.report.tables.render import Column, Grid, Note, lay_out

BLEU_METRICS = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}  # columns of evaluation/scorefiles.py, with their headings
MARK, UNTESTED = "†", "?"  # of differences from base
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
CONSTANTS = {"resamples": RESAMPLES, "seed": SEED, "within": WITHIN, "level": LEVEL, "margin": MARGIN}
CONSTANTS |= {"translates": TRANSLATES, "no_verdict": NO_VERDICT, "mark": MARK, "untested": UNTESTED}


def note(table: str, name: str, **values) -> str:
    """Fill in a text of words.toml."""
    return WORDS[table][name].format(**CONSTANTS, **values)


def tests_note(differences: pd.Series, p: pd.Series) -> str:
    """Count the tested differences, and say what that does to p, which is NaN without a test."""
    counts = {"tests": p.notna().sum(), "differences": differences.notna().sum()}
    return note("scores", "tests", every=1 / LEVEL, **counts)


def interval_notes(compared: bool) -> list[Note]:
    """Explain the interval, and where ours are compared with the paper's, that difference."""
    return [note("scores", name) for name in ("interval", "difference")[: 1 + compared]]


def missing(expected: Iterable[str], present: Iterable[str]) -> list[str]:
    """Find the expected names that are not present."""
    names = set(present)
    return [name for name in expected if name not in names]


def gaps(expected: Iterable[str], runs: pd.DataFrame) -> list[Note]:
    """Name the missing runs in a paragraph; none where all are there."""
    names = ", ".join(missing(expected, runs["name"]))
    return [note("scores", "gaps", names=names)] if names else []


def ladder(runs: pd.DataFrame) -> Grid:
    """Lay out a row per task and variant of the score: its mean over seeds for each experiment, and its signature."""
    rows = []
    for task, of_task in runs.groupby("task", sort=False):
        for name, first in of_task["variants"].iloc[0].items():
            scores = of_task.assign(score=[float(variants[name]["score"]) for variants in of_task["variants"]])
            row = {"Task": task.upper(), "Variant": name + (" *" if name == of_task["paper"].iloc[0] else "")}
            for experiment in runs["experiment"].unique():
                row[experiment] = mean_cell(scores[scores["experiment"] == experiment], "score", 2)
            rows.append(row | {"Signature": f"`{first['signature']}`"})
    return Grid(("Task", "Variant", "Signature"), rows)


def provenance(
    runs: pd.DataFrame, metrics: dict[str, str] = BLEU_METRICS, words: str = "Where ours come from:"
) -> list[Note]:
    """Lay out a row per run: these metrics under their headings, and how and where it was trained."""
    shortened = {"Commit": "commit", "Digest": "digest", "Data": "data_sha256"}
    columns = [
        Column("Run", "name", text=True),
        *(Column(heading, lambda run, key=key: mean_text(run[key], None, 2)) for key, heading in metrics.items()),
        Column("FLOPs", lambda run: flops_text(run["flops"])),
        Column("Steps", lambda run: f"{run['steps']:,}"),
        Column("Averaged", lambda run: averaged_text(run["averaged_steps"]), text=True),
        Column("Decoding", decoding_text, text=True),
        Column("Seconds", lambda run: f"{run['seconds']:,.0f}"),
        Column("Hardware", "hardware", text=True),
        Column("Fidelity", "fidelity", text=True),
        *(Column(heading, lambda run, key=key: run[key][:12], text=True) for heading, key in shortened.items()),
    ]
    return [words, lay_out(runs, columns)] if len(runs) else []


def decoding_text(run: dict) -> str:
    return ", ".join(f"{key} {run['decoding'][key]}" for key in ("beam", "alpha", "extra_length"))
