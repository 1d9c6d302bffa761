"""BLEU over what it cost: parameters (Table 3) and FLOPs of training (Table 2), the paper's systems and ours."""

from math import inf, log10
from textwrap import fill
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, Formatter, LogFormatterSciNotation, LogLocator, NullLocator

from transformer.report.figures import COLORS
from transformer.report.figures.labels import place_labels
from transformer.report.figures.style import GREY, MARKERS, PAGE_INCHES, Drawing, new

# Rows of Table 3 by their letter, and the two that have none.
KINDS = {"base": "base", "A": "A: heads", "B": "B: key size", "C": "C: model size", "D": "D: regularisation"}
KINDS |= {"E": "E: learned positions", "big": "big", "ours": "own rows"}
PARAMETERS, FLOPS = "parameters", "FLOPs of training"
NAMED = ("base", "big")
TITLE = 44  # characters in a line


class Panel(NamedTuple):
    """Points of one origin, a row each with name, kind (of `KINDS`, or any), x, y, sd (of y, may be missing)."""

    title: str
    points: pd.DataFrame


def bleu_parameters(paper: pd.DataFrame, runs: pd.DataFrame, label: str, gaps: list[str]) -> Drawing:
    """Draw Table 3. paper: table3.csv by experiment; runs: scores of last checkpoints on the dev set."""
    printed = variations(paper)
    ours = means(runs, "parameters")
    ours["kind"] = [kind_of(experiment, paper) for experiment in ours["name"]]
    panels = [Panel("the paper: newstest2013", printed), Panel(f"ours: {label}", ours)]
    figure, grid = panels_of([panels], PARAMETERS)
    draw_kinds(grid[0], panels)
    caption = (
        "BLEU of the dev set over the number of parameters, Table 3's rows: left as the paper printed them for "
        f"newstest2013, a blank cell being base's, right ours: {label}. Bars are standard deviations over seeds."
    )
    return drawing(figure, caption, panels, gaps)


def bleu_flops(paper: list[dict], runs: pd.DataFrame, dev: pd.DataFrame, label: str, gaps: list[str]) -> Drawing:
    """Draw Table 2, a row for each task, and behind ours those of Table 3 on the dev set.

    paper: table2.csv as from `table2.read_systems`; runs: scores of the test set; dev: of the dev set.
    """
    rows = []
    for task in dict.fromkeys([*runs["task"], *(name.split("/")[0] for name in gaps)]):
        of_task = runs[runs["task"] == task]
        on_dev = means(dev[dev["task"] == task], "flops").assign(kind="dev")
        ours = pd.concat([means(of_task, "flops").assign(kind="test set"), on_dev])
        titles = f"{task.upper()}, the paper: newstest2014", f"{task.upper()}, ours: {label}"
        rows.append([Panel(titles[0], systems(paper, task)), Panel(titles[1], ours)])
    figure, grid = panels_of(rows, FLOPS)
    for panels, axes_row in zip(rows, grid, strict=True):
        draw_systems(axes_row, panels)
    caption = (
        "BLEU over the FLOPs of training: left what the paper printed for newstest2014, squares others' systems, right "
        f"ours, filled: {label}, hollow: Table 3's rows on the dev set. The paper's FLOPs are estimated from time and "
        "hardware, ours counted (Table 2). Bars are standard deviations over seeds."
    )
    return drawing(figure, caption, [panel for panels in rows for panel in panels], gaps)


def drawing(figure, caption: str, panels: list[Panel], gaps: list[str]) -> Drawing:
    """Return the figure with its points as data and in words."""
    spoken = {
        panel.title: ", ".join(f"{point.name} {point.y:.1f} at {point.x:.2g}" for point in panel.points.itertuples())
        for panel in panels
    }
    alt = "; ".join(f"{title}: {points or 'none'}" for title, points in spoken.items())
    missing = f" Not there, and so not shown: {', '.join(gaps)}." if gaps else ""
    points = {panel.title: panel.points[["name", "kind", "x", "y"]].to_dict("records") for panel in panels}
    return Drawing(figure, caption + missing, alt, {"gaps": gaps, "points": points})


def variations(paper: pd.DataFrame) -> pd.DataFrame:
    millions = paper["parameters"].where(paper["parameters"] != "", paper["parameters"]["base"]).astype(float)
    kinds = [kind_of(experiment, paper) for experiment in paper.index]
    y = paper["bleu"].astype(float)
    return pd.DataFrame({"name": paper.index, "kind": kinds, "x": 1e6 * millions, "y": y, "sd": float("nan")})


