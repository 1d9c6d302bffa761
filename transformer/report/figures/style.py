"""The style of all figures, independent of any matplotlibrc, and reproducible files."""

import logging
import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import StringIO
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, findSystemFonts, fontManager, get_font
from matplotlib.text import Text
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullLocator

from transformer.report.figures import COLORS
from transformer.storage.files import replacing
from transformer.storage.records import Description, write_json

logger = logging.getLogger(__name__)
COLUMN_INCHES = 3.5  # one column of a two-column page
PAGE_INCHES = 7.2  # both columns
LINE_INCHES = 0.125  # line height of SMALL text

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#767676"  # for context; WCAG requires a contrast of 4.5 : 1 for text

# In an SVG file. Coordinates have up to six decimals. The offset keeps rounding stable where these end in 5000.
_ID, _REFERENCE = re.compile(r'\s+id="([^"]+)"'), re.compile(r'(\bid="|#)([^")]+)(?=[")])')
_COORDINATE, _TIE = re.compile(r"(?<![\w.#-])-?\d+\.\d{4,6}(?![\d.])"), 3.1e-6

SMALL, MEDIUM = 7.0, 8.0  # points; SMALL for ticks, legends and notes, MEDIUM for labels and titles

_FONT = "DejaVu Sans"  # part of matplotlib, so equal on all machines
_BOXES = "Last Resort High-Efficiency"  # has a box for every letter

matplotlib.rcdefaults()
matplotlib.rcParams.update(
    dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), MEDIUM)
    | dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL)
    | {
        "font.family": _FONT,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.prop_cycle": matplotlib.cycler(color=COLORS),
        "lines.linewidth": 1.2,
        "lines.markersize": 4,
        "grid.linewidth": 0.4,
        "grid.color": "#DDDDDD",
        "pdf.fonttype": 42,  # searchable and editable fonts
        "svg.fonttype": "path",  # text as outlines, which need no font and keep the label sizes
        "savefig.dpi": 300,
    }
)


class Drawing(NamedTuple):
    """A figure with its caption and its alternative text."""

    figure: Figure
    caption: str
    alt: str


def new(width: float, height: float, **subplots: Any) -> tuple[Figure, Axes]:
    """Make an empty figure with its size in inches and its axes. `subplots` are options of `Figure.subplots`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**subplots)


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def label(axes: Axes, x: float, y: float, text: str, **properties) -> None:
    usual = {"ha": "center", "va": "center", "size": SMALL, "zorder": 4, "linespacing": 1.1}
    axes.text(x, y, text, **usual | properties)


def tick(axes: Axes, formatter: Formatter) -> None:
    """Set ticks of a logarithmic horizontal axis without overlapping labels. The limits must be final."""
    low, high = axes.get_xlim()
    decades = log10(high / low)
    between = (1,) if decades > 1.3 else (1, 2, 5) if decades > 0.8 else range(1, 10)
    locator = LogLocator(subs=between) if decades > 0.5 else MaxNLocator(3)
    axes.xaxis.set(major_locator=locator, major_formatter=formatter, minor_locator=NullLocator())


def empty(axes: Axes, text: str) -> None:
    """Replace ticks and data by a text."""
    axes.set(xticks=[], yticks=[])
    axes.minorticks_off()
    axes.text(0.5, 0.5, text, ha="center", transform=axes.transAxes)


def legend_below(figure: Figure, columns: int, order: Sequence[str] = ()) -> None:
    """Add a common legend for all axes. The labels in `order` are first."""
    entries = {}
    for axes in figure.axes:
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    labels = sorted(entries, key=lambda text: [*order, text].index(text))
    figure.legend([entries[text] for text in labels], labels, loc="outside lower center", ncols=columns)


def not_shown(gaps: Iterable[str], why: str = "Missing") -> str:
    """Return the end of a caption that lists the missing runs."""
    names = ", ".join(gaps)
    return f" {why}, therefore not shown: {names}." if names else ""


def _write_in_other_fonts(figure: Figure) -> list[str]:
    """Set fallback fonts for texts with letters that _FONT lacks. Return the letters that no font has."""
    written = filter(str.isprintable, set("".join(text.get_text() for text in figure.findobj(Text))))
    missing, fonts = set(map(ord, written)) - get_font(findfont(_FONT)).get_charmap().keys(), [_FONT]
    known = {font.fname for font in fontManager.ttflist}
    for path in set(findSystemFonts()) - known if missing else ():
        with suppress(RuntimeError, OSError):  # skips damaged fonts
            fontManager.addfont(path)  # adds fonts that are newer than matplotlib's cached list
    # Some fonts, such as WenQuanYi's, have no regular weight.
    for font in sorted(fontManager.ttflist, key=lambda font: (abs(font.weight - 400), font.name)) if missing else ():
        plain = font.style == "normal" and font.name != _BOXES
        if plain and (found := missing & get_font(font.fname).get_charmap().keys()):
            missing -= found
            fonts.append(font.name)
    for text in figure.findobj(Text) if fonts[1:] else ():
        text.set_family(fonts)
    return list(map(chr, sorted(missing)))


def save_drawing(drawing: Drawing, title: str, output: str | Path) -> None:
    """Write OUTPUT.pdf, .svg and .png, and the texts as OUTPUT.json."""
    save_pictures(drawing.figure, output)
    about = Description(title=title, caption=drawing.caption, alt=drawing.alt, inches=drawing.figure.get_figwidth())
    write_json(f"{output}.json", about, indent=1, ensure_ascii=False)


def save_pictures(figure: Figure, output: str | Path) -> None:
    """Write OUTPUT.pdf, .svg and .png. Equal figures give equal bytes."""
    if missing := _write_in_other_fonts(figure):
        found = " ".join(missing[:10])
        logger.warning("%s: no font here has %s: install one, such as Noto (fonts-noto-core, -cjk)", output, found)
    # The order of formats is fixed, because each drawing changes the layout slightly.
    for kind, metadata in {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}.items():
        with replacing(f"{output}.{kind}", "wb") as file, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `_choose_fonts` has already warned
            if kind == "svg":
                figure.savefig(drawn := StringIO(), format=kind, metadata=metadata)
                file.write(_steady_svg(drawn.getvalue()).encode())
            else:
                figure.savefig(file, format=kind, metadata=metadata)


def _steady_svg(drawn: str) -> str:
    """Remove matplotlib's unused ids, replace the others, which are partly random, by numbers, and round coordinates.

    The last digits of coordinates depend on the processor. Rounding makes files equal on all processors.
    """
    used = {name for sign, name in _REFERENCE.findall(drawn) if sign == "#"}
    drawn = _ID.sub(lambda found: found[0] if found[1] in used else "", drawn)
    names: dict[str, str] = {}
    for name in _ID.findall(drawn):
        names.setdefault(name, f"i{len(names)}")
    drawn = _REFERENCE.sub(lambda found: f"{found[1]}{names.get(found[2], found[2])}", drawn)
    return _COORDINATE.sub(lambda found: f"{round(float(found[0]) + _TIE, 3):.3f}".rstrip("0").rstrip("."), drawn)
