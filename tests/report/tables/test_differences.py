"""Differences between systems, and what they say of a claim, against numbers worked by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from transformer.report.tables.cells import MARGIN, Difference, paired, verdict

COLUMNS = ["seed", "name", "bleu", "draws"]


def system(name: str, *seeds: tuple[int, float, list[float]]) -> pd.DataFrame:
    """Return scores of a system: seed, BLEU, and BLEU on resampled sentences."""
    return pd.DataFrame([(seed, f"{name}/{seed}", bleu, draws) for seed, bleu, draws in seeds], columns=COLUMNS)


def test_one_training_in_common_is_compared_on_sentences_alone():
    """34 - 30 makes 4; the draws make 3 and 5. The other runs are on one side only."""
    own = system("run", (2, 34.0, [5.0, 7.0]), (3, 99.0, [0.0, 0.0]))
    other = system("run", (1, 27.0, [9.0, 0.0]), (2, 30.0, [2.0, 2.0]))
    difference = paired(own, other)
    assert (difference.score, difference.against, difference.value, difference.seeds) == (34, 30, 4, 1)
    assert (difference.low, difference.high) == pytest.approx((3 + 0.025 * 2, 3 + 0.975 * 2))
    assert difference.p == 1 / 3  # both draws stray from their mean by 1, less than 4; one is added to either side
    assert difference.runs == ("run/2",)


def flat(name: str, *scores: float) -> pd.DataFrame:
    """Return a system of which all sentences are alike, so that only seeds differ."""
    return system(name, *((seed, score, [score] * 1000) for seed, score in enumerate(scores, start=1)))


# Two-sided critical values of Student's t, from any printed table: freedom, level, t.
CRITICAL = [(1, 0.05, 12.706), (2, 0.1, 2.920), (2, 0.05, 4.303), (4, 0.05, 2.776), (4, 0.01, 4.604), (6, 0.05, 2.447)]
BASE = {1: [], 2: [0.0, 1.0], 4: [0.0, 1.0, 2.0, 5.0], 6: [0.0, 1.0, 2.0, 3.0, 5.0, 6.0]}  # seeds that make it


@pytest.mark.parametrize(("freedom", "level", "t"), CRITICAL)
def test_without_a_choice_of_sentences_it_is_the_t_test_with_a_pooled_deviation(freedom, level, t):
    """One system has two seeds, the other one: each of the three brings squares, and seeds less one."""
    base = BASE[freedom]
    squares = 2 * 1.5**2 + sum((score - sum(base) / len(base)) ** 2 for score in base)
    value = t * (squares / freedom * (1 / 2 + 1)) ** 0.5
    own, other = flat("own", 30 + value - 1.5, 30 + value + 1.5), flat("other", 30)
    difference = paired(own, other, flat("base", *base))
    assert difference.value == pytest.approx(value)
    assert difference.p == pytest.approx(level, rel=0.08)
    assert (difference.seeds, difference.seeds_against) == (2, 1)
    if level == 0.05:
        assert (difference.low, difference.high) == pytest.approx((0, 2 * value), abs=0.05 * value)


def test_base_counts_once_where_it_is_one_of_the_two():
    own, base = flat("own", 33, 35), flat("base", 30, 31, 32)
    assert paired(own, base, base).p == paired(own, base).p != paired(own, base, flat("more", 1, 2, 3)).p


def test_both_kinds_of_chance_add_up():
    """A difference of 14: sentences stray by 8, a normal deviate of 1.75; seeds by 3.16, t of 4.4 with 3 degrees."""
    strays = np.random.default_rng(1).normal(0, 8, 1000)
    wide = [(seed, score, list(score + strays)) for seed, score in ((1, 42.0), (2, 48.0))]
    base = flat("base", 28, 34, 31)
    both = paired(system("own", *wide), base)
    sentences = paired(system("base", *wide[:1]), base[:1])
    seeds = paired(flat("own", 42, 48), base)
    assert sentences.p == pytest.approx(0.08, abs=0.02)
    assert seeds.p == pytest.approx(0.0217, abs=0.002)
    assert seeds.p < sentences.p < both.p


def test_one_training_used_in_two_ways_is_compared_with_itself():
    """Differences of 1, 2 and 3 stray by 1: t of 2 · sqrt(3) with 2 degrees."""
    own, other = flat("own", 31, 22, 43), flat("own", 30, 20, 40)
    assert paired(own, other.iloc[::-1]).p == pytest.approx(0.074, abs=0.003)
    assert paired(own[:1], other[:1]).p == pytest.approx(1 / 1001)


def test_without_two_seeds_the_interval_is_of_sentences_and_there_is_no_verdict():
    one = paired(system("own", (1, 30.0, [29.0, 31.0])), system("base", (1, 20.0, [20.0, 20.0])))
    assert math.isnan(one.p)
    assert (one.value, one.low, one.high) == pytest.approx((10, 9.05, 10.95))
    assert verdict("higher", one) == verdict("alike", one) == "no verdict"
    assert verdict("", one) == ""


def difference(value: float, width: float, p: float, score: float = 30) -> Difference:
    return Difference(score + value, score, value, value - width, value + width, p, 1, 1, ())


@pytest.mark.parametrize(
    ("expected", "value", "width", "p", "words"),
    [
        ("lower", -3, 1, 0.001, "seen here"),
        ("lower", -0.3, 0.2, 0.04, "seen here"),
        ("lower", 3, 1, 0.001, "not seen here"),
        ("lower", -0.2, 0.7, 0.4, "not seen here"),  # it is lower by 0.9 at most
        ("lower", -0.2, 0.9, 0.4, "cannot be told"),  # by 1.1 at most
        ("lower", 0.5, 2, 0.4, "cannot be told"),
        ("higher", 3, 1, 0.001, "seen here"),
        ("higher", -3, 1, 0.001, "not seen here"),
        ("higher", 0.2, 0.7, 0.4, "not seen here"),
        ("higher", 0.2, 0.9, 0.4, "cannot be told"),
        ("alike", 0.2, 0.7, 0.4, "seen here"),
        ("alike", 0.5, 0.4, 0.01, "seen here"),  # a difference, but a small one
        ("alike", -0.2, 0.9, 0.4, "cannot be told"),
        ("alike", 2, 0.5, 0.01, "not seen here"),
        ("", 2, 0.5, 0.01, ""),
    ],
)
def test_what_a_difference_says_of_a_claim(expected, value, width, p, words):
    assert MARGIN == 1
    assert verdict(expected, difference(value, width, p)) == words


@pytest.mark.parametrize(("effect", "words"), [(0.5, "cannot be told"), (1.0, "not seen here")])
def test_an_effect_as_small_as_was_published_must_lie_outside_the_interval(effect, words):
    assert verdict("higher", difference(0.3, 0.6, 0.3), effect) == words


def test_systems_that_do_not_translate_tell_nothing():
    assert verdict("higher", difference(0.9, 0.2, 0.001, score=0.5)) == "cannot be told"
    assert verdict("higher", difference(1.6, 0.2, 0.001, score=0.5)) == "seen here"  # one of them does
    assert verdict("higher", difference(0.9, 0.2, 0.001, score=0.5), least=0) == "seen here"
