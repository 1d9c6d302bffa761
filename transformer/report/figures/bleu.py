"""The paper's and our BLEU: differences between Table 3's rows and base, and BLEU against parameters and FLOPs."""

from functools import partial
from math import inf, nan
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import EngFormatter, LogFormatterSciNotation
from matplotlib.transforms import Bbox

from transformer.evaluation.scores import read_scores
from transformer.report.figures import COLORS, style
from transformer.report.tables.cells import difference_text, missing, over_seeds
from transformer.report.tables.table2 import read_systems
from transformer.report.tables.table3 import TEST, read_last, read_variations, variations

# The markers of a row in `differences` from top to bottom: columns' prefix, legend, marker, colour.
_OURS = {"": ("ours, dev", "o", COLORS[0]), TEST: ("ours, test", "s", COLORS[1])}

# Positions of a name, best first: offset in points, and alignment.
_PLACES = [(5, 0, "left", "center"), (-5, 0, "right", "center"), (0, 5, "center", "bottom"), (0, -5, "center", "top")]
_PLACES += [(4, 4, "left", "bottom"), (4, -4, "left", "top"), (-4, 4, "right", "bottom"), (-4, -4, "right", "top")]
# A row has two panels. Each has a title, and points with name, x, y, optional y_sd and, for Table 2, kind.
_MARGIN = 2.0  # BLEU between the largest difference and the frame
_Panels = list[tuple[str, pd.DataFrame]]


def differences(*, paper: str, score: list[str], test: list[str], expected: list[str]) -> style.Drawing:
    """Draw a line for each experiment, with 95 % intervals."""
    runs = read_last(score)
    frame = variations(read_variations(paper), runs, read_last(test), data_of_paper=False)
    frame = frame[frame["difference"].notna()]
    figure, axes = style.new(style.COLUMN_INCHES, 0.8 + 1.75 * style.LINE_INCHES * max(1, len(frame)))
    rows = np.arange(len(frame))
    axes.plot(frame["paper_difference"], rows - 0.25, "D", ls="none", mfc="none", color=style.GREY, label="the paper")
    for number, (prefix, (label, marker, color)) in enumerate(_OURS.items()):
        value, low, high = (frame[f"{prefix}difference{end}"].astype(float).round(6) for end in ("", "_low", "_high"))
        bars = np.maximum([value - low, high - value], 0)
        look = {"fmt": marker, "color": color, "capsize": 1.5, "elinewidth": 0.9, "markersize": 3.5, "label": label}
        axes.errorbar(value, rows + 0.25 * number, xerr=bars, **look)
    axes.axvline(0, color="black", linewidth=0.6)
    shown = frame[["paper_difference", "difference", f"{TEST}difference"]].astype(float)
    if len(shown):
        axes.set_xlim(min(0, shown.min().min()) - _MARGIN, max(0, shown.max().max()) + _MARGIN)
    axes.set_yticks(rows, frame.index, size=style.SMALL)
    axes.set(xlabel="BLEU minus base's", ylim=(len(frame) - 0.4, -0.6))
    axes.grid(axis="x")
    figure.legend(loc="outside upper center", ncols=3)
    caption = (
        "Differences between rows of Table 3 and base. We measure each difference twice: on the dev set with the last "
        "checkpoint, and on the test set with averaged weights. Lines are 95 % intervals. They exclude 0 if p < 0.05. "
        "The longest lines end at the frame. The paper's numbers are single runs on newstest2013."
        f"{style.not_shown(missing(expected, runs['name']))}"
    )
    listed = []
    for name, row in frame.iterrows():
        texts = (difference_text(row[key], 1) for key in ("paper_difference", "difference", f"{TEST}difference"))
        listed.append(f"{name}: {', '.join(text or 'none' for text in texts)}")
    alt = f"Differences from base, the paper's, ours on dev and on test. {'; '.join(listed)}."
    return style.Drawing(figure, caption, alt)


def bleu_parameters(*, paper: str, score: list[str], dev_label: str, expected: list[str]) -> style.Drawing:
    """Draw Table 3's rows with another number of parameters than base, the paper's on the left."""
    rows, runs = read_variations(paper), read_scores(score)
    printed = rows[rows["parameters"] != ""].astype({"parameters": float, "bleu": float})
    printed = pd.DataFrame({"name": printed.index, "x": 1e6 * printed["parameters"], "y": printed["bleu"], "y_sd": nan})
    ours = over_seeds(runs, "experiment", {"x": "parameters", "y": "bleu"}, []).reset_index(names="name")
    panels = [("the paper: newstest2013", printed), (f"ours: {dev_label}", ours)]
    for number, (title, points) in enumerate(panels):
        base = points["name"] == "base"
        panels[number] = title, points[base | ~points["x"].isin(points.loc[base, "x"])]
    figure = _figure_of(panels, "parameters")
    for number, (axes, (_, points)) in enumerate(zip(figure.axes, panels, strict=True)):
        _draw_points(axes, points, color=COLORS[number], marker=style.MARKERS[number])
        if len(points):
            style.tick(axes, EngFormatter(sep=""))
    caption = (
        "BLEU on the dev set against the number of parameters, for base and for Table 3's rows with other numbers of "
        f"parameters. Left: the paper's numbers on newstest2013. Right: ours on {dev_label}, with the last "
        "checkpoints. Bars are standard deviations over seeds."
    )
    return _cost_drawing(figure, caption, panels, missing(expected, runs["name"]))


