"""Time per layer over the length of the sequence, for the layer types of Table 1."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.figures import style
from transformer.layertypes import LAYER_TYPES, growth


def timing(measured: dict[str, Any]) -> Figure:
    """`measured` is what the measure stage wrote. Dashed is the slope that theory gives, through the longest sequence.

    Bars are the distance between the quartiles of a time's repetitions.
    """
    figure, axes = style.new(style.COLUMN_INCHES, 0.9 * style.COLUMN_INCHES)
    times = pd.DataFrame(measured["times"]).query("grid == 'n'")
    for (layer, of_layer), color, marker in zip(
        times.groupby("layer", sort=False), style.COLORS, style.MARKERS, strict=False
    ):
        draw(axes, of_layer.sort_values("n"), layer, color, marker)
    axes.set(xscale="log", yscale="log", xlabel="Sequence length n", ylabel="Milliseconds per layer")
    lengths = sorted(times["n"].unique())
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.legend(title=f"d = {times['d'].iloc[0]}", alignment="left")
    return figure


def draw(axes: Axes, times: pd.DataFrame, layer: str, color: str, marker: str) -> None:
    """One layer type, and its slope in theory."""
    n, milliseconds = times["n"].to_numpy(), 1000 * times["seconds"].to_numpy()
    spread = 500 * times["quartiles"].to_numpy()
    axes.errorbar(n, milliseconds, spread, color=color, marker=marker, label=layer)
    theory = milliseconds[-1] * (n / n[-1]) ** growth(LAYER_TYPES[layer].cost, "n")
    axes.plot(n, theory, color=color, linestyle="--", linewidth=0.6, zorder=1, scaley=False)
