"""What the tables' cells say, and what tables of scores have in common."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from transformer.scoring.scorefiles import MEASURES
from transformer.scoring.significance import RESAMPLES, limits


@dataclass(frozen=True)
class Cell:
    """A number of ours as readers see it, and the runs that it comes from, each as `task/experiment/seed`."""

    text: str
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


Row = dict[str, str | Cell]


Note = str | list[str] | list[Row]  # a paragraph, a list, or a further table


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """`27.3 ± 0.2`; the paper's as printed; blank where there is none."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    return f"{mean:.{decimals}f}" if pd.isna(deviation) else f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def difference_text(difference: float, decimals: int) -> str:
    """`+0.4`, `−1.2`; blank where there is none."""
    if pd.isna(difference):
        return ""
    rounded = round(difference, decimals) + 0.0  # of −0.0 it makes 0.0
    return f"{rounded:+.{decimals}f}".replace("-", "−")


def interval_text(low: float, high: float, decimals: int) -> str:
    """`26.9 – 27.6`; blank where there is none."""
    return "" if pd.isna(low) else f"{low:.{decimals}f} – {high:.{decimals}f}"


def flops_text(flops: str | float) -> str:
    """`3.3·10^18`; blank where there is none."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


WITHIN = "‡"


DIFFERENCE_NOTE = (
    f"95 %: where the score lies on {RESAMPLES:,} test sets drawn from the sentences with replacement. It knows "
    f"nothing of the chance in training. Difference: ours less the paper's; {WITHIN} where it is not significant, as "
    "the paper's lies in that interval. Where ours are of other data than the paper's, the difference says how far "
    "the tasks are apart, not how well the paper was reproduced."
)


def ours(text: str, runs: pd.DataFrame) -> Cell:
    """A cell of ours that comes from all of `runs`."""
    return Cell(text, tuple(runs["name"]) if text else ())


def interval(runs: pd.DataFrame) -> tuple[float, float]:
    """Where 95 % of the means over these runs, of one test set, lie on resampled sentences (significance.py)."""
    return limits(mean_draws(runs["draws"]))


def mean_draws(draws: Iterable[list[float]]) -> np.ndarray:
    """The mean over runs on each resampled test set."""
    return np.mean(list(draws), axis=0)


def interval_cell(low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Where 95 % of the mean over these runs lie."""
    return ours(interval_text(low, high, 1), runs)


def difference_cell(difference: float, printed: str | float, low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Ours less what the paper printed, marked where that lies within our interval; blank where it printed none."""
    if pd.isna(difference):
        return Cell("")
    within = low <= float(printed) <= high
    return ours(difference_text(difference, 1) + (f" {WITHIN}" if within else ""), runs)


def ladder(runs: pd.DataFrame) -> list[Row]:
    """A row per task and variant of the score: its mean over seeds for each experiment, and its signature."""
    rows = []
    for task, of_task in runs.groupby("task", sort=False):
        for name, first in of_task["variants"].iloc[0].items():
            row = {"Task": task.upper(), "Variant": name + (" *" if name == of_task["paper"].iloc[0] else "")}
            for experiment in runs["experiment"].unique():
                same = of_task[of_task["experiment"] == experiment]
                scores = pd.Series([variants[name]["score"] for variants in same["variants"]], dtype=float)
                row[experiment] = ours(mean_text(scores.mean(), scores.std(), 2), same)
            rows.append(row | {"Signature": f"`{first['signature']}`"})
    return rows


def missing(expected: list[str], found: Iterable[str]) -> list[str]:
    """The runs that were to be there and are not."""
    there = set(found)
    return [name for name in expected if name not in there]


def gaps(expected: list[str], runs: pd.DataFrame) -> list[str]:
    """A paragraph that names the missing runs; none where all are there."""
    names = ", ".join(missing(expected, runs["name"]))
    return [f"Not in this table, as these runs have not been made: {names}."] if names else []


def provenance(runs: pd.DataFrame, measures: Mapping[str, str] = MEASURES) -> list[Row]:
    """A row for each run, with these of its columns under their headings."""
    return [
        {
            "Run": run.name,
            **{heading: mean_text(getattr(run, measure), float("nan"), 2) for measure, heading in measures.items()},
            "FLOPs": flops_text(run.flops),
            "Steps": f"{run.steps:,}",
            "Averaged": averaged_text(run.averaged_steps),
            "Decoding": ", ".join(f"{key} {run.decoding[key]}" for key in ("beam", "alpha", "extra_length")),
            "Seconds": f"{run.seconds:,.0f}",
            "Hardware": run.hardware,
            "Fidelity": run.fidelity,
            "Commit": run.commit[:12],
            "Digest": run.digest[:12],
            "Data": run.data_sha256[:12],
        }
        for run in runs.itertuples(index=False)
    ]


def averaged_text(steps: list[int]) -> str:
    """`5 checkpoints from step 520`, or of a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"
