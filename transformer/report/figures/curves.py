"""Positional encoding (§3.5), learning rate (§5.3), time of a layer (Table 1), and learning curves."""

from itertools import cycle
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from transformer.config.experiment import load, rate, verified_run
from transformer.config.scales import PARSER
from transformer.evaluation.scores import read_scores
from transformer.layout import Run
from transformer.model.cost import COSTS, growth
from transformer.report.figures import COLORS, style
from transformer.report.tables import claim
from transformer.report.tables.cells import missing
from transformer.report.tables.table1 import accuracies
from transformer.storage.records import Measured, Recalled, read_metrics, read_summed

_LOGGED = {"dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
_OTHERS = "other rows of Tables 3 and 5"
_OTHERS_LOOK = {"color": style.GREY, "lw": 0.5, "alpha": 0.7, "label": _OTHERS}
_WORSE = 1.25  # times base's final perplexity: the minimum for a named curve
# Matplotlib's line styles with their names.
_STYLES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dash-dotted"}
_LATE = 0.15  # share of the steps that is ignored for the limits of the vertical axis


def positions(*, experiment: str, weights: str) -> style.Drawing:
    """Draw a heat map of the positional encoding at the first positions."""
    from transformer.model.transformer import require_transformer  # a late import, because torch takes seconds to load
    from transformer.model.weights import load_model

    settings = verified_run(Run(Path(experiment).parent), Path(weights))
    run, learned = settings.name, settings.model.positions == "learned"
    model = require_transformer(load_model(weights, settings.model), "positional encoding")
    # Rounding removes digits that depend on the processor.
    table = model.embedding.position_table.detach().cpu().numpy()[:100].round(5)
    figure, axes = style.new(style.COLUMN_INCHES, 2.6)
    most = abs(table).max()
    # Colour-blind readers can distinguish purple, orange, and white, which is zero.
    image = axes.imshow(table, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", interpolation="none")
    axes.set(xlabel="dimension", ylabel="position")
    figure.colorbar(image, ax=axes, label="added to the embedding")
    kind, (rows, columns) = "learned positions" if learned else "the sinusoids", table.shape
    caption = f"Positional encoding (§3.5): {kind} of {run}, at the first {rows} positions in all {columns} dimensions."
    if not learned:
        caption += " Wavelengths increase from left to right. Short wavelengths distinguish neighbouring positions."
    alt = f"Heat map of {kind}, values from {table.min():.2f} to {table.max():.2f}."
    return style.Drawing(figure, caption, alt)


def schedule(*, experiment: list[str]) -> style.Drawing:
    """Draw equation 3 with the width, warm-up, scale and steps of each experiment.yaml."""
    (figure, axes), peaks = style.new(style.COLUMN_INCHES, 2.3), []
    for settings, color, marker in zip(map(load, experiment), COLORS, style.MARKERS, strict=False):
        training, d_model = settings.training, settings.model.d_model
        peak = min(training.warmup_steps, training.steps)
        steps = np.unique([*np.linspace(1, training.steps, 500, dtype=int), peak])
        rates = [rate(settings, int(step)) for step in steps]
        name = f"{settings.task}/{settings.experiment}"
        axes.plot(steps, rates, color=color, label=f"{name}, $d_\\mathrm{{model}}$ = {d_model:,}")
        highest = rate(settings, peak)
        axes.plot(peak, highest, color=color, marker=marker)
        peaks.append(f"{name}: maximum {highest:.2e}")
    axes.set(xlabel="step", ylabel="learning rate", xlim=(0, None), ylim=(0, None))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3), useMathText=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(True)
    axes.legend()
    listing = "; ".join(peaks)
    caption = f"Learning rate by equation 3 (§5.3). A mark shows the maximum. {listing}."
    alt = f"Lines that rise linearly, then fall with the inverse square root of the step. {listing}."
    return style.Drawing(figure, caption, alt)


def timing(*, measured: str) -> style.Drawing:
    """Draw the time per layer over the sequence length, for each type in Table 1."""
    layers = read_summed(measured, Measured)
    figure, axes = style.new(style.COLUMN_INCHES, 1.15 * style.COLUMN_INCHES)
    times = pd.DataFrame(layers["times"]).query("grid == 'n'").sort_values("n", kind="stable")
    by_layer, at_longest = times.groupby("layer", sort=False), []
    for (layer, of_layer), color, marker in zip(by_layer, COLORS, style.MARKERS, strict=False):
        n, milliseconds = of_layer["n"].to_numpy(), (1000 * of_layer["seconds"]).round(6).to_numpy()
        spread = (500 * of_layer["quartiles"]).round(6).to_numpy()
        axes.errorbar(n, milliseconds, spread, color=color, marker=marker, label=layer)
        theory = milliseconds[-1] * (n / n[-1]) ** growth(COSTS[layer], "n")
        axes.plot(n, theory, color=color, linestyle="--", linewidth=0.6, zorder=1, scaley=False)
        at_longest.append(f"{layer} {milliseconds[-1]:.3f} ms")
    axes.set(xscale="log", yscale="log", xlabel="Sequence length n", ylabel="Milliseconds per layer")
    lengths = sorted(times["n"].unique())
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.set_title(f"d = {times['d'].iloc[0]}")
    style.legend_below(figure, columns=2)
    caption = (
        "Time of a layer against sequence length, for the types of layers in Table 1. Dashed lines start at the "
        "longest sequence and have the slope of the number of operations. Bars are interquartile ranges of repetitions."
    )
    alt = "Lines of milliseconds against sequence length, both logarithmic. "
    return style.Drawing(figure, caption, f"{alt}At n = {lengths[-1]}: {'; '.join(at_longest)}.")


def recall(*, recall: str) -> style.Drawing:
    """Draw the accuracy of recall by distance for each architecture: mean over seeds and range."""
    measured = read_summed(recall, Recalled)
    figure, axes = style.new(style.COLUMN_INCHES, style.COLUMN_INCHES)
    by_name, at_longest = accuracies(measured), []
    for (name, frame), color, marker in zip(by_name.items(), COLORS, style.MARKERS, strict=False):
        mean = frame.mean()
        ends = [mean - frame.min(), frame.max() - mean]
        axes.errorbar(frame.columns, mean, ends, color=color, marker=marker, capsize=2, label=name)
        at_longest.append(f"{name} {mean.iloc[-1]:.2f}")
    distances = list(frame.columns)
    axes.axhline(measured["chance"], color=style.GREY, linestyle="--", linewidth=0.6, label="chance")
    axes.set(xscale="log", xlabel="Tokens between the pair and the question", ylabel="Accuracy", ylim=(0, 1.05))
    axes.set_xticks(distances, [str(n) for n in distances])
    axes.minorticks_off()
    axes.grid(axis="y")
    style.legend_below(figure, columns=2)
    settings, conv = measured["settings"], measured["settings"]["models"].get("conv")
    reach = conv["N"] * (conv["k"] // 2) if conv else "nearest"
    parameters = round(float(np.mean([model["parameters"] for model in measured["models"]])), -3)
    caption = (
        f"Recall by distance (§4). Encoders with about {parameters:,} parameters read key-value pairs "
        f"between filler tokens and predict the value of the last key. Mean and range of {len(settings['seeds'])} "
        f"seeds after {settings['steps']:,} steps on all distances together. The path between two positions is one "
        "step for attention, the distance for recurrence, and the number of blocks for a convolution. The convolution "
        f"reaches only {reach} tokens to each side."
    )
    alt = "Lines of accuracy over distance, which is logarithmic. "
    return style.Drawing(figure, caption, f"{alt}At {distances[-1]} tokens: {'; '.join(at_longest)}.")


def curves(*, metrics: list[str], dev_label: str, expected: list[str]) -> style.Drawing:
    """Draw a column per task or for all parsers, perplexity above BLEU; base, big and bad rows are coloured."""
    logged = {}
    for path in map(Path, metrics):
        rows = [line for line in read_metrics(path) if "dev_perplexity" in line]
        logged[Run(path.parent).name] = pd.DataFrame(rows, columns=["step", *_LOGGED], dtype=float)
    gaps = missing(expected, logged)
    columns = list(dict.fromkeys(_place_of(name)[0] for name in [*logged, *gaps]))
    named = dict.fromkeys(["base", "big", *(line for column, line in map(_place_of, logged) if column == PARSER)])
    named |= dict.fromkeys(_worse(logged))
    looks = {
        line: {"color": COLORS[number % len(COLORS)], "ls": "-:"[number // len(COLORS) % 2], "zorder": 3, "label": line}
        for number, line in enumerate(named)
    }
    figure = Figure(figsize=(style.PAGE_INCHES, 5), layout="constrained")
    # The column of parsers spans both rows.
    panels = [[f"{name} {'dev_perplexity' if name == PARSER else row}" for name in columns] for row in _LOGGED]
    above = []
    for panel, axes in figure.subplot_mosaic(panels).items():
        column, metric = panel.split()
        axes.set(title=f"{'Parsers' if column == PARSER else column.upper()}: {_LOGGED[metric]}", xlabel="step")
        own = {name: log for name, log in logged.items() if _place_of(name)[0] == column}
        above += _draw_curves(axes, own, metric, looks)
    style.legend_below(figure, columns=4, order=[*looks, _OTHERS])
    caption = (
        f"Learning curves on the dev set {dev_label}: perplexity per subword, and BLEU of greedy search on the "
        "first sentences, which differs from Table 3's BLEU. Parsers have their own dev set and only perplexity per "
        f"symbol. Colours show base, big and rows with a final perplexity above {_WORSE:g} times base's."
    )
    caption += f" Too high for the frame: {', '.join(dict.fromkeys(above))}." if above else ""
    caption += style.not_shown(gaps, "Without metrics.jsonl")
    ends = []
    for name, log in logged.items():
        if _place_of(name)[1] in looks:
            values = (f"{title} {value:.2f}" for key, title in _LOGGED.items() for value in log[key].dropna()[-1:])
            ends.append(f"{name}: {', '.join(values) or 'nothing logged'}")
    alt = f"{caption} At the end, {'; '.join(ends)}." if ends else caption
    return style.Drawing(figure, caption, alt)


def cost_curves(*, metrics: list[str], score: list[str], dev_label: str, expected: list[str]) -> style.Drawing:
    """Draw dev BLEU against FLOPs and against seconds with a line for each run. The line style shows the hardware."""
    runs = read_scores(score)
    costs = claim.read_costs(metrics, runs)
    runs = runs[runs["name"].isin(list(costs))]
    colors = dict(zip(runs["experiment"].unique(), COLORS, strict=False))
    styles = dict(zip(runs["hardware"].unique(), cycle(_STYLES)))
    figure, grid = style.new(style.PAGE_INCHES, 3.0, ncols=2, sharey=True)
    for axes, (cost, unit) in zip(grid, claim.EQUAL_COSTS.items(), strict=True):
        for run in runs.itertuples():
            curve = costs[run.name].iloc[1:].round(6)  # without 0, because the axis is logarithmic
            look = {"color": colors[run.experiment], "ls": styles[run.hardware], "label": run.experiment}
            axes.plot(curve[cost], curve["dev_bleu"], lw=0.9, **look)
        axes.set(xscale="log", xlabel=f"cumulative {unit} of training")
        axes.grid(True)
        if costs:
            style.tick(axes, LogFormatterSciNotation() if cost == "flops" else StrMethodFormatter("{x:,.0f}"))
        else:
            style.empty(axes, "none logged")
    grid[0].set_ylabel("dev BLEU")
    style.legend_below(figure, columns=len(colors) or 1, order=list(colors))
    for line in figure.legends[0].get_lines():  # only colours, because the runs of a row may have several styles
        line.set_linestyle("-")
    machines = "; ".join(f"{_STYLES[line]}: {hardware}" for hardware, line in styles.items())
    caption = (
        f"BLEU of greedy search on the first sentences of the dev set {dev_label}, over the cumulative cost of "
        "training: FLOPs as in Table 2, and seconds times processes. Each line is a run. Line styles show the hardware "
        f"({machines}).{style.not_shown(missing(expected, costs), 'Without dev BLEU')}"
    )
    last = ((name, costs[name].iloc[-1]) for name in runs["name"])
    ends = (f"{name} {end['dev_bleu']:.1f} at {end['flops']:.2g} FLOPs, {end['seconds']:.3g} s" for name, end in last)
    return style.Drawing(figure, caption, f"{caption} At the end: {'; '.join(ends) or 'none'}.")


def _place_of(name: str) -> tuple[str, str]:
    """Return a run's column (its task, or all parsers), and its line (its experiment, or a parser's task)."""
    task, experiment, _ = name.split("/")
    return (PARSER, task) if experiment == PARSER else (task, experiment)


def _worse(logged: dict[str, pd.DataFrame]) -> list[str]:
    """Return the experiments with a final perplexity far above their task's base, worst first."""
    ends = {name: log["dev_perplexity"].dropna().iloc[-1] for name, log in logged.items() if len(log)}
    base = {_place_of(name)[0]: end for name, end in ends.items() if _place_of(name)[1] == "base"}
    worse = {name: end for name, end in ends.items() if end > _WORSE * base.get(_place_of(name)[0], inf)}
    return [_place_of(name)[1] for name in sorted(worse, key=lambda name: -worse[name])]


def _draw_curves(axes: Axes, logged: dict[str, pd.DataFrame], metric: str, looks: dict) -> list[str]:
    """Draw the curves, and return the names of curves above the frame."""
    late = []
    for name, log in logged.items():
        curve, look = log.dropna(subset=metric).round(6), looks.get(_place_of(name)[1], _OTHERS_LOOK)
        axes.plot(curve["step"], curve[metric], **look)
        late.append(curve.loc[curve["step"] >= _LATE * curve["step"].max(), metric])
    if not any(len(line.get_xdata()) for line in axes.lines):
        style.empty(axes, "none logged")
        return []
    axes.grid(True)
    axes.xaxis.set(major_locator=MaxNLocator(6, steps=(1, 2, 2.5, 5, 10), integer=True), major_formatter="{x:,.0f}")
    if metric != "dev_perplexity":
        return []
    shown = pd.concat(late)
    highest = min(shown.max(), 4 * shown.median())  # limits the space for runs that never learn
    axes.set(yscale="log", ylim=(0.95 * shown.min(), 1.05 * highest))
    axes.yaxis.set(
        major_locator=LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)), major_formatter="{x:g}", minor_locator=NullLocator()
    )
    return [_place_of(name)[1] for name, values in zip(logged, late, strict=True) if values.min() > 1.05 * highest]