def bleu_flops(*, paper: str, score: list[str], label: str, expected: list[str]) -> style.Drawing:
    """Draw Table 2, a row for each task."""
    systems, runs = pd.DataFrame(read_systems(paper)), read_scores(score)
    gaps = missing(expected, runs["name"])
    panels: _Panels = []
    for task in dict.fromkeys([*runs["task"], *(name.split("/")[0] for name in gaps)]):
        named = {"model": "name", "by": "kind", f"{task}_flops": "x", f"{task}_bleu": "y"}
        printed = systems.rename(columns=named).reindex(columns=named.values()).dropna().assign(y_sd=nan)
        panels.append((f"{task.upper()}, the paper: newstest2014", printed.astype({"x": float, "y": float})))
        ours = over_seeds(runs[runs["task"] == task], "experiment", {"x": "flops", "y": "bleu"}, [])
        panels.append((f"{task.upper()}, ours: {label}", ours.reset_index(names="name").assign(kind="test set")))
    figure = _figure_of(panels, "FLOPs of training")
    looks = {
        "published": {"color": style.GREY, "marker": "s"},
        "paper": {"color": COLORS[0], "marker": "o"},
        "test set": {"color": COLORS[1], "marker": "D"},
    }
    for axes, (_, points) in zip(figure.axes, panels, strict=True):
        for kind, look in looks.items():
            _draw_points(axes, points[points["kind"] == kind], **look)
        low, high = axes.get_xlim()
        if len(points):
            axes.set_xlim(low, high * (high / low) ** 0.6)  # leaves space for names
            style.tick(axes, LogFormatterSciNotation(minor_thresholds=(inf, inf)))
    caption = (
        "BLEU against training FLOPs. Left: the paper's numbers on newstest2014, with squares for other systems. "
        f"Right: ours on {label}. The paper estimates FLOPs from time and hardware. We count them (Table 2). Bars are "
        "standard deviations over seeds."
    )
    return _cost_drawing(figure, caption, panels, gaps)


def _cost_drawing(figure: Figure, caption: str, panels: _Panels, gaps: list[str]) -> style.Drawing:
    """Add the names to the points, and assemble the texts."""
    listed = []
    for axes, (title, points) in zip(figure.axes, panels, strict=True):
        _place_labels(axes, points)
        each = (f"{point.name} {point.y:.1f} at {point.x:.2g}" for point in points.itertuples())
        listed.append(f"{title}: {', '.join(each) or 'none'}")
    return style.Drawing(figure, caption + style.not_shown(gaps), "; ".join(listed))


def _figure_of(panels: _Panels, xlabel: str) -> Figure:
    """Make a figure with axes for the panels. Panels in a row share a scale if their data overlap."""
    rows, x = len(panels) // 2, [points["x"] for _, points in panels]
    figure, grid = style.new(style.PAGE_INCHES, 3.0 * rows + 0.2, nrows=rows, ncols=2, squeeze=False)
    for (left, right), one, other in zip(grid, x[::2], x[1::2], strict=True):
        if len(one) and len(other) and one.min() <= other.max() and other.min() <= one.max():
            right.sharex(left)
            right.sharey(left)
    for axes, (title, points) in zip(figure.axes, panels, strict=True):
        axes.set(xscale="log", xlabel=xlabel, ylabel="BLEU", title=fill(title, 44))
        axes.title.set_parse_math(False)  # a label in config.yaml may contain $
        axes.margins(0.15)
        axes.grid(True)
        if points.empty:
            style.empty(axes, "no scores")
    return figure


def _draw_points(axes: Axes, points: pd.DataFrame, **look) -> None:
    axes.plot(points["x"], points["y"], ls="none", **look)
    several, bars = points.dropna(subset="y_sd"), {"fmt": "none", "capsize": 2, "elinewidth": 0.8}
    axes.errorbar(several["x"], several["y"], several["y_sd"], ecolor=look["color"], **bars)


def _place_labels(axes: Axes, points: pd.DataFrame) -> None:
    """Write the names of the points, longest first, where they overlap least. The limits must be final."""
    axes.figure.draw_without_rendering()  # computes the layout, which determines pixels
    inside, reach = axes.get_window_extent(), 3.0 * (axes.figure.dpi / 72)  # three points, the radius of a marker
    taken = [
        Bbox.from_bounds(x - reach, y - reach, 2 * reach, 2 * reach)
        for x, y in axes.transData.transform(points[["x", "y"]].to_numpy(float))
    ]

    def common(one: Bbox, other: Bbox) -> float:
        both = Bbox.intersection(one, other)
        return both.width * both.height if both else 0.0

    def moved(text: Annotation, place: tuple) -> Bbox:
        text.set(position=place[:2], ha=place[2], va=place[3])
        return text.get_window_extent()

    def badness(text: Annotation, place: tuple) -> float:
        box = moved(text, place)
        return box.width * box.height - common(box, inside) + sum(common(box, other) for other in taken)

    for point in sorted(points.itertuples(index=False), key=lambda point: -len(point.name)):
        text = axes.annotate(point.name, (point.x, point.y), (0, 0), textcoords="offset points", size=style.SMALL)
        text.set_in_layout(False)
        taken.append(moved(text, min(_PLACES, key=partial(badness, text))))
