"""Cells of tables: their text, and the runs that a number of ours comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from transformer.evaluation.significance import limits

WITHIN = "‡"  # marks a difference from the paper that is within our interval: no test


@dataclass(frozen=True)
class Cell:
    """A number of ours as readers see it, and the runs that it comes from, each as `task/experiment/seed`."""

    text: str
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Row = dict[str, str | Cell]  # by heading


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """Return `27.3 ± 0.2`, a text of the paper's as it is, or nothing for a missing number."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    return f"{mean:.{decimals}f}" if pd.isna(deviation) else f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def difference_text(difference: float, decimals: int) -> str:
    """Return `+0.4` or `−1.2`, or nothing for a missing number; −0.04 with one decimal is `−0.0`, as it is below 0."""
    return "" if pd.isna(difference) else f"{difference:+.{decimals}f}".replace("-", "−")


def interval_text(low: float, high: float, decimals: int) -> str:
    """Return `26.9 – 27.6`, or nothing for missing numbers."""
    return "" if pd.isna(low) else f"{low:.{decimals}f} – {high:.{decimals}f}"


def p_text(p: float) -> str:
    """Return `0.034`, `< 0.001`, or nothing for a missing number."""
    if pd.isna(p):
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def flops_text(flops: str | float) -> str:
    """Return `3.3·10^18`, or nothing for a missing number."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


def averaged_text(steps: list[int]) -> str:
    """Return `5 checkpoints from step 520`, or for a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"


def ours(text: str, runs: pd.DataFrame) -> Cell:
    """Return a cell of ours that comes from all of `runs`."""
    return Cell(text, tuple(runs["name"]) if text else ())


def interval(runs: pd.DataFrame) -> tuple[float, float]:
    """Return the limits that hold 95 % of the means over these runs, of one test set, on resampled sentences."""
    return limits(mean_draws(runs["draws"]))


def mean_draws(draws: Iterable[list[float]]) -> np.ndarray:
    """Return the mean over runs on each resampled test set."""
    return np.mean(list(draws), axis=0)


def interval_cell(low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Return the interval that holds 95 % of the means over these runs."""
    return ours(interval_text(low, high, 1), runs)


def difference_cell(difference: float, printed: str | float, low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Return ours less the paper's, with a mark where the latter lies within our interval; blank if it printed none."""
    if pd.isna(difference):
        return Cell("")
    within = low <= float(printed) <= high
    return ours(difference_text(difference, 1) + (f" {WITHIN}" if within else ""), runs)
