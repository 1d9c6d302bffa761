"""BLEU by the length of sentences, also far beyond those of the training (§3.5: sinusoids may extrapolate)."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from transformer.evaluation.analyses import Lengths
from transformer.evaluation.records import read_of_run, run_name
from transformer.evaluation.scorefiles import check_runs
from transformer.files import InputError
from transformer.report.figures import COLORS
from transformer.report.figures.style import GREY, MARKERS, PAGE_INCHES, Drawing, new
from transformer.report.tables.notes import missing

POSITIONS = {  # as lines are called
    "sinusoid": "sinusoids",
    "learned": "learned positions",
    "none": "no positions",
    "words": "sinusoids that count words, too",
}
APART = 1.025  # factor between the same length of two runs, so that no bar hides another
DRAWN = ("times", "sentences", "tokens", "bleu", "low", "high")  # keys of a group


class Probe(NamedTuple):
    """The numbers of the probe `lengths` (probes/lengths.py)."""

    run: dict
    positions: str
    longest: int  # tokens of a source sentence in training
    skipped: int
    groups: pd.DataFrame  # columns `DRAWN`; "times" is NaN for single sentences

    @property
    def name(self) -> str:
        """Return task/experiment/seed."""
        return run_name(self.run)

    @property
    def parts(self) -> dict[str, pd.DataFrame]:
        """Return the groups of single and of joined sentences."""
        joined = self.groups["times"].notna()
        return {"single": self.groups[~joined], "joined": self.groups[joined]}


def read_probe(path: str) -> Probe:
    """Return what a file of the probe `lengths` holds. Raises InputError, which names it, where it is another file."""
    content = read_of_run(path, Lengths)
    run, positions, longest, skipped, groups = (content[key] for key in Probe._fields)
    if positions not in POSITIONS:
        raise InputError(f"{path}, positions: expected one of {', '.join(POSITIONS)}, found {positions!r}")
    rows = [[group[key] for key in DRAWN] for group in groups]
    return Probe(run, positions, longest, skipped, pd.DataFrame(rows, columns=DRAWN).astype(float))


def bleu_length(paths: list[str], label: str, expected: list[str]) -> Drawing:
    """Draw a line for each run. paths: what the probe `lengths` wrote. label: the data. expected: all runs."""
    probes = [read_probe(path) for path in paths]
    files = pd.DataFrame([probe.run for probe in probes], columns=["scale", "fidelity"])
    check_runs(files.assign(name=[probe.name for probe in probes], file=paths))
    gaps = missing(expected, [probe.name for probe in probes])
    limits = sorted({probe.longest for probe in probes})
    figure, axes = new(PAGE_INCHES, 2.8)
    for number, probe in enumerate(probes):
        draw(axes, probe, APART ** (number - (len(probes) - 1) / 2))
    for limit in limits:
        axes.axvline(limit, color=GREY, linestyle=":", linewidth=1)
    finish(axes, probes)
    return Drawing(figure, caption(probes, limits, label, gaps), alt(probes), {"gaps": gaps, "runs": data(probes)})


def draw(axes: Axes, probe: Probe, shift: float) -> None:
    """Draw one run: single sentences filled, joined ones hollow. shift: what their lengths are multiplied by."""
    kind = list(POSITIONS).index(probe.positions)
    filled = {"single": {}, "joined": {"linestyle": "--", "markerfacecolor": "white"}}
    for part, groups in probe.parts.items():
        groups = groups.sort_values("tokens", kind="stable")
        bars = [groups["bleu"] - groups["low"], groups["high"] - groups["bleu"]]
        look = {"color": COLORS[kind], "marker": MARKERS[kind], "capsize": 2, "elinewidth": 0.8} | filled[part]
        axes.errorbar(groups["tokens"] * shift, groups["bleu"], np.maximum(bars, 0), **look)


def finish(axes: Axes, probes: list[Probe]) -> None:
    """Set axes and legend, and say so where there is no run."""
    axes.set(xscale="log", xlabel="tokens of the source sentence, mean", ylabel="BLEU")
    axes.grid(axis="y")
    if not probes:
        axes.set(xticks=[], yticks=[])
        axes.minorticks_off()
        axes.text(0.5, 0.5, "no runs", ha="center", transform=axes.transAxes)
        return
    low, high = axes.get_xlim()
    ticks = [tick for power in (1, 10, 100, 1000) for tick in (power, 2 * power, 5 * power) if low <= tick <= high]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])  # a marker at 0 is whole
    drawn = {probe.positions for probe in probes}
    colored = zip(POSITIONS.items(), COLORS, MARKERS, strict=False)
    looks = [(title, {"color": color, "marker": marker}) for (kind, title), color, marker in colored if kind in drawn]
    looks += [("single sentences", {"color": GREY, "marker": "o"})]
    looks += [("joined sentences", {"color": GREY, "marker": "o", "linestyle": "--", "markerfacecolor": "white"})]
    looks += [("longest in training", {"color": GREY, "linestyle": ":"})]
    handles = [Line2D([], [], label=text, **look) for text, look in looks]
    axes.figure.legend(handles=handles, loc="outside right upper")


def caption(probes: list[Probe], limits: list[int], label: str, gaps: list[str]) -> str:
    """Return what is shown, of which runs, and what is not."""
    text = (
        f"BLEU by the length of sentences of the dev set of {label}. Filled: single sentences, in groups by length; "
        "hollow: neighbours joined until their tokens are a multiple of the longest source sentence in training. Bars "
        "hold 95 % of BLEU on resampled sets. Groups differ in their sentences, not in length alone: lines can be "
        "compared at one length."
    )
    if limits:
        text += f" Dotted: the longest source sentence in training, {' and '.join(map(str, limits))} tokens."
    runs = "; ".join(f"{POSITIONS[probe.positions]}: {probe.name}" for probe in probes)
    text += f" Runs: {runs}." if runs else ""
    skipped = "; ".join(f"{probe.skipped} of {probe.name}" for probe in probes if probe.skipped)
    text += f" Left out, as the model has too few positions: joined sentences, {skipped}." if skipped else ""
    return text + (f" Not there, and so not shown: {', '.join(gaps)}." if gaps else "")


def alt(probes: list[Probe]) -> str:
    """Return the BLEU of each group in words."""
    lines = []
    for probe in probes:
        for part, groups in probe.parts.items():
            points = ", ".join(f"{group.bleu:.1f} at {group.tokens:.0f} tokens" for group in groups.itertuples())
            lines.append(f"{POSITIONS[probe.positions]} ({probe.name}), {part} sentences: {points or 'none'}")
    return f"Lines of BLEU over length. {'; '.join(lines) or 'No runs'}."


def data(probes: list[Probe]) -> list[dict]:
    """Return the numbers that are drawn, a row for each run."""
    rows = []
    for probe in probes:
        groups = probe.groups.astype(object).where(probe.groups.notna(), None).to_dict("records")
        rows.append({"run": probe.name, "positions": probe.positions, "longest": probe.longest, "groups": groups})
    return rows
