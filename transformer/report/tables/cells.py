"""Common parts of tables of scores: texts of cells, tested differences with their verdicts, and notes for readers."""

import re
import tomllib
from collections.abc import Callable, Iterable
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from transformer.config.experiment import RECIPE_OF
from transformer.evaluation import significance
from transformer.evaluation.significance import Difference, System, compare_systems, compare_uses, limits
from transformer.report.tables.render import Cell, Column, Grid, Note, Row, Table, lay_out
from transformer.storage.records import Start

_WITHIN = "‡"  # marks a difference from the paper that is within our interval: no test
_CORES = re.compile(r"(.+), (\d+) of \d+ cores")  # how transformer/storage/provenance.py names a processor
BLEU_METRICS = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}  # any of evaluation/bleu.py, with their headings
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
CONSTANTS = {"resamples": significance.RESAMPLES, "seed": significance.SEED, "within": _WITHIN}
CONSTANTS |= {"level": significance.LEVEL, "margin": significance.MARGIN, "translates": significance.TRANSLATES}
CONSTANTS |= {"not_testable": significance.NOT_TESTABLE, "outlier": significance.OUTLIER}


def read_printed(path: str | Path) -> pd.DataFrame:
    """Read a CSV file with each cell as text, as it stands there, blank ones as ""."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _steady(number: float) -> float:
    """Round to nine decimals, so that the last digits, which depend on the processor, do not decide the first."""
    return round(float(number), 9)


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """Write `27.3 ± 0.2`, a text of the paper's as it is, or nothing for a missing number."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    text = f"{_steady(mean):.{decimals}f}"
    return text if pd.isna(deviation) else f"{text} ± {_steady(deviation):.{decimals}f}"


def difference_text(difference: float, decimals: int) -> str:
    """Write `+0.4` or `−1.2`, or nothing for a missing number; −0.04 with one decimal is `−0.0`, as it is below 0."""
    return "" if pd.isna(difference) else f"{_steady(difference):+.{decimals}f}".replace("-", "−")


