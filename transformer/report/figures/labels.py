"""Names beside points, where they cover neither each other nor a point."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from transformer.report.figures.style import SMALL

RADIUS = 3.0  # points that a marker reaches
# Where a name may stand, the better first: by how many points it is moved, and which of its corners is there.
PLACES = [(5, 0, "left", "center"), (-5, 0, "right", "center"), (0, 5, "center", "bottom"), (0, -5, "center", "top")]
PLACES += [(4, 4, "left", "bottom"), (4, -4, "left", "top"), (-4, 4, "right", "bottom"), (-4, -4, "right", "top")]


def place_labels(axes: Axes, named: pd.DataFrame, points: pd.DataFrame) -> None:
    """Write the name of each of `named` beside it, the longest first, where it covers least of others and of `points`.

    Both have columns name, x and y. The axes' limits must not change afterwards.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # the layout, which pixels depend on
    scale = figure.dpi / 72
    taken = [
        Bbox.from_bounds(x - RADIUS * scale, y - RADIUS * scale, 2 * RADIUS * scale, 2 * RADIUS * scale)
        for x, y in axes.transData.transform(points[["x", "y"]].to_numpy(float))
    ]
    inside = axes.get_window_extent()
    for point in sorted(named.itertuples(index=False), key=lambda point: -len(point.name)):
        taken.append(place_label(axes, point, taken, inside))


def place_label(axes: Axes, point, taken: list[Bbox], inside: Bbox) -> Bbox:
    """Write one name in the best of `PLACES`. Returns what it covers."""
    text = axes.annotate(point.name, (point.x, point.y), (0, 0), textcoords="offset points", size=SMALL)
    text.set_in_layout(False)

    def moved(place: tuple) -> Bbox:
        text.set(position=place[:2], ha=place[2], va=place[3])
        return text.get_window_extent()

    def badness(place: tuple) -> float:
        box = moved(place)
        out = box.width * box.height - area(box, inside)
        return out + sum(area(box, other) for other in taken)

    return moved(min(PLACES, key=badness))


def area(one: Bbox, other: Bbox) -> float:
    """Return the area of the intersection, in square pixels."""
    common = Bbox.intersection(one, other)
    return common.width * common.height if common else 0.0
