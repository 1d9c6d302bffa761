"""Table 1 (§4): complexity per layer, sequential operations and path lengths, the paper's and ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from transformer.common.files import InputError, read_json
from transformer.scoring.scorefiles import item, read_table
from transformer.tables.cells import Row
from transformer.tables.layers import LAYER_TYPES, formula, growth
from transformer.tables.render import Table

PRINTED = ["layer", "complexity", "sequential", "path"]
TIME = ["layer", "grid", "n", "d", "k", "r", "multiply_adds", "seconds", "quartiles"]  # what must be known of a time,
CONNECTION = ["layer", "n", "path", "sequential"]  # of what a stack connects,
ORIGIN = ["hardware", "threads", "versions", "commit", "date"]  # and of both

EXPONENTS_NOTE = (
    "The powers that time grows with are least-squares slopes between logarithms, over the larger half of the sizes, "
    "where what does not grow weighs little. “theory” is the power that rules when that size alone grows, “counted” "
    "the slope of the multiply-adds over the same sizes, “timed” that of the times. What the last two differ by is "
    "not arithmetic: memory, softmax, calls."
)
SEQUENTIAL_NOTE = (
    "Sequential, ours: the longest chain of PyTorch's operators in one layer, each waiting for the one before. Some "
    "only reshape; what matters is whether the chain grows with n."
)
PATH_NOTE = (
    "Path, ours: layers are stacked until one more connects no further positions. An edge is a gradient that is not "
    "zero, in a recurrent layer that of one step. Of the shortest paths from an input position to the outputs that it "
    "reaches, the longest counts. Convolutions and recurrent layers see what precedes. Layer l = 0, 1, … of a stack "
    "of convolutions is dilated by k^l; contiguous kernels are not, for which the paper's path is §4's."
)


def read_layers(path: str | Path) -> pd.DataFrame:
    """What the paper printed, by layer type. Raises InputError where a column is missing or a type is not known."""
    table = read_table(path, PRINTED)
    for layer in table["layer"]:
        if layer not in LAYER_TYPES:
            raise InputError(f"{path}: expected layer types among {', '.join(LAYER_TYPES)}, found {layer!r}")
    return table.set_index("layer")[PRINTED[1:]]


def read_measured(path: str | Path) -> dict[str, Any]:
    """What the measure stage wrote. Raises InputError where a key is missing or the layer types are not ours."""
    measured = read_json(path)
    for key in ["times", "connections", *ORIGIN]:
        item(measured, key, str(path))
    timed = [name for name, about in LAYER_TYPES.items() if about.cost]
    check(measured["times"], TIME, timed, f"{path}, times")
    check(measured["connections"], CONNECTION, list(LAYER_TYPES), f"{path}, connections")
    return measured


def check(rows: list[dict], keys: list[str], layers: list[str], where: str) -> None:
    """Raises InputError, which begins with `where`, unless all `rows` have `keys` and just `layers` have rows."""
    read = [{key: item(row, key, where) for key in keys} for row in rows]
    found = list(dict.fromkeys(row["layer"] for row in read))
    if set(found) != set(layers):
        raise InputError(f"{where}: expected the layer types {', '.join(layers)}, found {', '.join(found) or 'none'}")


def table1(paper: pd.DataFrame, measured: dict[str, Any]) -> pd.DataFrame:
    """A row per layer type. paper: from `read_layers`; measured: from `read_measured`.

    Columns: the paper's cells as `paper_complexity` and so on; ours, the formula of the multiply-adds, the powers of n
    and d as `n_theory`, `n_counted`, `n_timed` and so on, and for each length `sequential_8`, `path_8` and so on.
    """
    printed = paper.add_prefix("paper_").reindex(list(LAYER_TYPES), fill_value="").rename_axis("layer")
    formulas = pd.Series({name: formula(about.cost) for name, about in LAYER_TYPES.items()}, name="multiply_adds")
    lengths = pd.DataFrame(measured["connections"]).pivot(index="layer", columns="n", values=["sequential", "path"])
    lengths.columns = [f"{value}_{n}" for value, n in lengths.columns]
    return printed.join(formulas).join(powers(measured)).join(lengths)


def powers(measured: dict[str, Any]) -> pd.DataFrame:
    """By layer type, the powers of n and d that theory, counting and timing give."""
    rows: dict[str, dict] = {}
    for (layer, grid), times in pd.DataFrame(measured["times"]).groupby(["layer", "grid"]):
        row = rows.setdefault(layer, {})
        row[f"{grid}_theory"] = growth(LAYER_TYPES[layer].cost, grid)
        row[f"{grid}_counted"] = power(times[grid], times["multiply_adds"])
        row[f"{grid}_timed"] = power(times[grid], times["seconds"])
    return pd.DataFrame.from_dict(rows, orient="index")


def power(sizes: pd.Series, values: pd.Series) -> float:
    """b of the values ~ sizes^b, by least squares between logarithms, over the larger half of the sizes.

    The middle one of an odd number counts as large. Raises InputError where these are fewer than two.
    """
    large = sizes >= np.median(sizes)
    if sizes[large].nunique() < 2:
        raise InputError(f"expected values at two sizes or more in the larger half, found {sorted(sizes[large])}")
    slope, _ = np.polyfit(np.log(sizes[large]), np.log(values[large]), 1)
    return float(slope)


def table1_for_readers(table: pd.DataFrame, measured: dict[str, Any]) -> Table:
    """`table`, and under it how each number was found and where."""
    lengths = ", ".join(str(n) for n in sorted({row["n"] for row in measured["connections"]}))
    caption = (
        "Complexity per layer, sequential operations and maximum path length, for n positions, width d, kernel k and r "
        "neighbours. Ours are the multiply-adds of one layer, counted; the powers that its time grows with, measured; "
        f"and what waits for what, and how far it is, followed through layers at n = {lengths}."
    )
    times = pd.DataFrame(measured["times"])
    grids = {f"Milliseconds for {other_sizes(of_grid)}:": grid for grid, of_grid in times.groupby("grid", sort=False)}
    notes = [what_note(times), EXPONENTS_NOTE, power_rows(table), SEQUENTIAL_NOTE, PATH_NOTE]
    for heading, grid in grids.items():
        notes += [heading, time_rows(times[times["grid"] == grid], grid)]
    rows = [cells(layer, row) for layer, row in table.iterrows()]
    return Table("table1", caption, rows, [*notes, "Where ours come from:", [origin(measured)]])


def what_note(times: pd.DataFrame) -> str:
    """What was timed."""
    k, r = times["k"].iloc[0], times["r"].iloc[0]
    return (
        "Timed is one layer on one sequence, without gradients: processor time on one thread, the median of repeated "
        "calls. Self-attention is equation 1 with Q = K = V = x, as the paper's complexity leaves projections out; the "
        "row with projections is §3.2.2's whole layer, with one head, which multiplies as much as h narrower ones. "
        f"Restricted self-attention multiplies no more than its r = {r} neighbours. The recurrent layer is "
        f"`torch.nn.RNN`, the convolution `torch.nn.Conv1d` with k = {k}; with contiguous kernels a single layer is "
        "the same."
    )


def cells(layer: str, row: pd.Series) -> Row:
    """One line of the table, each of the paper's cells beside ours."""
    timed = "" if pd.isna(row["n_timed"]) else f"n^{row['n_timed']:.2f} · d^{row['d_timed']:.2f}"
    return {
        "Layer type": layer,
        "Complexity, paper": row["paper_complexity"],
        "Multiply-adds, ours": row["multiply_adds"],
        "Time, ours": timed,
        "Sequential, paper": row["paper_sequential"],
        "Sequential, ours": listed(row.filter(regex=r"^sequential_\d")),
        "Path, paper": row["paper_path"],
        "Path, ours": listed(row.filter(regex=r"^path_\d")),
    }