def p_text(p: float, holm: float = nan) -> str:
    """Write `0.034`, `< 0.001`, `0.034 (0.210)` with Holm's p, or nothing for a missing number."""
    text = "" if pd.isna(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return text if pd.isna(holm) else f"{text} ({p_text(holm)})"


def flops_text(flops: str | float) -> str:
    """Write `3.3·10^18`, or nothing for a missing number."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


def averaged_text(steps: list[int]) -> str:
    """Write `5 checkpoints from step 520`, or for a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"


def units(start: Start) -> tuple[str, int, str]:
    """Count the cores or GPUs of a start: the unit, how many of it, the processor's name."""
    if cores := _CORES.fullmatch(start["hardware"]):
        return "core", start["processes"] * int(cores[2]), cores[1]
    return "GPU", start["processes"], start["hardware"]


def ours(text: str, runs: str | None) -> Cell:
    """Make a cell that comes from `runs`: names, with spaces between them; missing for what the paper printed."""
    return Cell(text, tuple(runs.split()) if text and isinstance(runs, str) else ())


def mean_draws(runs: pd.DataFrame) -> np.ndarray:
    """Average the runs' scores on each resampled test set."""
    return np.mean(list(runs["draws"]), axis=0)


def over_seeds(runs: pd.DataFrame, key: str, means: dict[str, str], firsts: list[str]) -> pd.DataFrame:
    """Average runs by `key`: the means of columns by new names, with their standard deviations (`bleu_sd`).

    Further columns: `firsts` of the first run; seeds; runs; from `low` to `high`, 95 % of means on resampled sentences.
    """
    ends = (("", "mean"), ("_sd", "std"))
    averaged = {name + end: (column, how) for name, column in means.items() for end, how in ends}
    kept = {name: (name, "first") for name in firsts} | {"seeds": ("seed", "count"), "runs": ("name", " ".join)}
    rows = runs.groupby(key, sort=False).agg(**averaged, **kept)
    intervals = {name: limits(mean_draws(same)) for name, same in runs.groupby(key)}
    return rows.join(pd.DataFrame.from_dict(intervals, orient="index", columns=["low", "high"]))


def mean_cell(scores: pd.DataFrame, name: str, decimals: int) -> Cell:
    return ours(mean_text(scores[name].mean(), scores[name].std(), decimals), " ".join(scores["name"]))


# Cells of a frame's row: the frame has `bleu`, `bleu_sd`, `low`, `high` and `runs`, or these after a prefix.


def mean(name: str, decimals: int, prefix: str = "") -> Callable[[dict], Cell]:
    name, runs = prefix + name, f"{prefix}runs"
    return lambda row: ours(mean_text(row.get(name), row.get(f"{name}_sd"), decimals), row.get(runs))


def interval_95(prefix: str = "") -> Callable[[dict], Cell]:
    def cell(row: dict) -> Cell:
        low, high, runs = (row.get(prefix + name) for name in ("low", "high", "runs"))
        return Cell("") if pd.isna(low) else ours(f"{low:.1f} – {high:.1f}", runs)

    return cell


def from_paper(difference: str, printed: str, prefix: str = "") -> Callable[[dict], Cell]:
    """Show ours less the paper's, with a mark where the latter lies within our interval; blank without either."""

    def cell(row: dict) -> Cell:
        value, papers, low, high = (row.get(prefix + name) for name in (difference, printed, "low", "high"))
        if pd.isna(value):
            return Cell("")
        mark = f" {_WITHIN}" if low <= float(papers) <= high else ""
        return ours(difference_text(value, 1) + mark, row[f"{prefix}runs"])

    return cell


def score_row(model: str, row: dict, score: str, prefix: str = "") -> Row:
    """Make a line of the page's summary: our score beside the paper's."""
    return {
        "Model": model,
        "Ours": mean(score, 1, prefix)(row),
        "95 %": interval_95(prefix)(row),
        "Paper": mean_text(row[f"{prefix}paper"], nan, 1),
        "− paper": ours(difference_text(row[f"{prefix}difference"], 1), row[f"{prefix}runs"]),
    }


# Differences between two systems on the same sentences.


def paired(own: pd.DataFrame, other: pd.DataFrame, pool: pd.DataFrame | None = None) -> Difference:
    """Compare two systems by paired bootstrap resampling and by seed variance.

    own, other: a row per run, with name, bleu (or another score in its place) and its draws. pool: runs that estimate
    the seed variance; by default those of both systems. Two ways to use the same runs (two searches, say) are compared
    run by run, and other runs are left out.
    """
    same = sorted(set(own["name"]) & set(other["name"]))
    if same:
        own, other = (system.set_index("name", drop=False).loc[same] for system in (own, other))
        low, high, p = compare_uses(_seeds(own), _seeds(other))
    else:
        groups = [] if pool is None else pool.groupby(pool["name"].str.rpartition("/")[0])
        low, high, p = compare_systems(_seeds(own), _seeds(other), [_seeds(system) for _, system in groups])
    score, against, deviation = own["bleu"].mean(), other["bleu"].mean(), own["bleu"].std()
    runs = " ".join(dict.fromkeys([*own["name"], *other["name"]]))
    return Difference(score, against, score - against, low, high, p, deviation, len(own), len(other), runs)


def _seeds(system: pd.DataFrame) -> System:
    return system["bleu"].to_numpy(float), np.array(list(system["draws"]))


def firm(frame: pd.DataFrame) -> pd.Series:
    """Mark bold verdicts: replicated or reversed on both sets, Holm's p below the level on both, and two seeds."""
    same = frame["verdict"].isin(significance.SIGNS) & (frame["verdict"] == frame["test_verdict"])
    holm = frame[["p_holm", "test_p_holm"]].astype(float).max(axis=1, skipna=False)
    return same & (holm < significance.LEVEL) & (frame["seeds"].fillna(0) >= 2)


def verdict_column(measured: str, key: str, runs: str) -> Column:
    """Show the verdict `key` of one of two sets, bold where the row is `firm`; `runs`: where it is from."""
    shown = {True: "**{}**", False: "{}"}
    return Column(f"Verdict, {measured}", lambda row: ours(shown[row["firm"]].format(row[key]), row[runs]), text=True)


def p_column(measured: str, runs: str, prefix: str = "") -> Column:
    def cell(row: dict) -> Cell:
        return ours(p_text(row[f"{prefix}p"], row[f"{prefix}p_holm"]), row[runs])

    return Column(f"p, {measured} (Holm)", cell, detail=True)


# Notes under tables of scores.


def note(table: str, name: str, **values) -> str:
    return WORDS[table][name].format(**CONSTANTS, **values)


def captioned(name: str, grid: Grid, notes: list[Note], found: str = "", scores: Iterable[Row] = (), **values) -> Table:
    """Put a table together with its caption, into which `values` are filled; it gets its title when it is written."""
    return Table(name, "", note(name, "caption", **values), grid, notes, found, list(scores))


def fixed(*names: str) -> list[Note]:
    """Give texts of words.toml by table and name: `scores.chance`."""
    return [note(*name.split(".")) for name in names]


def missing(expected: Iterable[str], present: Iterable[str]) -> list[str]:
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
    decoding = "beam {0[beam]}, alpha {0[alpha]}, extra_length {0[extra_length]}"
    columns = [
        Column("Run", "name", text=True),
        *(Column(heading, metric, format="{:.2f}") for metric, heading in metrics.items()),
        Column("FLOPs", lambda run: flops_text(run["flops"])),
        Column("Steps", "steps", format="{:,}"),
        Column("Averaged", lambda run: averaged_text(run["averaged_steps"]), text=True),
        Column("Decoding", "decoding", format=decoding, text=True),
        Column("Seconds", "seconds", format="{:,.0f}"),
        Column("Hardware", "hardware", text=True),
        Column("Recipe", lambda run: RECIPE_OF[run["fidelity"]], text=True),
        Column("Commit", "commit", format="{:.12}", text=True),
        Column("Digest", "digest", format="{:.12}", text=True),
        Column("Data", "data_sha256", format="{:.12}", text=True),
    ]
    if not len(runs):
        return []
    changed = runs.dropna(subset="other_code").itertuples() if "other_code" in runs else ()
    named = [f"{run.name} (trained at {run.commit:.12}, scored at {run.other_code:.20})" for run in changed]
    warning = [note("scores", "other_code", names=", ".join(named))] if named else []
    return [*warning, words, lay_out(runs, columns)]
