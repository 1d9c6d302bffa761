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
from transformer.storage.provenance import short
from transformer.storage.records import Start

_WITHIN = "‡"  # marks a paper's score within our interval; not a test
_CORES = re.compile(r"(.+), (\d+) of \d+ cores")  # the format of transformer/storage/provenance.py
BLEU_METRICS = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}  # metrics of evaluation/bleu.py with their headings
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
CONSTANTS = {"resamples": significance.RESAMPLES, "seed": significance.SEED, "within": _WITHIN}
CONSTANTS |= {"level": significance.LEVEL, "margin": significance.MARGIN, "translates": significance.TRANSLATES}
CONSTANTS |= {"not_testable": significance.NOT_TESTABLE, "outlier": significance.OUTLIER}


def read_printed(path: str | Path) -> pd.DataFrame:
    """Read a CSV file with unchanged text in each cell and "" in blank cells."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _steady(number: float) -> float:
    """Round to nine decimals, because further digits depend on the processor and could change the printed ones."""
    return round(float(number), 9)


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """Format `27.3 ± 0.2`. A text from the paper is unchanged. A missing number gives ""."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    text = f"{_steady(mean):.{decimals}f}"
    return text if pd.isna(deviation) else f"{text} ± {_steady(deviation):.{decimals}f}"


def difference_text(difference: float, decimals: int) -> str:
    """Format `+0.4` or `−1.2`. A missing number gives "". −0.04 with one decimal is `−0.0`, because it is negative."""
    return "" if pd.isna(difference) else f"{_steady(difference):+.{decimals}f}".replace("-", "−")


