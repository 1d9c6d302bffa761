"""Table 1 (§4): complexity per layer, sequential operations and path lengths, the paper's and ours."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import numpy as np
import pandas as pd
from msgspec import Meta

from transformer.files import InputError
from transformer.records import Amount, Positive, read_json
from transformer.report.tables.cells import Row
from transformer.report.tables.costs import COSTS, LAYER_TYPES, formula, growth
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.render import Grid, Table

TITLE = "Table 1: kinds of layers"
WORDS = ("Layer type",)

DIGITS = 9  # after the point, of a power: the last ones of a double depend on the processor, and are noise
PRINTED = ["layer", "complexity", "sequential", "path"]

EXPONENTS_NOTE = (
    "The powers that time grows with are least-squares slopes between logarithms, over the larger half of the sizes, "
    "where what does not grow weighs little. As these are few, the least and the greatest slope between two "
    "neighbouring ones follow in brackets. “theory” is the power that rules when that size alone grows, “counted” the "
    "slope of the multiply-adds over the same sizes, “timed” that of the times. What the last two differ by is not "
    "arithmetic: memory, softmax, calls."
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


class Time(TypedDict):
    """The time of a layer."""

    layer: str
    grid: Literal["n", "d"]  # which of the two grows
    n: Positive
    d: Positive
    k: Positive
    r: Positive
    multiply_adds: Positive
    seconds: Annotated[float, Meta(gt=0)]
    quartiles: Amount


class Connection(TypedDict):
    """The connections in a stack of layers."""

    layer: str
    n: Positive
    path: Positive
    sequential: Positive


class Versions(TypedDict):
    """The versions of libraries, of which the table names one."""

    torch: str


class Measured(TypedDict):
    """The content of the file that the measure stage writes."""

    times: list[Time]
    connections: list[Connection]
    hardware: str
    threads: Positive
    versions: Versions
    commit: str
    date: str


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--measured", required=True, metavar="JSON", help="what the measure stage wrote")


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    measured = read_measured(args.measured)
    frame = compared(read_layers(args.paper), measured)
    return for_readers(frame, measured), frame


def read_layers(path: str | Path) -> pd.DataFrame:
    """Return what the paper printed, by layer type.

    Raises InputError where a column is missing or a type is not known.
    """
    table = read_csv(path, PRINTED)
    for layer in table["layer"]:
        if layer not in LAYER_TYPES:
            raise InputError(f"{path}: expected layer types among {', '.join(LAYER_TYPES)}, found {layer!r}")
    return table.set_index("layer")[PRINTED[1:]]


def read_measured(path: str | Path) -> Measured:
    """Return what the measure stage wrote. Raises InputError where a key is missing or the layer types are not ours."""
    measured = read_json(path, Measured)
    check(measured["times"], list(COSTS), f"{path}, times")
    check(measured["connections"], list(LAYER_TYPES), f"{path}, connections")
    return measured


def check(rows: list[dict], layers: list[str], where: str) -> None:
    """Raise InputError, which begins with `where`, unless just `layers` have rows."""
    names = list(dict.fromkeys(row["layer"] for row in rows))
    if set(names) != set(layers):
        raise InputError(f"{where}: expected the layer types {', '.join(layers)}, found {', '.join(names) or 'none'}")


def compared(paper: pd.DataFrame, measured: Measured) -> pd.DataFrame:
    """Return a row per layer type. paper: from `read_layers`; measured: from `read_measured`.

    Columns: the paper's cells as `paper_complexity` and so on; ours, the formula of the multiply-adds, the powers of n
    and d as `n_theory`, `n_counted`, `n_timed` with its spread from `n_low` to `n_high`, and so on, and for each length
    `sequential_8`, `path_8` and so on.
    """
    printed = paper.add_prefix("paper_").reindex(list(LAYER_TYPES), fill_value="").rename_axis("layer")
    formulas = pd.Series({name: formula(COSTS.get(name, ())) for name in LAYER_TYPES}, name="multiply_adds")
    lengths = pd.DataFrame(measured["connections"]).pivot(index="layer", columns="n", values=["sequential", "path"])
    lengths.columns = [f"{value}_{n}" for value, n in lengths.columns]
    return printed.join(formulas).join(powers(measured)).join(lengths)


def powers(measured: Measured) -> pd.DataFrame:
    """Return by layer type the powers of n and d that theory, counting and timing give."""
    rows: dict[str, dict] = {}
    for (layer, grid), times in pd.DataFrame(measured["times"]).groupby(["layer", "grid"]):
        row = rows.setdefault(layer, {})
        row[f"{grid}_theory"] = growth(COSTS[layer], grid)
        row[f"{grid}_counted"], *_ = power(times[grid], times["multiply_adds"])
        row[f"{grid}_timed"], row[f"{grid}_low"], row[f"{grid}_high"] = power(times[grid], times["seconds"])
    return pd.DataFrame.from_dict(rows, orient="index")


def power(sizes: pd.Series, values: pd.Series) -> tuple[float, float, float]:
    """Return b of values ~ sizes^b, and the least and the greatest b between neighbouring sizes, to `DIGITS`.

    b is fitted by least squares between logarithms, over the larger half of the sizes: the middle one of an odd number
    counts as large. Raises InputError where these are fewer than two.
    """
    large = sizes[sizes >= np.median(sizes)].sort_values()
    if large.nunique() < 2:
        raise InputError(f"expected values at two sizes or more in the larger half, found {list(large)}")
    x, y = np.log(large), np.log(values[large.index])
    slope, _ = np.polyfit(x, y, 1)
    between = np.diff(y) / np.diff(x)
    return tuple(round(float(b), DIGITS) for b in (slope, between.min(), between.max()))


def for_readers(frame: pd.DataFrame, measured: Measured) -> Table:
    """Return the table, with notes on how and where each number was measured."""
    lengths = ", ".join(str(n) for n in sorted({row["n"] for row in measured["connections"]}))
    caption = (
        "Complexity per layer, sequential operations and maximum path length, for n positions, width d, kernel k and r "
        "neighbours. Ours are the multiply-adds of one layer, counted; the powers that its time grows with, measured; "
        f"and what waits for what, and how far it is, followed through layers at n = {lengths}."
    )
    times = pd.DataFrame(measured["times"])
    rows = Grid(WORDS, [cells(layer, row) for layer, row in frame.iterrows()])
    grid, counts = rows.split(WORDS, ("Multiply-adds, ours",))
    notes = ["The same rows: what one layer multiplies and adds.", counts]
    notes += [timing_note(times), EXPONENTS_NOTE, power_grid(frame), SEQUENTIAL_NOTE, PATH_NOTE]
    for size, of_size in times.groupby("grid", sort=False):
        fixed = "d" if size == "n" else "n"
        notes += [f"Milliseconds for {fixed} = {of_size[fixed].iloc[0]}:", time_grid(of_size, size)]
    machine = {"Hardware": measured["hardware"], "PyTorch": measured["versions"]["torch"]}
    machine |= {"Commit": measured["commit"], "Date": measured["date"]}
    notes += ["Where ours come from:", Grid(("Hardware", "Commit"), [machine])]
    return Table("table1", TITLE, caption, grid, notes)


def timing_note(times: pd.DataFrame) -> str:
    """Return what was timed, in words."""
    k, r = times["k"].iloc[0], times["r"].iloc[0]
    return (
        "Times: one layer on one sequence, without gradients: processor time on one thread, the median of repeated "
        "calls. Self-attention is equation 1 with Q = K = V = x, as the paper's complexity leaves projections out; the "
        "row with projections is §3.2.2's whole layer, with one head, which multiplies as much as h narrower ones. "
        f"Restricted self-attention multiplies no more than its r = {r} neighbours. The recurrent layer is "
        f"`torch.nn.RNN`, the convolution `torch.nn.Conv1d` with k = {k}; with contiguous kernels a single layer is "
        "the same. Additive attention has v · tanh(q + k) in the place of q · k / √d: it multiplies as often, but most "
        "of its time is tanh, which is not counted."
    )


def cells(layer: str, row: pd.Series) -> Row:
    """Return one line of the table, each of the paper's cells beside ours."""
    timed = "" if pd.isna(row["n_timed"]) else f"n^{row['n_timed']:.1f} · d^{row['d_timed']:.1f}"
    sequential, path = (", ".join(map(str, row.filter(regex=rf"^{name}_\d"))) for name in ("sequential", "path"))
    return {
        "Layer type": layer,
        "Complexity, paper": row["paper_complexity"],
        "Multiply-adds, ours": row["multiply_adds"],
        "Time, ours": timed,
        "Sequential, paper": row["paper_sequential"],
        "Sequential, ours": sequential,
        "Path, paper": row["paper_path"],
        "Path, ours": path,
    }


def power_grid(frame: pd.DataFrame) -> Grid:
    """Return the powers of each layer type that was timed."""
    rows = []
    for layer, row in frame.dropna(subset="n_timed").iterrows():
        cells: Row = {"Layer type": layer}
        for size in "nd":
            theory, counted, timed, low, high = (
                row[f"{size}_{how}"] for how in ("theory", "counted", "timed", "low", "high")
            )
            cells |= {f"{size}, theory": f"{theory:.0f}", f"{size}, counted": f"{counted:.1f}"}
            cells[f"{size}, timed"] = f"{timed:.1f} ({low:.1f} – {high:.1f})"
        rows.append(cells)
    return Grid(WORDS, rows)


def time_grid(times: pd.DataFrame, grid: str) -> Grid:
    """Return milliseconds, a row per layer type and a column per size."""
    rows = [
        {"Layer type": layer}
        | {f"{grid} = {row[grid]}": f"{1000 * row['seconds']:.3f}" for row in of_layer.to_dict("records")}
        for layer, of_layer in times.groupby("layer", sort=False)
    ]
    return Grid(WORDS, rows)
