"""Table 1's powers, compared with numbers computed by hand. test_layers.py tests the measured layers."""

import numpy as np
import pandas as pd
import pytest

from transformer.report.tables.table1 import _crossing, _power
from transformer.storage.files import InputError


def test_power_of_a_power_law_whose_small_sizes_are_overhead():
    sizes = pd.Series([1, 2, 4, 8, 16, 32, 64])
    assert _power(sizes, (5 * sizes**1.5).where(sizes >= 8, 700.0)) == pytest.approx((1.5, 1.5, 1.5))
    with pytest.raises(InputError, match=r"two sizes or more in the larger half, found \[4\]"):
        _power(pd.Series([4]), pd.Series([1.0]))


def test_powers_are_the_same_whatever_the_last_bits():
    """Processors differ in the last bits, but the record's table must be equal on all of them."""
    sizes, seconds = pd.Series([64, 128, 256, 512]), pd.Series([0.0011, 0.0013, 0.0047, 0.0181])
    for direction in (0, np.inf):
        other = pd.Series(np.nextafter(seconds, direction))
        assert not other.equals(seconds)
        assert _power(sizes, other) == _power(sizes, seconds)


def test_power_between_neighbours_worked_by_hand():
    """Through 2^3, 2^4 and 2^7 at 2, 4 and 8, the slopes are 1 and 3. The least-squares slope is 2."""
    assert _power(pd.Series([4, 1, 2]), pd.Series([128.0, 8.0, 16.0])) == pytest.approx((3, 3, 3))  # the larger half
    assert _power(pd.Series([1, 1, 2, 4, 8]), pd.Series([1.0, 1.0, 8.0, 16.0, 128.0])) == pytest.approx((2, 1, 3))


def test_attention_and_recurrence_cross_between_two_sizes():
    """1 and 4 ms cross 2 ms between n = 2 and 8, at 4 on a logarithmic axis. Over d, attention stays faster."""
    times = {"n": {2: (1.0, 2.0), 8: (4.0, 2.0)}, "d": {2: (1.0, 2.0), 8: (1.0, 4.0)}}
    rows = [
        {"grid": grid, "n": 16, "d": 16, "layer": layer, "seconds": seconds} | {grid: size}
        for grid, sizes in times.items()
        for size, both in sizes.items()
        for layer, seconds in zip(("Self-Attention", "Recurrent"), both, strict=True)
    ]
    found = [_crossing(pd.DataFrame(rows), grid) for grid in "nd"]
    assert [row["Cross, timed"] for row in found] == ["n = 4", "none from 2 to 8"]
    assert [row["Cross, counted"] for row in found] == ["n = 16", "d = 16"]
