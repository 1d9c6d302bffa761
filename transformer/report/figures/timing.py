"""Time per layer over the length of the sequence, for the layer types of Table 1."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from transformer.report.figures import COLORS
from transformer.report.figures.style import COLUMN_INCHES, MARKERS, Drawing, new
from transformer.report.tables.costs import COSTS, growth

CAPTION = (
    "Time of one layer over the length of the sequence, for Table 1's kinds of layers. Dashed, through the longest "
    "sequence, is the slope that the number of operations has; bars are the distance between quartiles of repetitions."
)


def timing(measured: dict[str, Any]) -> Drawing:
    """Draw the times in `measured`, from `table1.read_measured`."""
    figure, axes = new(COLUMN_INCHES, 0.9 * COLUMN_INCHES)
    times = pd.DataFrame(measured["times"]).query("grid == 'n'").sort_values("n", kind="stable")
    layers = dict(list(times.groupby("layer", sort=False)))
    for (layer, of_layer), color, marker in zip(layers.items(), COLORS, MARKERS, strict=False):
        draw(axes, of_layer, layer, color, marker)
    axes.set(xscale="log", yscale="log", xlabel="Sequence length n", ylabel="Milliseconds per layer")
    lengths = sorted(times["n"].unique())
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.legend(title=f"d = {times['d'].iloc[0]}", alignment="left")
    longest = {layer: 1000 * of_layer["seconds"].iloc[-1] for layer, of_layer in layers.items()}
    listing = "; ".join(f"{layer} {milliseconds:.3f} ms" for layer, milliseconds in longest.items())
    alt = f"Lines of milliseconds over sequence length, both logarithmic. At n = {lengths[-1]}: {listing}."
    return Drawing(figure, CAPTION, alt, {"n": int(lengths[-1]), "milliseconds": longest})


def draw(axes: Axes, times: pd.DataFrame, layer: str, color: str, marker: str) -> None:
    """Draw one layer type, and its slope in theory."""
    n, milliseconds = times["n"].to_numpy(), 1000 * times["seconds"].to_numpy()
    spread = 500 * times["quartiles"].to_numpy()
    axes.errorbar(n, milliseconds, spread, color=color, marker=marker, label=layer)
    theory = milliseconds[-1] * (n / n[-1]) ** growth(COSTS[layer], "n")
    axes.plot(n, theory, color=color, linestyle="--", linewidth=0.6, zorder=1, scaley=False)
