"""Table 1 (§4): the paper's and our complexity per layer, sequential operations and path lengths."""

import numpy as np
import pandas as pd

from transformer.model.cost import COSTS, growth
from transformer.report.tables.cells import captioned, note, read_printed
from transformer.report.tables.render import Column, Grid, Note, Table, lay_out
from transformer.storage.files import InputError
from transformer.storage.records import Measured, Recalled, read_summed


def table1(*, paper: str, measured: str, recall: list[str]) -> tuple[Table, pd.DataFrame]:
    """Make the table. measured: layers.json. recall: recall.json, or nothing."""
    layers = read_summed(measured, Measured)
    frame = _compare_layers(read_printed(paper).set_index("layer"), layers)
    rows, times = frame.reset_index(), pd.DataFrame(layers["times"])
    notes: list[Note] = [note("table1", "counts"), lay_out(rows, _LAYER_COLUMNS, detail=True)]
    notes += [note("table1", "timing", k=times["k"].iloc[0], r=times["r"].iloc[0]), note("table1", "exponents")]
    notes.append(lay_out(rows.dropna(subset="n_timed"), _POWER_COLUMNS))
    notes += [note("table1", name) for name in ("sequential", "path", "crossing")]
    notes.append(Grid(("Fixed",), [_crossing(times, grid) for grid in ("n", "d")]))
    for size, of_size in times.groupby("grid", sort=False):
        fixed = "d" if size == "n" else "n"
        grid = [
            {"Layer type": layer}
            | {f"{size} = {n}": f"{1000 * s:.3f}" for n, s in zip(same[size], same["seconds"], strict=True)}
            for layer, same in of_size.groupby("layer", sort=False)
        ]
        notes += [f"Milliseconds for {fixed} = {of_size[fixed].iloc[0]}:", Grid(("Layer type",), grid)]
    for found in (read_summed(path, Recalled) for path in recall):
        rows_of = [
            {"Encoder": name} | {f"n = {n}": f"{100 * mean:.0f} %" for n, mean in frame.mean().items()}
            for name, frame in accuracies(found).items()
        ]
        notes += [note("table1", "recall", chance=100 * found["chance"]), Grid(("Encoder",), rows_of)]
    machine = {"Hardware": layers["hardware"], "PyTorch": layers["versions"]["torch"]}
    machine |= {"Commit": layers["commit"], "Date": layers["date"]}
    notes += ["Where ours come from:", Grid(("Hardware", "Commit"), [machine])]
    lengths = ", ".join(map(str, sorted({row["n"] for row in layers["connections"]})))
    return captioned("table1", lay_out(rows, _LAYER_COLUMNS), notes, lengths=lengths), frame


def accuracies(recalled: Recalled) -> dict[str, pd.DataFrame]:
    """Return accuracies by architecture, with a row per seed and a column per distance."""
    names = {"transformer": "Attention", "lstm": "Recurrence", "conv": "Convolution"}
    rows: dict[str, list[dict[int, float]]] = {}
    for model in recalled["models"]:
        accuracy = {int(distance): share for distance, share in model["accuracy"].items()}
        rows.setdefault(names.get(model["architecture"], model["architecture"]), []).append(accuracy)
    return {name: pd.DataFrame(of_seeds) for name, of_seeds in rows.items()}


def _lengths_of(name: str) -> Column:
    return Column(
        f"{name.capitalize()}, ours",
        lambda row: ", ".join(str(row[key]) for key in row if key.startswith(f"{name}_") and pd.notna(row[key])) or "–",
    )


