"""Block diagrams: boxes, arrows and sums, in inches from the lower left corner."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from transformer.report.figures.style import SMALL

LINE = 0.8  # points
ROUND = 0.05
TINTS = {  # fills that black text stands out from, each with a lightness of its own, too
    "attention": "#F6C98B",
    "feed-forward": "#A9D8F2",
    "norm": "#F5EFA0",
    "embedding": "#EBC7D9",
    "linear": "#C9CFEA",
    "softmax": "#A6DBC6",
    "step": "#F1F1F1",
    "stack": "#F4F4F4",
}
LINE_INCHES = 0.125  # from one line of SMALL text to the next


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure and its only axes, whose units are inches."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def height_of(text: str) -> float:
    """Return the height of a box that holds this text."""
    return LINE_INCHES * (text.count("\n") + 1) + 0.08


def box(axes: Axes, x: float, y: float, width: float, text: str, tint: str) -> float:
    """Draw a box that stands on y, with its middle at x. Return its top."""
    height = height_of(text)
    frame(axes, x - width / 2, y, width, height, tint)
    label(axes, x, y + height / 2, text)
    return y + height


def frame(axes: Axes, left: float, bottom: float, width: float, height: float, tint: str, layer: int = 2) -> None:
    """Draw a rounded rectangle; a higher `layer` covers a lower one."""
    shape = f"round,pad=0,rounding_size={ROUND}"
    patch = FancyBboxPatch((left, bottom), width, height, shape, fc=TINTS[tint], ec="black", lw=LINE, zorder=layer)
    axes.add_patch(patch)


def label(axes: Axes, x: float, y: float, text: str, **properties) -> None:
    axes.text(
        x, y, text, **{"ha": "center", "va": "center", "size": SMALL, "zorder": 4, "linespacing": 1.1} | properties
    )


def line(axes: Axes, *points: tuple[float, float], **properties) -> None:
    axes.plot(*zip(*points, strict=True), **{"color": "black", "lw": LINE, "zorder": 1} | properties)


def arrow(axes: Axes, *points: tuple[float, float]) -> None:
    """Draw a line through the points that ends in an arrowhead."""
    line(axes, *points[:-1])
    style = {"arrowstyle": "-|>,head_width=0.12,head_length=0.25", "color": "black", "lw": LINE}
    style |= {"shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=style, zorder=3)


def plus(axes: Axes, x: float, y: float, radius: float = 0.07) -> None:
    """Draw a circle with a cross: a sum."""
    axes.add_patch(Circle((x, y), radius, fc="white", ec="black", lw=LINE, zorder=3))
    line(axes, (x - radius, y), (x + radius, y), zorder=4)
    line(axes, (x, y - radius), (x, y + radius), zorder=4)
