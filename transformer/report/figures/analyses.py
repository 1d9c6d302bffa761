"""Analyses of trained runs: importance of heads (§3.2.2), attention distances (§4), and BLEU by length (§3.5)."""

from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from transformer.evaluation.analyses.heads import KINDS, Heads
from transformer.evaluation.analyses.lengths import ByLength, longest_of
from transformer.evaluation.analysis import entries
from transformer.evaluation.significance import limits
from transformer.report.figures import COLORS
from transformer.report.figures.style import GREY, MARKERS, MEDIUM, PAGE_INCHES, SMALL, Drawing, empty, new, not_shown
from transformer.report.tables.cells import mean_draws, missing
from transformer.storage.records import read_of_run, run_name

_MAPS = {  # colours, title, decimals
    "increase": ("Oranges", "Rise of the loss without this head, in nats per token", 3),
    "distance": ("Blues", "Mean distance that this head looks over, in tokens", 1),
}
_NUMBERED = 8  # maximum number of heads in a layer with legible numbers in cells
# Heights in inches of a layer in a map, of a map's margins, and of the curves.
_LAYER_INCHES, _AROUND_INCHES, _CURVES_INCHES = 0.24, 0.75, 2.3
_LINES = {  # titles by a Transformer's positions, or by architecture
    "sinusoid": "sinusoids",
    "learned": "learned positions",
    "none": "no positions",
    "words": "sinusoids that count words, too",
    "lstm": "LSTM",
    "conv": "convolutions",
}
_APART = 1.025  # factor between equal lengths of two kinds of positions, so that error bars do not overlap
# Styles of single and joined sentences.
_PARTS = {"single": {}, "joined": {"linestyle": "--", "markerfacecolor": "white"}}


def head_importance(*, heads: str) -> Drawing:
    """Draw each head's importance and attention distance, and loss and BLEU with several masked heads."""
    found = read_of_run(heads, Heads.Result)
    map_inches = _LAYER_INCHES * found["layers"] + _AROUND_INCHES
    figure = Figure(figsize=(PAGE_INCHES, 2 * map_inches + _CURVES_INCHES), layout="constrained")
    *maps, curves = figure.subfigures(3, height_ratios=(map_inches, map_inches, _CURVES_INCHES))
    for row, name in zip(maps, _MAPS, strict=True):
        _draw_maps(row, found, name)
    _draw_masking(curves, found)
    distances, strongest = [], []
    for kind, title in KINDS.items():
        measured = found["kinds"][kind]
        by_layer = ", ".join(f"{distance:.1f}" for distance in np.mean(measured["distance"], axis=1))
        distances.append(f"{title} {by_layer} ({measured['equal']:.1f})")
        table = np.array(measured["increase"])
        layer, head = np.unravel_index(table.argmax(), table.shape)
        strongest.append(
            f"{title}: head {head + 1} of layer {layer + 1} is most important, {table.max():.3f} nats; with all heads "
            f"masked the loss is {measured['curve'][-1]['loss']:.3f}"
        )
    bleu = "; ".join(
        f"{score['bleu']:.1f} with {score['masked']} {KINDS.get(score['kind'], '')} heads masked".replace("  ", " ")
        for score in found["bleu"]
    )
    run = f"{run_name(found['run'])} at scale {found['run']['scale']}"
    caption = (
        f"Heads of {run}, measured on {found['sentences']:,} sentences of the dev set. Top: importance, which is how "
        "much the loss rises when only this head's output is set to zero. Without masking, the loss is "
        f"{found['loss']:.3f} nats per target token. Middle: attention distance, the mean distance in tokens between "
        "query and key, weighted by attention. In cross-attention, it is measured from the same relative position in "
        "the source sentence. Means per layer, from the lowest layer to the highest, with the distance under uniform "
        f"attention in brackets: {'; '.join(distances)}. Bottom: loss and BLEU (with 95 % intervals) while the heads "
        "of one kind are masked one by one. Each step masks the head whose masking raises the loss least on a part of "
        "the sentences."
    )
    return Drawing(figure, caption, f"Heat maps and lines. {'; '.join(strongest)}. BLEU {bleu}.")