def systems(paper: list[dict], task: str) -> pd.DataFrame:
    """Return the points of table2.csv for one task: the systems that have both numbers."""
    keys = f"{task}_flops", f"{task}_bleu"
    rows = [(row["model"], row["by"], *(float(row[key]) for key in keys)) for row in paper if row.keys() >= set(keys)]
    return pd.DataFrame(rows, columns=["name", "kind", "x", "y"]).assign(sd=float("nan"))


def kind_of(experiment: str, paper: pd.DataFrame) -> str:
    """Return which of `KINDS` an experiment is."""
    return (paper["row"][experiment] or experiment) if experiment in paper.index else "ours"


def means(runs: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the points of our runs, which are means over seeds."""
    groups = runs.groupby("experiment", sort=False)
    points = groups.agg(x=(cost, "mean"), y=("bleu", "mean"), sd=("bleu", "std"))
    return points.astype(float).rename_axis("name").reset_index()


def panels_of(rows: list[list[Panel]], xlabel: str):
    """Return a figure with axes for the panels; a row whose data overlap has one scale, to be compared."""
    figure, grid = new(PAGE_INCHES, 2.6 * len(rows) + 0.2, nrows=len(rows), ncols=2, squeeze=False)
    for panels, axes_row in zip(rows, grid, strict=True):
        if overlap(*(panel.points["x"] for panel in panels)):
            axes_row[1].sharex(axes_row[0])
            axes_row[1].sharey(axes_row[0])
        for panel, axes in zip(panels, axes_row, strict=True):
            axes.set(xscale="log", xlabel=xlabel, ylabel="BLEU", title=fill(panel.title, TITLE))
            axes.title.set_parse_math(False)  # it holds a label of config.yaml
            axes.margins(0.15)
            axes.grid(True)
            if panel.points.empty:
                axes.set(xticks=[], yticks=[])
                axes.minorticks_off()
                axes.text(0.5, 0.5, "no scores", ha="center", transform=axes.transAxes)
    return figure, grid


def tick(axes: Axes, formatter: Formatter) -> None:
    """Set marks at powers of ten, and between them where the axis has few."""
    low, high = axes.get_xlim()
    decades = log10(high / low)
    between = (1,) if decades > 1.3 else (1, 2, 5) if decades > 0.8 else range(1, 10)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(formatter)


def overlap(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two ranges meet; an empty one meets none."""
    return bool(len(one) and len(other) and one.min() <= other.max() and other.min() <= one.max())


def draw_kinds(axes_row: list[Axes], panels: list[Panel]) -> None:
    """Draw Table 3's rows: a colour and a marker for each letter, with names for base and big."""
    for axes, panel in zip(axes_row, panels, strict=True):
        for (kind, title), color, marker in zip(KINDS.items(), COLORS, MARKERS, strict=True):
            points = panel.points[panel.points["kind"] == kind]
            if len(points):
                above = {"zorder": 4, "ms": 6} if kind in NAMED else {}
                draw_points(axes, points, color=color, marker=marker, label=title, **above)
        if len(panel.points):
            tick(axes, EngFormatter(sep=""))
    for axes, panel in zip(axes_row, panels, strict=True):
        place_labels(axes, panel.points[panel.points["name"].isin(NAMED)], panel.points)
    handles = {
        text: handle for axes in axes_row for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    axes_row[0].figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)


def draw_systems(axes_row: list[Axes], panels: list[Panel]) -> None:
    """Draw Table 2's rows, each with its name, and Table 3's behind ours."""
    looks = {
        "published": {"color": GREY, "marker": "s"},
        "paper": {"color": COLORS[0], "marker": "o"},
        "dev": {"color": COLORS[1], "marker": "o", "mfc": "none", "alpha": 0.6},
        "test set": {"color": COLORS[1], "marker": "D"},
    }
    for axes, panel in zip(axes_row, panels, strict=True):
        for kind, look in looks.items():
            draw_points(axes, panel.points[panel.points["kind"] == kind], **look)
        low, high = axes.get_xlim()
        if len(panel.points):
            axes.set_xlim(low, high * (high / low) ** 0.6)  # room for names
            tick(axes, LogFormatterSciNotation(minor_thresholds=(inf, inf)))
    for axes, panel in zip(axes_row, panels, strict=True):
        place_labels(axes, panel.points[panel.points["kind"] != "dev"], panel.points)


def draw_points(axes: Axes, points: pd.DataFrame, **look) -> None:
    """Draw markers, with bars where there is a deviation."""
    axes.plot(points["x"], points["y"], ls="none", **look)
    several = points.dropna(subset="sd")
    axes.errorbar(
        several["x"], several["y"], several["sd"], fmt="none", capsize=2, elinewidth=0.8, ecolor=look["color"]
    )
