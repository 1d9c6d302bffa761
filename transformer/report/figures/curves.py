"""Learning curves: perplexity and BLEU of the dev set over the steps."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from transformer.config.runs import PARSER
from transformer.layout import Run
from transformer.records import read_metrics
from transformer.report.figures import COLORS
from transformer.report.figures.style import GREY, PAGE_INCHES, Drawing, empty, legend_below, not_shown, only
from transformer.report.tables.notes import missing
from transformer.report.tables.table3 import read_variations

EMPHASISED = {"base": COLORS[0], "big": COLORS[1]}
LOGGED = {"dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
PAPER_COLUMNS = {"dev_perplexity": "perplexity", "dev_bleu": "bleu"}  # columns of workflow/paper/table3.csv
OTHERS = "other rows of Table 3"


def curves(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw a column per task, perplexity above BLEU, with base and big in colour. Parsers share a column.

    input: `metrics`, files task/experiment/seed/metrics.jsonl; `paper`, table3.csv. params: `label` of the data;
    `expected`, all runs; `task`, the one with the paper's data, or None: in its column, lines are the paper's results.
    """
    logged = {Run(Path(path).parent).name: read_curve(path) for path in input.metrics}
    gaps, paper = missing(params.expected, logged), read_variations(only(input.paper))
    columns = list(dict.fromkeys(place_of(name)[0] for name in [*logged, *gaps]))
    figure = Figure(figsize=(PAGE_INCHES, 4.2), layout="constrained")
    parsers = dict.fromkeys(line for column, line in map(place_of, logged) if column == PARSER)
    looks = EMPHASISED | dict(zip(parsers, COLORS[len(EMPHASISED) :], strict=False))
    outside = []
    # Row by row; that of parsers has the height of both.
    panels = [[f"{name} {'dev_perplexity' if name == PARSER else row}" for name in columns] for row in LOGGED]
    for panel, axes in figure.subplot_mosaic(panels).items():
        column, metric = panel.split()
        draw_curves(axes, {name: curve for name, curve in logged.items() if place_of(name)[0] == column}, metric, looks)
        if column == params.task:
            outside += draw_printed(axes, paper, metric)
        finish_panel(axes, f"{'Parsers' if column == PARSER else column.upper()}: {LOGGED[metric]}")
    legend_below(figure, columns=3, order=[*looks, OTHERS])
    caption = (
        f"Learning curves on the dev set of {params.label}: perplexity per subword, and BLEU by a beam of one on the "
        "first sentences, a quick look that is not Table 3's; parsers, on trees of their own, have the perplexity per "
        "symbol alone."
    )
    caption += " Dashed lines are where the paper's models ended." if params.task else ""
    caption += f" Beyond these axes: {'; '.join(outside)}." if outside else ""
    caption += not_shown(gaps, "Without metrics.jsonl")
    return Drawing(figure, caption, f"{caption} {last(logged, looks)}", {"gaps": gaps, "outside": outside})


def place_of(name: str) -> tuple[str, str]:
    """Return a run's column, its task or that of all parsers; and its line there, its experiment or a parser's task."""
    task, experiment, _ = name.split("/")
    return (PARSER, task) if experiment == PARSER else (task, experiment)


def read_curve(path: str | Path) -> pd.DataFrame:
    """Return step and `LOGGED` of the evaluations in a metrics.jsonl. Raises InputError naming a bad line."""
    rows = [line for line in read_metrics(Path(path)) if "dev_perplexity" in line]
    return pd.DataFrame(rows, columns=["step", *LOGGED], dtype=float)


def draw_curves(axes: Axes, logged: dict[str, pd.DataFrame], metric: str, looks: dict[str, str]) -> None:
    """Draw one metric of one column's runs, with those that are emphasised over the others."""
    for name, curve in logged.items():
        _, line = place_of(name)
        curve = curve.dropna(subset=metric)
        if line in looks:
            shown = {"color": looks[line], "zorder": 3, "marker": ".", "label": line}
        else:
            shown = {"color": GREY, "lw": 0.5, "alpha": 0.7, "label": OTHERS}
        if shown["label"] in axes.get_legend_handles_labels()[1]:
            del shown["label"]  # once for all seeds, and for all others
        axes.plot(curve["step"], curve[metric], **shown)
    if metric == "dev_perplexity":
        axes.set_yscale("log")
        axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_locator=NullLocator())


def draw_printed(axes: Axes, paper: pd.DataFrame, metric: str) -> list[str]:
    """Draw the paper's last values of the emphasised runs as dashed lines. Return those that our axes do not reach."""
    low, high = axes.get_ylim()
    outside = []
    for experiment, color in EMPHASISED.items():
        value = float(paper[PAPER_COLUMNS[metric]][experiment])
        text = f"{value}, the paper's {experiment}, newstest2013"
        if low <= value <= high:
            axes.axhline(value, color=color, ls="--", lw=0.8, label=text)
        else:
            outside.append(f"{LOGGED[metric]} {text}")
    return outside


def finish_panel(axes: Axes, title: str) -> None:
    """Set title, grid and marks, and say so if nothing was logged."""
    axes.set(title=title, xlabel="step")
    axes.grid(True)
    axes.xaxis.set(major_locator=MaxNLocator(6, steps=(1, 2, 2.5, 5, 10), integer=True), major_formatter="{x:,.0f}")
    if not any(len(line.get_xdata()) for line in axes.lines):
        empty(axes, "none logged")
        axes.set(yticks=[], xlim=(0, 1))


def last(logged: dict[str, pd.DataFrame], emphasised: dict[str, str]) -> str:
    """Return the last values of the emphasised runs, in words."""
    ends = []
    for name, curve in logged.items():
        if place_of(name)[1] in emphasised:
            values = (f"{title} {value:.2f}" for key, title in LOGGED.items() for value in curve[key].dropna()[-1:])
            ends.append(f"{name}: {', '.join(values) or 'nothing logged'}")
    return f"At the end, {'; '.join(ends)}." if ends else ""
