"""Texts of cells, and differences between runs, compared with numbers computed by hand."""

import pandas as pd
import pytest

from transformer.report.tables.cells import difference_text, flops_text, p_text, paired

NAN = float("nan")


def test_texts():
    assert [difference_text(value, 1) for value in (0.44, -1.25, -0.04, NAN)] == ["+0.4", "−1.2", "−0.0", ""]
    assert [flops_text(flops) for flops in ("2.3e19", 9.96e14, 3.0, NAN)] == ["2.3·10^19", "1.0·10^15", "3.0·10^0", ""]
    assert [p_text(p) for p in (1.0, 0.0344, 0.001, 0.00002, NAN)] == ["1.000", "0.034", "0.001", "< 0.001", ""]


COLUMNS = ["seed", "name", "bleu", "draws"]


def system(name: str, *seeds: tuple[int, float, list[float]]) -> pd.DataFrame:
    """Return scores of a system: seed, BLEU, and BLEU on resampled sentences."""
    return pd.DataFrame([(seed, f"{name}/{seed}", bleu, draws) for seed, bleu, draws in seeds], columns=COLUMNS)


def test_a_shared_training_is_compared_only_on_sentences():
    """34 - 30 is 4, and the draws give 3 and 5. The other runs belong to only one of the systems."""
    own = system("run", (2, 34.0, [5.0, 7.0]), (3, 99.0, [0.0, 0.0]))
    other = system("run", (1, 27.0, [9.0, 0.0]), (2, 30.0, [2.0, 2.0]))
    difference = paired(own, other)
    assert (difference.score, difference.against, difference.value, difference.seeds) == (34, 30, 4, 1)
    assert (difference.low, difference.high) == pytest.approx((3, 5))  # two draws exclude nothing between them
    assert difference.p == 1 / 3  # both draws stray from their mean by 1, less than 4; one is added to either side
    assert difference.runs == "run/2"


def test_one_training_used_in_two_ways_is_compared_with_itself():
    """The differences 1, 2 and 3 deviate by 1: t of 2 · sqrt(3) with 2 degrees of freedom."""
    own = system("run", *((seed, score, [score] * 1000) for seed, score in ((1, 31), (2, 22), (3, 43))))
    other = system("run", *((seed, score, [score] * 1000) for seed, score in ((3, 40), (2, 20), (1, 30))))
    assert paired(own, other).p == pytest.approx(0.0742, abs=0.0001)


def test_seeds_are_pooled_as_given_or_else_of_both_systems():
    """Base's seeds are 1 apart: t of 2 / sqrt(4/3) with 2 degrees; those of another pool 2: half of that."""
    base = system("base", *((seed, 29.0 + seed, [29.0 + seed] * 1000) for seed in (0, 1, 2)))
    own = system("mine", (1, 32.0, [32.0] * 1000))
    assert paired(own, base).p == paired(own, base, base).p == pytest.approx(0.2254, abs=0.0001)
    pool = system("pool", *((seed, 2.0 * seed, [2.0 * seed] * 1000) for seed in (0, 1, 2)))
    assert paired(own, base, pool).p == pytest.approx(0.4778, abs=0.0001)
