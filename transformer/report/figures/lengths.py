"""BLEU by the length of sentences, also far beyond those of the training (§3.5: sinusoids may extrapolate)."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from transformer.evaluation.analyses import GroupedByLength
from transformer.evaluation.scores import check_runs
from transformer.files import InputError
from transformer.records import read_of_run, run_name
from transformer.report.figures import COLORS
from transformer.report.figures.style import GREY, MARKERS, PAGE_INCHES, Drawing, empty, new, not_shown
from transformer.report.tables.notes import missing

LINES = {  # titles by the model's positions
    "sinusoid": "sinusoids",
    "learned": "learned positions",
    "none": "no positions",
    "words": "sinusoids that count words, too",
}
APART = 1.025  # factor between the same length of two runs, so that no bar hides another
DRAWN = ("times", "sentences", "tokens", "bleu", "low", "high")  # keys of a group
PARTS = {  # looks of the groups of single and of joined sentences
    "single": {},
    "joined": {"linestyle": "--", "markerfacecolor": "white"},
}


def bleu_length(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw a line for each run.

    input: `lengths`, files of the analysis of this name. params: `label` of the data; `expected`, all runs.
    """
    found = {path: read_lengths(path) for path in input.lengths}
    runs = {run_name(content["run"]): content for content in found.values()}
    rows = [{"file": str(path), "name": run_name(content["run"])} | content["run"] for path, content in found.items()]
    check_runs(pd.DataFrame(rows, columns=["file", "name", "scale", "fidelity"]))
    gaps = missing(params.expected, runs)
    limits = sorted({content["longest"] for content in runs.values()})
    figure, axes = new(PAGE_INCHES, 2.8)
    for number, content in enumerate(runs.values()):
        draw_run(axes, content, APART ** (number - (len(runs) - 1) / 2))
    for limit in limits:
        axes.axvline(limit, color=GREY, linestyle=":", linewidth=1)
    finish_lengths(axes, {content["positions"] for content in runs.values()})
    numbers = [
        {"run": name, "positions": content["positions"], "longest": content["longest"]}
        | {"groups": [{key: group[key] for key in DRAWN} for group in content["groups"]]}
        for name, content in runs.items()
    ]
    caption = lengths_caption(runs, limits, params.label) + not_shown(gaps)
    return Drawing(figure, caption, lengths_alt(runs), {"gaps": gaps, "runs": numbers})


def read_lengths(path: str) -> GroupedByLength:
    """Return an analysis of lengths. Raises InputError naming the file."""
    content = read_of_run(path, GroupedByLength)
    if content["positions"] not in LINES:
        raise InputError(f"{path}, positions: expected one of {', '.join(LINES)}, found {content['positions']!r}")
    return content


def groups_of(content: GroupedByLength, part: str) -> pd.DataFrame:
    """Return the groups of single or of joined sentences, in the order of the file."""
    groups = [group for group in content["groups"] if (group["times"] is not None) == (part == "joined")]
    return pd.DataFrame(groups, columns=DRAWN[1:])


def draw_run(axes: Axes, content: GroupedByLength, shift: float) -> None:
    """Draw one run: single sentences filled, joined ones hollow. shift: a factor of their lengths."""
    kind = list(LINES).index(content["positions"])
    for part, own in PARTS.items():
        groups = groups_of(content, part).sort_values("tokens", kind="stable").astype(float)
        bars = [groups["bleu"] - groups["low"], groups["high"] - groups["bleu"]]
        look = {"color": COLORS[kind], "marker": MARKERS[kind], "capsize": 2, "elinewidth": 0.8} | own
        axes.errorbar(groups["tokens"] * shift, groups["bleu"], np.maximum(bars, 0), **look)


def finish_lengths(axes: Axes, drawn: set[str]) -> None:
    """Set axes and legend, and say so if there is no run."""
    axes.set(xscale="log", xlabel="tokens of the source sentence, mean", ylabel="BLEU")
    axes.grid(axis="y")
    if not drawn:
        axes.set(xticks=[], yticks=[])
        axes.minorticks_off()
        empty(axes, "no runs")
        return
    low, high = axes.get_xlim()
    ticks = [tick for power in (1, 10, 100, 1000) for tick in (power, 2 * power, 5 * power) if low <= tick <= high]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])  # a marker at 0 is whole
    colored = zip(LINES.items(), COLORS, MARKERS, strict=False)
    looks = [(title, {"color": color, "marker": marker}) for (kind, title), color, marker in colored if kind in drawn]
    looks += [(f"{part} sentences", {"color": GREY, "marker": "o"} | own) for part, own in PARTS.items()]
    looks += [("longest in training", {"color": GREY, "linestyle": ":"})]
    handles = [Line2D([], [], label=text, **look) for text, look in looks]
    axes.figure.legend(handles=handles, loc="outside right upper")


def lengths_caption(runs: dict[str, GroupedByLength], limits: list[int], label: str) -> str:
    """Return the caption, but for the missing runs."""
    text = (
        f"BLEU by the length of sentences of the dev set of {label}. Filled: single sentences, in groups by length; "
        "hollow: neighbours joined until their tokens are a multiple of the longest source sentence in training. Bars "
        "hold 95 % of BLEU on resampled sets. Groups differ in their sentences, not in length alone: lines can be "
        "compared at one length."
    )
    if limits:
        text += f" Dotted: the longest source sentence in training, {' and '.join(map(str, limits))} tokens."
    shown = "; ".join(f"{LINES[content['positions']]}: {name}" for name, content in runs.items())
    text += f" Runs: {shown}." if shown else ""
    skipped = "; ".join(f"{content['skipped']} of {name}" for name, content in runs.items() if content["skipped"])
    return text + (f" Left out, as the model has too few positions: joined sentences, {skipped}." if skipped else "")


def lengths_alt(runs: dict[str, GroupedByLength]) -> str:
    """Return the BLEU of each group in words."""
    lines = []
    for name, content in runs.items():
        for part in PARTS:
            groups = groups_of(content, part).itertuples()
            points = ", ".join(f"{group.bleu:.1f} at {group.tokens:.0f} tokens" for group in groups)
            lines.append(f"{LINES[content['positions']]} ({name}), {part} sentences: {points or 'none'}")
    return f"Lines of BLEU over length. {'; '.join(lines) or 'No runs'}."