def p_text(p: float, holm: float = nan) -> str:
    """Format `0.034`, `< 0.001`, or `0.034 (0.210)` with Holm's p. A missing number gives ""."""
    text = "" if pd.isna(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return text if pd.isna(holm) else f"{text} ({p_text(holm)})"


def flops_text(flops: str | float) -> str:
    """Format `3.3·10^18`. A missing number gives ""."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


def averaged_text(steps: list[int]) -> str:
    """Format `5 checkpoints from step 520`, or for a single checkpoint `only step 600`."""
    return f"only step {steps[0]:,}" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"


def units(start: Start) -> tuple[str, int, str]:
    """Return the unit (core or GPU) of a start, the number of units, and the processor's name."""
    if cores := _CORES.fullmatch(start["hardware"]):
        return "core", start["processes"] * int(cores[2]), cores[1]
    return "GPU", start["processes"], start["hardware"]


def ours(text: str, runs: str | None) -> Cell:
    """Make a cell with its `runs`: names separated by spaces, or missing for the paper's numbers."""
    return Cell(text, tuple(runs.split()) if text and isinstance(runs, str) else ())


def mean_draws(runs: pd.DataFrame) -> np.ndarray:
    """Average the runs' scores on each resampled test set."""
    return np.mean(list(runs["draws"]), axis=0)


def over_seeds(runs: pd.DataFrame, key: str, means: dict[str, str], firsts: list[str]) -> pd.DataFrame:
    """Average runs by `key`: means of columns under new names, with their standard deviations (`bleu_sd`).

    Further columns: `firsts` from the first run; seeds; runs; `low` and `high`, the 95 % interval of the mean.
    """
    ends = (("", "mean"), ("_sd", "std"))
    averaged = {name + end: (column, how) for name, column in means.items() for end, how in ends}
    kept = {name: (name, "first") for name in firsts} | {"seeds": ("seed", "count"), "runs": ("name", " ".join)}
    rows = runs.groupby(key, sort=False).agg(**averaged, **kept)
    intervals = {name: limits(mean_draws(same)) for name, same in runs.groupby(key)}
    return rows.join(pd.DataFrame.from_dict(intervals, orient="index", columns=["low", "high"]))


def mean_cell(scores: pd.DataFrame, name: str, decimals: int) -> Cell:
    return ours(mean_text(scores[name].mean(), scores[name].std(), decimals), " ".join(scores["name"]))


# Cells of a frame's row. The frame has the columns `bleu`, `bleu_sd`, `low`, `high` and `runs`, or these with a prefix.


def mean(name: str, decimals: int, prefix: str = "") -> Callable[[dict], Cell]:
    name, runs = prefix + name, f"{prefix}runs"
    return lambda row: ours(mean_text(row.get(name), row.get(f"{name}_sd"), decimals), row.get(runs))


def interval_95(prefix: str = "") -> Callable[[dict], Cell]:
    def cell(row: dict) -> Cell:
        low, high, runs = (row.get(prefix + name) for name in ("low", "high", "runs"))
        return Cell("") if pd.isna(low) else ours(f"{low:.1f} – {high:.1f}", runs)

    return cell


def from_paper(difference: str, printed: str, prefix: str = "") -> Callable[[dict], Cell]:
    """Format our score minus the paper's, with a mark if the paper's is in our interval. Blank if one is missing."""

    def cell(row: dict) -> Cell:
        value, papers, low, high = (row.get(prefix + name) for name in (difference, printed, "low", "high"))
        if pd.isna(value):
            return Cell("")
        mark = f" {_WITHIN}" if low <= float(papers) <= high else ""
        return ours(difference_text(value, 1) + mark, row[f"{prefix}runs"])

    return cell


def score_row(model: str, row: dict, score: str, prefix: str = "") -> Row:
    """Make a line of the page's summary with our score and the paper's."""
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

    own, other: a row per run with name, bleu (or another score under this name) and its bootstrap samples (draws).
    pool: runs for the estimate of seed variance; the default is both systems. Two uses of the same runs, such as two
    searches, are compared run by run, and other runs are omitted.
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
    """Return a column with the verdict `key` of one set, bold if the row is `firm`. `runs`: column of its runs."""
    shown = {True: "**{}**", False: "{}"}
    return Column(f"Verdict, {measured}", lambda row: ours(shown[row["firm"]].format(row[key]), row[runs]), text=True)


def p_column(measured: str, runs: str, prefix: str = "") -> Column:
    def cell(row: dict) -> Cell:
        return ours(p_text(row[f"{prefix}p"], row[f"{prefix}p_holm"]), row[runs])

    return Column(f"p, {measured} (Holm)", cell, detail=True)


# Notes under tables of scores.


def note(table: str, name: str, **values) -> str:
    return WORDS[table][name].format(**CONSTANTS, **values)


def captioned(
    name: str, grid: Grid, notes: list[Note], found: Iterable[str] = (), scores: Iterable[Row] = (), **values
) -> Table:
    """Make a table with its caption, filled with `values`. The table gets its title when it is written."""
    return Table(name, "", note(name, "caption", **values), grid, notes, list(found), list(scores))


def fixed(*names: str) -> list[Note]:
    """Return a text of words.toml by table and name, such as `scores.chance`."""
    return [note(*name.split(".")) for name in names]


def missing(expected: Iterable[str], present: Iterable[str]) -> list[str]:
    names = set(present)
    return [name for name in expected if name not in names]


def gaps(expected: Iterable[str], runs: pd.DataFrame) -> list[Note]:
    """List the missing runs in a paragraph, or return nothing."""
    names = ", ".join(missing(expected, runs["name"]))
    return [note("scores", "gaps", names=names)] if names else []


def ladder(runs: pd.DataFrame) -> Grid:
    """Make a grid with a row per task and metric: its mean over seeds for each experiment, and its signature."""
    rows = []
    for task, of_task in runs.groupby("task", sort=False):
        metrics = {name: score for variants in of_task["variants"][::-1] for name, score in variants.items()}
        for name, first in metrics.items():
            # Long translations have no TER.
            found = [float(variants.get(name, {}).get("score", nan)) for variants in of_task["variants"]]
            scores = of_task.assign(score=found)
            row = {"Task": task.upper(), "Variant": name + (" *" if name == of_task["paper"].iloc[0] else "")}
            for experiment in runs["experiment"].unique():
                row[experiment] = mean_cell(scores[scores["experiment"] == experiment], "score", 2)
            rows.append(row | {"Signature": f"`{first['signature']}`"})
    return Grid(("Task", "Variant", "Signature"), rows)


def provenance(
    runs: pd.DataFrame, metrics: dict[str, str] = BLEU_METRICS, words: str = "Where ours come from:"
) -> list[Note]:
    """Make a grid with a row per run: metrics under their headings, and details of its training."""
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
        Column("Commit", lambda run: short(run["commit"]), text=True),
        Column("Digest", "digest", format="{:.12}", text=True),
        Column("Data", "data_sha256", format="{:.12}", text=True),
    ]
    if not len(runs):
        return []
    changed = runs.dropna(subset="other_code").itertuples() if "other_code" in runs else ()
    named = [f"{run.name} (trained at {short(run.commit)}, scored at {short(run.other_code)})" for run in changed]
    warning = [note("scores", "other_code", names=", ".join(named))] if named else []
    return [*warning, words, lay_out(runs, columns)]
