"""A comparison of what a training has logged with what a training that went well logged.

The tolerances are wider than right trainings that differ in the seed alone were seen to lie apart, at demo scale and on
Multi30k, in means over 50 steps. Means over fewer steps vary more. float32 instead of bfloat16, or batches cut into
pieces, changes less than another seed does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

from transformer.config.reading import read_yaml
from transformer.files import InputError
from transformer.training.metrics import read_metrics


class Measure(NamedTuple):
    """A number that is compared."""

    name: str
    column: bool  # in the table
    format: str
    tolerance: float  # of ln(ours / reference); of dev BLEU, points


MEASURES = {
    "rate": Measure("rate", True, ".3g", 0.01),
    "smoothed_loss": Measure("smoothed loss", True, ".3f", 0.12),
    "gradient_norm": Measure("gradient norm", True, ".3g", 0.33),
    "dev_perplexity": Measure("dev perplexity", True, ".3g", 0.6),
    "dev_bleu": Measure("dev BLEU", True, ".1f", 25),
    "batch_source_tokens": Measure("source tokens in a batch", False, ",.0f", 0.15),
    "batch_target_tokens": Measure("target tokens in a batch", False, ",.0f", 0.05),
}
SPAN = 50  # steps; a mean over fewer varies more, and has up to twice the tolerance
MEANS = ["smoothed_loss", "plain_loss", "gradient_norm", "batch_source_tokens", "batch_target_tokens"]

# Settings that do not bend the curves.
FREE = {"scale", "label", "seed", "training.steps", "training.checkpoint_every", "training.averaged_checkpoints"}


@dataclass(frozen=True)
class Log:
    """The log of a training, as far as it has come."""

    path: Path
    lines: pd.DataFrame  # a row per step, the keys of metrics.jsonl and plain_loss = ln(perplexity)
    settings: dict[str, Any]  # from the experiment.yaml beside it, as section.key; empty where there is none


class Comparison:
    """Two trainings, at some steps that both logged.

    ours, reference: a row per step, a column per measure, and plain_loss; means are over the steps since the last row.
    deviation: ln(ours / reference); for dev BLEU and plain_loss, the difference. wrong: where that is out of tolerance.
    """

    def __init__(self, run: Log, reference: Log):
        """Compare the two. Raises InputError where they logged no step in common."""
        self.logs = run, reference
        steps = chosen_steps(*self.logs)
        self.ours, self.reference = (at(steps, log.lines) for log in self.logs)
        with np.errstate(divide="ignore"):
            self.deviation = np.log(self.ours / self.reference)
        for name in ("dev_bleu", "plain_loss"):
            self.deviation[name] = self.ours[name] - self.reference[name]
        more = np.sqrt(SPAN / np.diff(steps, prepend=0)).clip(1, 2)
        self.wrong = pd.DataFrame(
            {name: self.deviation[name].abs() > measure.tolerance * more for name, measure in MEASURES.items()}
        )

    @property
    def off(self) -> int | None:
        """The first step at which the run is off the trajectory; None if it is nowhere."""
        wrong = self.wrong.any(axis=1)
        return int(wrong.idxmax()) if wrong.any() else None


def read_log(path: Path) -> Log:
    """Read the log of a run's folder, or a metrics.jsonl. Raises InputError naming the file and the bad line."""
    file = newest(path) if path.is_dir() else path
    lines = pd.DataFrame(read_metrics(file, growing=True), columns=["step", *MEASURES, "perplexity"]).astype(float)
    for name in ("smoothed_loss", "perplexity", "rate"):
        if lines[name].isna().all():
            raise InputError(f"{file}: expected the log of a training, found no {name}")
    lines["plain_loss"] = np.log(lines["perplexity"])
    beside = (path if path.is_dir() else path.parent) / "experiment.yaml"
    settings = flat(read_yaml(beside), beside) if beside.exists() else {}
    return Log(file, lines.astype({"step": int}).groupby("step").last(), settings)


def newest(run: Path) -> Path:
    """Return the metrics.jsonl that was written last; while a run trains, it lies in the state of its configuration."""
    files = [path for pattern in ("metrics.jsonl", "state/*/metrics.jsonl") for path in run.glob(pattern)]
    if not files:
        raise InputError(f"{run}: no metrics.jsonl, neither here nor in state/*/")
    return max(files, key=lambda path: path.stat().st_mtime)


