"""Table 1's powers against numbers worked by hand; test_layers.py has what they are measured on."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.scored import make_table, shown

from transformer.evaluation.layers import COSTS, LAYERS
from transformer.files import InputError
from transformer.report.tables.render import Grid
from transformer.report.tables.table1 import power, read_complexities, table1

PAPER = Path(__file__).parents[3] / "workflow/paper/table1.csv"


def test_power_of_a_power_law_whose_small_sizes_are_overhead():
    sizes = pd.Series([1, 2, 4, 8, 16, 32, 64])
    values = (5 * sizes**1.5).where(sizes >= 8, 700.0)
    assert power(sizes, values) == pytest.approx((1.5, 1.5, 1.5))
    with pytest.raises(InputError, match=r"two sizes or more in the larger half, found \[4\]"):
        power(pd.Series([4]), pd.Series([1.0]))


def test_powers_are_the_same_whatever_the_last_bits():
    """Processors differ in these, and the record's table must be the same on all."""
    sizes, seconds = pd.Series([64, 128, 256, 512]), pd.Series([0.0011, 0.0013, 0.0047, 0.0181])
    for direction in (0, np.inf):
        other = pd.Series(np.nextafter(seconds, direction))
        assert not other.equals(seconds)
        assert power(sizes, other) == power(sizes, seconds)


def test_power_between_neighbours_worked_by_hand():
    """Through 2^3, 2^4 and 2^7 at 2, 4 and 8, the slopes are 1 and 3, and that of least squares is 2."""
    assert power(pd.Series([4, 1, 2]), pd.Series([128.0, 8.0, 16.0])) == pytest.approx((3, 3, 3))  # the larger half
    assert power(pd.Series([1, 1, 2, 4, 8]), pd.Series([1.0, 1.0, 8.0, 16.0, 128.0])) == pytest.approx((2, 1, 3))


@pytest.fixture
def measured() -> dict:
    """Times of 3 n^1.5 d^0.5 at every size."""
    sizes = [("n", n, 3) for n in (2, 4, 8)] + [("d", 4, d) for d in (2, 3, 5)]
    times = [
        {"layer": layer, "grid": grid, "n": n, "d": d, "k": 3, "r": 3, "multiply_adds": n * d, "quartiles": 0.1}
        | {"seconds": 3 * n**1.5 * d**0.5}
        for layer in COSTS
        for grid, n, d in sizes
    ]
    found = [{"layer": layer, "n": n, "path": n + 1, "sequential": n + 2} for layer in LAYERS for n in (2, 5, 9)]
    about = {"hardware": "a CPU", "threads": 1, "versions": {"torch": "2"}, "commit": "0", "date": "today"}
    return {"times": times, "connections": found} | about


def make(measured: dict, folder: Path):
    (folder / "layers.json").write_text(json.dumps(measured))
    return make_table(table1, "layer", paper=PAPER, measured=folder / "layers.json")


def test_the_table_has_the_papers_cells_and_the_measured_ones(measured, tmp_path):
    _, rows, table = make(measured, tmp_path)
    assert list(rows) == list(LAYERS)
    lines = {row["Layer type"]: row for row in shown(table.grid)}
    assert lines["Recurrent"] == {
        "Layer type": "Recurrent",
        "Complexity, paper": "O(n · d^2)",
        "Time, ours": "n^1.5 · d^0.5",
        "Sequential, paper": "O(n)",
        "Sequential, ours": "4, 7, 11",
        "Path, paper": "O(n)",
        "Path, ours": "3, 6, 10",
    }
    assert lines["Convolutional, contiguous kernels"]["Time, ours"] == ""


def test_exponents_are_shown_with_their_spread(measured, tmp_path):
    """Between two lengths there is one slope. At widths 5, 9 and 27, times that are 1 : 5 : 5 have two."""
    widest = next(time for time in measured["times"] if (time["layer"], time["d"]) == ("Recurrent", 5))
    measured["times"] += [widest | {"d": d, "seconds": 5 * widest["seconds"]} for d in (9, 27)]
    _, rows, table = make(measured, tmp_path)
    recurrent, slopes = rows["Recurrent"], (0, math.log(5) / math.log(9 / 5))
    assert [recurrent[f"n_{name}"] for name in ("timed", "low", "high")] == pytest.approx([1.5, 1.5, 1.5])
    assert [recurrent[f"d_{name}"] for name in ("low", "high")] == pytest.approx(slopes)
    lines = [row for note in table.notes if isinstance(note, Grid) for row in shown(note)]
    spread = f"{recurrent['d_timed']:.1f} (0.0 – {slopes[1]:.1f})"
    assert [row["d, timed"] for row in lines if "d, timed" in row and row["Layer type"] == "Recurrent"] == [spread]


def test_a_layer_type_that_is_not_measured_is_refused(tmp_path):
    (tmp_path / "paper.csv").write_text("layer,complexity,sequential,path\nSeparable,O(1),,\n")
    with pytest.raises(InputError, match=r"paper.csv: expected layer types among .*, found 'Separable'"):
        read_complexities(tmp_path / "paper.csv")
