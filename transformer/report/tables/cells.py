"""Cells of tables: the paper's as it printed them, and ours, each with the runs behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from transformer.evaluation.significance import limits
from transformer.files import InputError

WITHIN = "‡"  # marks a difference from the paper that is within our interval: no test


@dataclass(frozen=True)
class Cell:
    """A number of ours as readers see it, and the runs that it comes from, each as `task/experiment/seed`."""

    text: str
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Row = dict[str, str | Cell]  # by heading
MEAN = {"": "mean", "_sd": "std"}  # over seeds
Make = Callable[[dict], Cell]  # of the row of a frame


def read_printed(path: str | Path, columns: list[str]) -> pd.DataFrame:
    """Read a CSV file with each cell as text, as it stands there, blank ones as "".

    Raises InputError on a file that is no CSV, or lacks one of `columns`.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {str(error).strip()}") from error
    for column in columns:
        if column not in table:
            raise InputError(f"{path}: expected a column {column!r}, found {', '.join(table)}")
    return table


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """Write `27.3 ± 0.2`, a text of the paper's as it is, or nothing for a missing number."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    return f"{mean:.{decimals}f}" if pd.isna(deviation) else f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def difference_text(difference: float, decimals: int) -> str:
    """Write `+0.4` or `−1.2`, or nothing for a missing number; −0.04 with one decimal is `−0.0`, as it is below 0."""
    return "" if pd.isna(difference) else f"{difference:+.{decimals}f}".replace("-", "−")


def interval_text(low: float, high: float, decimals: int) -> str:
    """Write `26.9 – 27.6`, or nothing for missing numbers."""
    return "" if pd.isna(low) else f"{low:.{decimals}f} – {high:.{decimals}f}"


def p_text(p: float) -> str:
    """Write `0.034`, `< 0.001`, or nothing for a missing number."""
    if pd.isna(p):
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count_text(count: float, unit: float = 1, decimals: int = 0) -> str:
    """Write `65.126` millions, or `100,000`; nothing for a missing number."""
    return "" if pd.isna(count) else f"{count / unit:,.{decimals}f}"


def flops_text(flops: str | float) -> str:
    """Write `3.3·10^18`, or nothing for a missing number."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


def averaged_text(steps: list[int]) -> str:
    """Write `5 checkpoints from step 520`, or for a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"


def ours(text: str, runs: str | None) -> Cell:
    """Make a cell that comes from `runs`: names, with spaces between them; missing for what the paper printed."""
    return Cell(text, tuple(runs.split()) if text and isinstance(runs, str) else ())


def mean_draws(runs: pd.DataFrame) -> np.ndarray:
    """Average the scores over runs, of one test set, on each resampled test set."""
    return np.mean(list(runs["draws"]), axis=0)


def over_seeds(runs: pd.DataFrame, key: str, means: dict[str, str], firsts: list[str]) -> pd.DataFrame:
    """Average runs by `key`.

    Columns: the means of columns of `runs`, by new names, with their standard deviations (`bleu_sd`); `firsts` of the
    first run; seeds; runs; and from `low` to `high`, 95 % of the means on resampled sentences.
    """
    averaged = {name + end: (column, how) for name, column in means.items() for end, how in MEAN.items()}
    kept = {name: (name, "first") for name in firsts} | {"seeds": ("seed", "count"), "runs": ("name", " ".join)}
    rows = runs.groupby(key, sort=False).agg(**averaged, **kept)
    intervals = {name: limits(mean_draws(same)) for name, same in runs.groupby(key)}
    return rows.join(pd.DataFrame.from_dict(intervals, orient="index", columns=["low", "high"]))


def mean_cell(scores: pd.DataFrame, name: str, decimals: int) -> Cell:
    """Average a column over runs, with its standard deviation."""
    return ours(mean_text(scores[name].mean(), scores[name].std(), decimals), " ".join(scores["name"]))


# Cells of a frame's row: the frame has `bleu`, `bleu_sd`, `low`, `high` and `runs`, or these after a prefix.


def mean(name: str, decimals: int, prefix: str = "") -> Make:
    """Show a mean over seeds with its standard deviation."""
    name, runs = prefix + name, f"{prefix}runs"
    return lambda row: ours(mean_text(row.get(name), row.get(f"{name}_sd"), decimals), row.get(runs))


def interval_95(prefix: str = "") -> Make:
    """Show the interval that holds 95 % of the means."""
    low, high, runs = (prefix + name for name in ("low", "high", "runs"))
    return lambda row: ours(interval_text(row.get(low), row.get(high), 1), row.get(runs))


def from_paper(difference: str, printed: str, prefix: str = "") -> Make:
    """Show ours less the paper's, with a mark where the latter lies within our interval; blank without either."""

    def cell(row: dict) -> Cell:
        value, papers, low, high = (row.get(prefix + name) for name in (difference, printed, "low", "high"))
        if pd.isna(value):
            return Cell("")
        mark = f" {WITHIN}" if low <= float(papers) <= high else ""
        return ours(difference_text(value, 1) + mark, row[f"{prefix}runs"])

    return cell
