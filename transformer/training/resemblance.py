"""The curve of a training that is off its trajectory, beside those of Table 5's rows, whose faults are known.

The distance of two curves is the mean absolute difference of ln(dev perplexity), at the steps of the comparison that
both logged. Where a curve has no dev score there, the smoothed loss takes its place for all curves. Both are in nats.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

from transformer.config.experiment import Model, Training, paper_values
from transformer.config.reading import read_yaml
from transformer.training.trajectory import MEASURES, Comparison, at, flat, read_log

# What Table 5 changes, with the paper's values, which an experiment.yaml may leave out.
CLAIMS = {
    f"{name}.{key}": values[0]
    for name, section in (("model", Model), ("training", Training))
    for key, values in paper_values(section).items()
}


class Curve(NamedTuple):
    """A training beside the one in question: a row per step that both logged, a column per measure."""

    name: str
    changes: str  # its settings that differ from the reference's, such as "residual false"
    run: pd.DataFrame  # the training in question
    own: pd.DataFrame

    def distance(self, measure: str) -> float:
        """Return how far the two are apart, in nats; nan where they have no such measure in common."""
        nats = np.log if measure == "dev_perplexity" else np.asarray
        return float(np.abs(nats(self.run[measure]) - nats(self.own[measure])).mean())


def claims_beside(reference: Path) -> list[Path]:
    """Return the finished runs RUNS/{experiment}/{seed} beside a reference that differ from it in what Table 5 changes.

    reference: a run's folder or its metrics.jsonl; nothing is beside one without an experiment.yaml.
    """
    folder = folder_of(reference)
    if not (folder / "experiment.yaml").exists():
        return []
    runs = [log.parent for log in sorted(folder.parents[1].glob("*/*/metrics.jsonl"))]
    usual = claims_of(folder)
    return [run for run in runs if (run / "experiment.yaml").exists() and claims_of(run) != usual]


def folder_of(log: Path) -> Path:
    """Return the folder of a run that is given as this folder or as its metrics.jsonl."""
    return (log if log.is_dir() else log.parent).resolve()


def claims_of(run: Path) -> dict[str, Any]:
    """Return a run's values of what Table 5 changes."""
    file = run / "experiment.yaml"
    return {key: (CLAIMS | flat(read_yaml(file), file))[key] for key in CLAIMS}


def page(c: Comparison, reference: Path, runs: list[Path]) -> str:
    """Return a table of the runs' curves, nearest first, and which is nearest; without runs, how to get some."""
    curves = [curve for run in runs if (curve := curve_of(c, run)) is not None]
    if not curves:
        return f"no runs of Table 5's rows to compare its curve with: `snakemake {table_of(reference)}` trains them"
    usual = Curve("reference", "", c.ours, c.reference)
    dev = not any(np.isnan(curve.distance("dev_perplexity")) for curve in (usual, *curves))
    measure = "dev_perplexity" if dev else "smoothed_loss"
    ordered = sorted((usual, *curves), key=lambda curve: curve.distance(measure))
    nearest = next(curve for curve in ordered if curve is not usual)
    lines = [
        table(c, ordered, measure),
        "",
        "dev perplexity, smoothed loss in brackets; distance: mean absolute difference of "
        + ("ln(dev perplexity)" if dev else "the smoothed loss"),
        f"nearest to the curve of {nearest.name}" + (f": {nearest.changes}" if nearest.changes else ""),
        "resemblance is no proof: other faults may give the same curve",
    ]
    if ordered[0] is usual:
        lines[-1:] = ["the reference's own curve is nearer than any of these", lines[-1]]
    return "\n".join(lines)


def curve_of(c: Comparison, path: Path) -> Curve | None:
    """Return a run beside the one in question; None where it is that run, or where they logged no step in common."""
    (run, reference), log = c.logs, read_log(path)
    steps = c.ours.index.intersection(log.lines["smoothed_loss"].dropna().index).tolist()
    if log.path.samefile(run.path) or not steps:
        return None
    name = "/".join(folder_of(path).parts[-2:])
    return Curve(name, changes(log.settings, reference.settings), at(steps, run.lines), at(steps, log.lines))


def changes(settings: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return the settings that differ from the reference's; what Table 5 does not change counts where both have it."""
    ours, theirs = CLAIMS | settings, CLAIMS | reference
    different = [key for key in ours if key in theirs and key != "experiment" and ours[key] != theirs[key]]
    return ", ".join(f"{key.rpartition('.')[2]} {str(ours[key]).lower()}" for key in different)


def table(c: Comparison, curves: list[Curve], measure: str) -> str:
    """Return the run in question and the other curves, a line each."""
    rows = [["this run", "", "", *cells(c.ours, c.ours.index)]]
    for curve in curves:
        distance = format(curve.distance(measure), ".2f")
        rows.append([curve.name, curve.changes, distance, *cells(curve.own, c.ours.index)])
    headings = ["curve", "what differs", "distance", *(f"step {step}" for step in c.ours.index)]
    sides = ["left", "left", *["right"] * (len(headings) - 2)]
    return tabulate(rows, headings, tablefmt="simple", disable_numparse=True, colalign=sides)


def cells(curve: pd.DataFrame, steps: pd.Index) -> list[str]:
    """Return `3.21 (2.460)` for each step, with - for what was not logged."""
    names = "dev_perplexity", "smoothed_loss"
    return [
        "{} ({})".format(
            *("-" if np.isnan(line[name]) else format(line[name], MEASURES[name].format) for name in names)
        )
        for _, line in curve.reindex(steps).iterrows()
    ]


def table_of(reference: Path) -> str:
    """Return the file that Snakemake makes from the runs of Table 5, at the reference's scale."""
    file = folder_of(reference) / "experiment.yaml"
    scale = read_yaml(file).get("scale", "{scale}") if file.exists() else "{scale}"
    return f"results/{scale}/tables/table5.md"
