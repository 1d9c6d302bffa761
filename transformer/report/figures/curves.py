"""Learning curves: perplexity and BLEU of the dev set over the steps."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from transformer.report.figures import COLORS
from transformer.report.figures.style import GREY, PAGE_INCHES, Drawing
from transformer.training.metrics import read_metrics

EMPHASISED = {"base": COLORS[0], "big": COLORS[1]}
MEASURES = {"dev_perplexity": "dev perplexity", "dev_bleu": "dev BLEU"}
PRINTED = {"dev_perplexity": "perplexity", "dev_bleu": "bleu"}  # columns of workflow/paper/table3.csv
OTHERS = "other rows of Table 3"
PARSER = "parser"  # the experiment of runs that write trees, of which no BLEU is logged


def curves(metrics: list[Path], gaps: list[str], paper: pd.DataFrame, paper_task: str | None, label: str) -> Drawing:
    """Draw a column per task, perplexity above BLEU, with base and big in colour. Parsers share a column.

    metrics: files task/experiment/seed/metrics.jsonl. gaps: the runs that have none. paper: table3.csv by experiment;
    its numbers are lines in the column of `paper_task`, the task with the paper's data, if there is one, where they are
    within the range of ours.
    """
    logged = {name_of(path): read_curve(path) for path in metrics}
    columns = list(dict.fromkeys(column_of(name) for name in [*logged, *gaps]))
    figure = Figure(figsize=(PAGE_INCHES, 4.2), layout="constrained")
    parsers = dict.fromkeys(line_of(name) for name in logged if column_of(name) == PARSER)
    looks = EMPHASISED | dict(zip(parsers, COLORS[len(EMPHASISED) :], strict=False))
    outside = []
    # Row by row; that of parsers has the height of both.
    panels = [[f"{name} {'dev_perplexity' if name == PARSER else row}" for name in columns] for row in MEASURES]
    for panel, axes in figure.subplot_mosaic(panels).items():
        column, measure = panel.split()
        of_column = {name: curve for name, curve in logged.items() if column_of(name) == column}
        draw(axes, of_column, measure, looks)
        if column == paper_task:
            outside += draw_printed(axes, paper, measure)
        finish(axes, f"{'Parsers' if column == PARSER else column.upper()}: {MEASURES[measure]}")
    add_legend(figure, list(looks))
    caption = caption_of(label, bool(paper_task), outside, gaps)
    return Drawing(figure, caption, f"{caption} {last(logged, looks)}", {"gaps": gaps, "outside": outside})


def column_of(name: str) -> str:
    """Return where a run is drawn: its task's column, or that of all parsers."""
    task, experiment, _ = name.split("/")
    return PARSER if experiment == PARSER else task


def line_of(name: str) -> str:
    """Return what a run is called there: its experiment, or a parser's task."""
    task, experiment, _ = name.split("/")
    return task if experiment == PARSER else experiment


def read_curve(path: Path) -> pd.DataFrame:
    """Return the evaluations in a metrics.jsonl: step, and those of `MEASURES` that it has.

    Raises InputError naming a bad line.
    """
    rows = [line for line in read_metrics(path) if "dev_perplexity" in line]
    return pd.DataFrame(rows, columns=["step", *MEASURES], dtype=float)


def name_of(path: Path) -> str:
    """Return task/experiment/seed of a file in a run's folder."""
    return "/".join(path.parts[-4:-1])


def draw(axes: Axes, logged: dict[str, pd.DataFrame], measure: str, looks: dict[str, str]) -> None:
    """Draw one measure of one column's runs, with those that are emphasised over the others."""
    for name, curve in logged.items():
        line = line_of(name)
        curve = curve.dropna(subset=measure)
        if line in looks:
            shown = {"color": looks[line], "zorder": 3, "marker": ".", "label": line}
        else:
            shown = {"color": GREY, "lw": 0.5, "alpha": 0.7, "label": OTHERS}
        if shown["label"] in axes.get_legend_handles_labels()[1]:
            del shown["label"]  # once for all seeds, and for all others
        axes.plot(curve["step"], curve[measure], **shown)
    if measure == "dev_perplexity":
        axes.set_yscale("log")
        axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_locator=NullLocator())


def finish(axes: Axes, title: str) -> None:
    """Set title, grid and marks, and say so where nothing was logged."""
    axes.set(title=title, xlabel="step")
    axes.grid(True)
    axes.xaxis.set(major_locator=MaxNLocator(6, steps=(1, 2, 2.5, 5, 10), integer=True), major_formatter="{x:,.0f}")
    if not any(len(line.get_xdata()) for line in axes.lines):
        axes.text(0.5, 0.5, "none logged", ha="center", transform=axes.transAxes)
        axes.set(yticks=[], xlim=(0, 1))


def add_legend(figure: Figure, emphasised: list[str]) -> None:
    """Add one legend for all axes, with what is emphasised first."""
    entries = {}
    for axes in figure.axes:
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    labels = sorted(entries, key=lambda text: [*emphasised, OTHERS, text].index(text))
    figure.legend([entries[text] for text in labels], labels, loc="outside lower center", ncols=3)


def draw_printed(axes: Axes, paper: pd.DataFrame, measure: str) -> list[str]:
    """Draw the paper's last values of the emphasised runs as dashed lines. Return those that our axes do not reach."""
    low, high = axes.get_ylim()
    outside = []
    for experiment, color in EMPHASISED.items():
        value = float(paper[PRINTED[measure]][experiment])
        text = f"{value}, the paper's {experiment}, newstest2013"
        if low <= value <= high:
            axes.axhline(value, color=color, ls="--", lw=0.8, label=text)
        else:
            outside.append(f"{MEASURES[measure]} {text}")
    return outside


def caption_of(label: str, dashed: bool, outside: list[str], gaps: list[str]) -> str:
    """Return what is shown and what is not."""
    text = (
        f"Learning curves on the dev set of {label}: perplexity per subword, and BLEU by a beam of one on the first "
        "sentences, a quick look that is not Table 3's; parsers, on trees of their own, have the perplexity per symbol "
        "alone."
    )
    if dashed:
        text += " Dashed lines are where the paper's models ended."
    if outside:
        text += f" Beyond these axes: {'; '.join(outside)}."
    return text + (f" Without metrics.jsonl, and so not shown: {', '.join(gaps)}." if gaps else "")


def last(logged: dict[str, pd.DataFrame], emphasised: Iterable[str]) -> str:
    """Return how the emphasised runs ended."""
    ends = []
    for name, curve in logged.items():
        if line_of(name) in emphasised:
            values = (f"{title} {value:.2f}" for key, title in MEASURES.items() for value in curve[key].dropna()[-1:])
            ends.append(f"{name}: {', '.join(values) or 'nothing logged'}")
    return f"At the end, {'; '.join(ends)}." if ends else ""