def listed(numbers: pd.Series) -> str:
    """`8, 16, 32, 64`."""
    return ", ".join(str(number) for number in numbers)


def power_rows(table: pd.DataFrame) -> list[Row]:
    """The powers of each layer type that was timed."""
    columns = [f"{size}_{how}" for size in "nd" for how in ("theory", "counted", "timed")]
    return [
        {"Layer type": layer} | {column.replace("_", ", "): f"{row[column]:.2f}" for column in columns}
        for layer, row in table.dropna(subset=columns).iterrows()
    ]


def other_sizes(times: pd.DataFrame) -> str:
    """The size that does not grow: `d = 128`."""
    fixed = "d" if times["grid"].iloc[0] == "n" else "n"
    return f"{fixed} = {times[fixed].iloc[0]}"


def time_rows(times: pd.DataFrame, grid: str) -> list[Row]:
    """A row per layer type, a column per size."""
    return [
        {"Layer type": layer}
        | {f"{grid} = {row[grid]}": f"{1000 * row['seconds']:.3f}" for row in of_layer.to_dict("records")}
        for layer, of_layer in times.groupby("layer", sort=False)
    ]


def origin(measured: dict[str, Any]) -> Row:
    """The machine, the code and the day."""
    return {
        "Hardware": measured["hardware"],
        "PyTorch": measured["versions"]["torch"],
        "Commit": measured["commit"],
        "Date": measured["date"],
    }