def flat(settings: Any, where: Path) -> dict[str, Any]:
    """Return the settings that bend a curve, with section.key for those in sections."""
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected a mapping, found {type(settings).__name__}")
    sections = {f"{key}.": value for key, value in settings.items() if isinstance(value, dict)}
    leaves = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    for section, values in sections.items():
        leaves |= {f"{section}{key}": value for key, value in values.items()}
    return {key: value for key, value in leaves.items() if key not in FREE and not key.startswith("running.")}


def chosen_steps(run: Log, reference: Log) -> list[int]:
    """Return the first and the last common step and some between, with dev scores where there are some."""
    ours, theirs = (log.lines["smoothed_loss"].dropna().index for log in (run, reference))
    common = ours.intersection(theirs)
    if common.empty:
        ranges = f"steps {ours[0]} to {ours[-1]} in {run.path}, steps {theirs[0]} to {theirs[-1]} in {reference.path}"
        raise InputError(f"no common steps: {ranges}")
    evaluated = [step for step in common if all(log.lines["dev_perplexity"].notna()[step] for log in (run, reference))]
    spread = np.array(evaluated if len(evaluated) > 3 else common)
    spread = spread[np.linspace(0, len(spread) - 1, min(5, len(spread))).round().astype(int)]
    return sorted({int(step) for step in (common[0], *spread, *evaluated[-1:], common[-1])})


def at(steps: list[int], lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines at `steps`. Means over the steps since the last line become means since the last of `steps`."""
    trained = lines[lines["smoothed_loss"].notna()]
    span = trained.index.to_series().diff().fillna(trained.index[0])
    sums = trained[MEANS].mul(span, axis=0).cumsum().loc[steps]
    means = sums.diff().fillna(sums).div(np.diff(steps, prepend=0), axis=0)
    return lines.loc[steps].assign(**means)


def page(c: Comparison) -> str:
    """Return what to show: the table, the settings that differ, the verdict, and the measures that are off."""
    ours, theirs = (log.settings for log in c.logs)
    both = sorted(ours.keys() & theirs.keys())
    changed = [f"{key} {ours[key]} (reference {theirs[key]})" for key in both if ours[key] != theirs[key]]
    shown = [key for key, measure in MEASURES.items() if measure.column]
    rows = [[step, *(cell(c, step, key) for key in shown)] for step in c.ours.index]
    headings = ["step", *(MEASURES[key].name for key in shown)]
    table = tabulate(rows, headings, tablefmt="simple", disable_numparse=True, stralign="right")
    lines = [table, "", "reference in brackets; ! where they are further apart than right runs with two seeds"]
    if changed:
        lines.append(f"settings that differ: {', '.join(changed)}")
    if c.off is None:
        lines.append(f"on the expected trajectory, up to step {c.ours.index[-1]}")
    else:
        lines.append(f"off the expected trajectory from step {c.off}")
        lines += deviations(c)
    return "\n".join(lines)


def deviations(c: Comparison) -> list[str]:
    """Return a line for each measure that is out of tolerance, with the step at which it is furthest off."""
    lines = []
    for key, measure in MEASURES.items():
        off = c.deviation[key][c.wrong[key]]
        if len(off):
            step = off.abs().idxmax()
            far = f"{off[step]:+.1f} points" if key == "dev_bleu" else f"{np.exp(off[step]):.3g} times the reference's"
            ours, theirs = (format(of.at[step, key], measure.format) for of in (c.ours, c.reference))
            lines.append(f"{measure.name}: {far} at step {step}, {ours} ({theirs})")
    return lines


def cell(c: Comparison, step: int, name: str) -> str:
    """Return `! 2.94 (2.46)`, with - where only one of the two logged it; nothing where neither did."""
    numbers = [of.at[step, name] for of in (c.ours, c.reference)]
    if np.isnan(numbers).all():
        return ""
    ours, theirs = ("-" if np.isnan(number) else format(number, MEASURES[name].format) for number in numbers)
    return f"{'! ' if c.wrong.at[step, name] else ''}{ours} ({theirs})"