_LAYER_COLUMNS = [
    Column("Layer type", "layer", key=True),
    Column("Complexity, paper", "paper_complexity"),
    Column("Multiply-adds, ours", "multiply_adds", detail=True),
    Column(
        "Time, ours", lambda row: "–" if pd.isna(row["n_timed"]) else "n^{n_timed:.1f} · d^{d_timed:.1f}".format(**row)
    ),
    Column("Sequential, paper", "paper_sequential"),
    _lengths_of("sequential"),
    Column("Path, paper", "paper_path"),
    _lengths_of("path"),
]
_POWER_COLUMNS = [
    Column("Layer type", "layer", key=True),
    Column("n, theory", "n_theory", format="{:.0f}"),
    Column("n, counted", "n_counted", format="{:.1f}"),
    Column("n, timed", "n_timed", format="{:.1f} ({n_low:.1f} – {n_high:.1f})"),
    Column("d, theory", "d_theory", format="{:.0f}"),
    Column("d, counted", "d_counted", format="{:.1f}"),
    Column("d, timed", "d_timed", format="{:.1f} ({d_low:.1f} – {d_high:.1f})"),
]


def _crossing(times: pd.DataFrame, grid: str) -> dict[str, str]:
    """Describe the sizes `grid` at which self-attention and recurrence have equal multiplications and equal times.

    Equal times are interpolated linearly between logarithms of measured sizes, if these include the crossing.
    """
    fixed = "d" if grid == "n" else "n"
    seconds = times[times["grid"] == grid].pivot(index=[fixed, grid], columns="layer", values="seconds").sort_index()
    lead = np.log(seconds["Self-Attention"] / seconds["Recurrent"]).to_numpy()
    (at, *_), sizes = (list(seconds.index.get_level_values(name)) for name in (fixed, grid))
    timed = f"none from {sizes[0]} to {sizes[-1]}"
    for place in np.flatnonzero(lead[:-1] * lead[1:] <= 0)[:1]:
        share = lead[place] / (lead[place] - lead[place + 1])
        timed = f"{grid} = {sizes[place] * (sizes[place + 1] / sizes[place]) ** share:,.0f}"
    return {"Fixed": f"{fixed} = {at}", "Cross, counted": f"{grid} = {at}", "Cross, timed": timed}


def _compare_layers(paper: pd.DataFrame, measured: Measured) -> pd.DataFrame:
    """Join the paper's and our cells, a row per layer type: powers (`n_timed`) and lengths for each n (`path_8`)."""
    columns, connections = ["complexity", "sequential", "path"], pd.DataFrame(measured["connections"])
    layers = list(dict.fromkeys([*paper.index, *connections["layer"]]))  # older measurements have fewer types
    printed = paper[columns].add_prefix("paper_").reindex(layers, fill_value="")
    formulas = {layer: " + ".join(map(str, cost)) for layer, cost in COSTS.items()}
    formulas = pd.Series(formulas, name="multiply_adds").reindex(printed.index, fill_value="")
    lengths = connections.pivot(index="layer", columns="n", values=["sequential", "path"])
    lengths.columns = [f"{value}_{n}" for value, n in lengths.columns]
    lengths = lengths.reindex(printed.index).astype("Int64")
    rows: dict[str, dict] = {}
    for (layer, grid), times in pd.DataFrame(measured["times"]).groupby(["layer", "grid"]):
        row = rows.setdefault(layer, {})
        row[f"{grid}_theory"] = growth(COSTS[layer], grid)
        row[f"{grid}_counted"], *_ = _power(times[grid], times["multiply_adds"])
        row[f"{grid}_timed"], row[f"{grid}_low"], row[f"{grid}_high"] = _power(times[grid], times["seconds"])
    return printed.rename_axis("layer").join(formulas).join(pd.DataFrame.from_dict(rows, orient="index")).join(lengths)


def _power(sizes: pd.Series, values: pd.Series) -> tuple[float, float, float]:
    """Fit b of values ~ sizes^b over the larger half of the sizes, with minimum and maximum between neighbours.

    The larger half includes the middle of an odd number of sizes. Raises InputError if it has fewer than two.
    """
    large = sizes[sizes >= np.median(sizes)].sort_values()
    if large.nunique() < 2:
        raise InputError(f"expected values at two sizes or more in the larger half, found {list(large)}")
    x, y = np.log(large), np.log(values[large.index])
    slope, _ = np.polyfit(x, y, 1)
    between = np.diff(y) / np.diff(x)
    # The last digits depend on the processor.
    return tuple(round(float(b), 9) for b in (slope, between.min(), between.max()))