def _draw_maps(row: SubFigure, found: Heads.Result, name: str) -> None:
    """Draw one metric as a heat map per kind of attention, with layers from bottom to top and one colour bar."""
    colors, title, decimals = _MAPS[name]
    tables = [np.array(found["kinds"][kind][name], dtype=float) for kind in KINDS]
    most = max(table.max() for table in tables)
    N, h = tables[0].shape
    panels = row.subplots(1, len(KINDS), sharey=True)
    for axes, table, kind in zip(panels, tables, KINDS.values(), strict=True):
        # The scale starts at 0. Heads with a negative importance are as white as unimportant heads.
        image = axes.imshow(table, cmap=colors, vmin=0, vmax=most, aspect="auto", origin="lower", interpolation="none")
        step = -(-h // 12)
        axes.set(title=kind, xlabel="head")
        axes.set_xticks(range(0, h, step), range(1, h + 1, step))
        axes.set_yticks(range(N), range(1, N + 1))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for (layer, head), value in np.ndenumerate(table) if h <= _NUMBERED else ():
            color = "white" if value > 0.75 * most else "black"
            axes.text(head, layer, _short_number(value, decimals), ha="center", va="center", size=SMALL, color=color)
    panels[0].set_ylabel("layer")
    row.suptitle(title, size=MEDIUM, weight="bold")
    row.colorbar(image, ax=panels, aspect=10, pad=0.01, ticks=MaxNLocator(2))


def _short_number(value: float, decimals: int) -> str:
    """Format a number with `decimals`, or one if it is large. Three decimals have no zero before the point."""
    text = f"{abs(value):.{decimals if abs(value) < 1 else 1}f}"
    if float(text) == 0:
        return "0"
    return ("−" if value < 0 else "") + (text.removeprefix("0") if decimals > 1 else text)


def _draw_masking(row: SubFigure, found: Heads.Result) -> None:
    """Draw loss, and BLEU with 95 % intervals, against the number of masked heads of each kind."""
    losses, bleu = row.subplots(1, 2)
    steps = found["layers"] * found["heads"]
    for number, ((kind, label), color, marker) in enumerate(zip(KINDS.items(), COLORS, MARKERS, strict=False)):
        curve = [found["loss"], *(step["loss"] for step in found["kinds"][kind]["curve"])]
        losses.plot(range(len(curve)), curve, color=color, marker=marker, markersize=3, label=label)
        scores = [score for score in found["bleu"] if score["kind"] in (None, kind)]
        # An offset separates overlapping bars.
        x = [score["masked"] + steps * (number - 1) / 100 for score in scores]
        y = np.array([score["bleu"] for score in scores])
        bars = np.array([[score["bleu"] - score["low"], score["high"] - score["bleu"]] for score in scores]).T
        bleu.errorbar(x, y, bars.clip(min=0), color=color, marker=marker, capsize=2, elinewidth=0.8)
    losses.set(ylabel="loss, nats per token")
    bleu.set(ylabel="BLEU", ylim=(0, None), xlim=(-0.05 * steps, 1.05 * steps))
    for axes in (losses, bleu):
        axes.set(xlabel="heads of this kind masked")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    losses.legend()


def bleu_length(*, lengths: list[str], dev_label: str, expected: list[str]) -> Drawing:
    """Draw a line for each run. Markers of single sentences are filled, markers of joined sentences are hollow."""
    files = ByLength().read(lengths)
    figure, axes = new(PAGE_INCHES, 2.8)
    points = _points(files)
    drawn, lines = list(dict.fromkeys(points["positions"])), []
    looks = _looks(drawn)
    for (positions, part), groups in points.groupby(["positions", "part"], sort=False):
        shift = _APART ** (drawn.index(positions) - (len(drawn) - 1) / 2)
        bars = [groups["bleu"] - groups["low"], groups["high"] - groups["bleu"]]
        look = looks[positions] | {"capsize": 2, "elinewidth": 0.8} | _PARTS[part]
        axes.errorbar(groups["tokens"] * shift, groups["bleu"], np.maximum(bars, 0), **look)
        texts = (f"{group.bleu:.1f} at {group.tokens:.0f} tokens" for group in groups.itertuples())
        lines.append(f"{_title(positions)}, {part} sentences: {', '.join(texts)}")
    longest, longests = longest_of(min(files["quantile"].dropna(), default=1)), sorted(files["longest"].unique())
    for limit in longests:
        axes.axvline(limit, color=GREY, linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="tokens of the source sentence, mean", ylabel="BLEU")
    axes.grid(axis="y")
    caption = (
        f"BLEU by sentence length on the dev set {dev_label}. Filled markers: single sentences, grouped by length. "
        f"Hollow markers: consecutive sentences, joined until they reach a multiple of {longest} source sentence in "
        "training. Lines are means over seeds, and bars are 95 % bootstrap intervals. Groups contain different "
        "sentences, so compare the lines only at equal length."
    )
    if len(files):
        _finish_lengths(axes, looks)
        caption += f" Dotted lines: {longest} source sentence in training, {' and '.join(map(str, longests))} tokens."
        listed = "; ".join(f"{_title(file.positions)}: {file.name}" for file in files.itertuples())
        caption += f" Runs: {listed}."
    else:
        empty(axes, "no runs")
    if skipped := [f"{file.skipped} of {file.name}" for file in files.itertuples() if file.skipped]:
        caption += f" Joined sentences that exceed the model's positions are omitted: {'; '.join(skipped)}."
    alt = f"Lines of BLEU over length. {'; '.join(lines) or 'No runs'}."
    return Drawing(figure, caption + not_shown(missing(expected, files["name"])), alt)


def _points(files: pd.DataFrame) -> pd.DataFrame:
    """List the groups of sentences by `positions` and `part` (single or joined): means over seeds, sorted by length."""
    groups = entries(files, "groups").reindex(columns=["name", "place", "times", "tokens", "bleu", "draws"])
    groups["positions"] = groups["name"].map(files.set_index("name")["positions"])
    groups["part"] = np.where(groups["times"] > 0, "joined", "single")  # `times` of single sentences is NaN
    points = []
    for (positions, part, _), same in groups.groupby(["positions", "part", "place"], sort=False):
        low, high = limits(mean_draws(same))
        # Nine digits, because intervals may have seven, and a tie would be rounded differently on other processors.
        means = (round(value, 9) for value in (same["tokens"].mean(), same["bleu"].mean(), low, high))
        points.append((positions, part, *means))
    named = pd.DataFrame(points, columns=["positions", "part", "tokens", "bleu", "low", "high"])
    return named.sort_values("tokens", kind="stable")


def _title(positions: str) -> str:
    """Return the title of a kind of positions. An architecture without a title has its name."""
    return _LINES.get(positions, positions)


def _looks(drawn: list[str]) -> dict[str, dict[str, str]]:
    """Return colour and marker of each kind of positions. Known kinds have the same look in all figures."""
    looks = zip(dict.fromkeys([*_LINES, *drawn]), cycle(COLORS), cycle(MARKERS), strict=False)
    return {kind: {"color": color, "marker": marker} for kind, color, marker in looks if kind in drawn}


def _finish_lengths(axes: Axes, kinds: dict[str, dict[str, str]]) -> None:
    """Set the ticks, and add a legend with these kinds of positions and their looks."""
    axes.xaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_locator=NullLocator())
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])  # leaves space for a marker at 0
    looks = [(_title(kind), look) for kind, look in kinds.items()]
    looks += [(f"{part} sentences", {"color": GREY, "marker": "o"} | own) for part, own in _PARTS.items()]
    looks += [("longest in training", {"color": GREY, "linestyle": ":"})]
    handles = [Line2D([], [], label=text, **look) for text, look in looks]
    axes.figure.legend(handles=handles, loc="outside right upper")
