"""Style of all figures: width, fonts, colours that colour-blind readers tell apart, and files that do not change.

Importing this sets matplotlib's defaults, whatever a matplotlibrc on the machine says.
"""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.files import replacing
from transformer.report.figures import COLORS

COLUMN_INCHES = 3.5  # one column of a two-column page
PAGE_INCHES = 7.2  # both

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#767676"  # what stands behind; 4.5 : 1 against white, as text must

SMALL, MEDIUM = 7.0, 8.0  # points: ticks, legends, notes; and labels, titles

matplotlib.rcdefaults()
matplotlib.rcParams.update(
    {
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
        "font.size": MEDIUM,
        "axes.titlesize": MEDIUM,
        "axes.labelsize": MEDIUM,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.prop_cycle": matplotlib.cycler(color=COLORS),
        "lines.linewidth": 1.2,
        "lines.markersize": 4,
        "grid.linewidth": 0.4,
        "grid.color": "#DDDDDD",
        "pdf.fonttype": 42,  # fonts that can be searched and edited
        "svg.fonttype": "path",  # text as outlines: nobody needs the font, and no label grows into another
        "savefig.dpi": 300,
    }
)

DATELESS = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}


class Drawing(NamedTuple):
    """A figure with its caption, a text for people who cannot see it, and the numbers behind both."""

    figure: Figure
    caption: str
    alt: str
    data: dict


def new(width: float, height: float, **subplots: Any) -> tuple[Figure, Axes]:
    """Return an empty figure of this size in inches and its axes; `subplots` go to `Figure.subplots`, for an array."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**subplots)


def save(figure: Figure, output: str | Path) -> None:
    """Write OUTPUT.pdf, .svg and .png, each aside and renamed; the same figure gives the same bytes."""
    for kind, metadata in DATELESS.items():
        # The salt makes ids within the SVG, which would differ each time without it.
        with (
            matplotlib.rc_context({"svg.hashsalt": Path(output).name}),
            replacing(f"{output}.{kind}", "wb") as file,
        ):
            figure.savefig(file, format=kind, metadata=metadata)
