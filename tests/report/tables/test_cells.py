"""Texts of cells, differences and verdicts against numbers worked by hand, and marks on scores whose truth is known."""

import math

import numpy as np
import pandas as pd
import pytest
from support.scored import score, write_scores

from transformer.evaluation.scores import read_scores
from transformer.evaluation.significance import LEVEL, RESAMPLES, Difference, verdict
from transformer.report.tables.cells import difference_text, flops_text, over_seeds, p_text, paired

NAN = float("nan")


def test_texts():
    assert [difference_text(value, 1) for value in (0.44, -1.25, -0.04, NAN)] == ["+0.4", "−1.2", "−0.0", ""]
    assert [flops_text(flops) for flops in ("2.3e19", 9.96e14, 3.0, NAN)] == ["2.3·10^19", "1.0·10^15", "3.0·10^0", ""]
    assert [p_text(p) for p in (1.0, 0.0344, 0.001, 0.00002, NAN)] == ["1.000", "0.034", "0.001", "< 0.001", ""]


def test_the_interval_is_of_the_mean_over_seeds(tmp_path):
    """101 draws from 0 to 100 for one seed, all 2 more for the other: means from 1 to 101."""
    first, second = ([float(draw + more) for draw in range(101)] for more in (0, 2))
    runs = read_scores(write_scores(tmp_path, score(50.0) | {"draws": first}, score(52.0, seed=2) | {"draws": second}))
    averaged = over_seeds(runs, "experiment", {"bleu": "bleu"}, []).loc["base"]
    assert (averaged["low"], averaged["high"], averaged["bleu"]) == (3.5, 98.5, 51)


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


def difference(value: float, width: float, p: float, against: float = 30) -> Difference:
    return Difference(against + value, against, value, value - width, value + width, p, 1, 1, ())


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
    assert verdict(expected, difference(value, width, p)) == words


@pytest.mark.parametrize(
    ("value", "width", "p", "against", "options", "words"),
    [
        (0.3, 0.6, 0.3, 30, {"effect": 0.5}, "cannot be told"),  # as small as was published
        (0.3, 0.6, 0.3, 30, {"effect": 1.0}, "not seen here"),
        (0.9, 0.2, 0.001, 0.5, {}, "cannot be told"),  # neither translates
        (1.6, 0.2, 0.001, 0.5, {}, "seen here"),  # one does
        (0.9, 0.2, 0.001, 0.5, {"least": 0}, "seen here"),
    ],
)
def test_small_effects_and_low_scores(value, width, p, against, options, words):
    assert verdict("higher", difference(value, width, p, against), **options) == words


SENTENCES = 1000
# Deviations of BLEU in Multi30k's record: by sentences that a system does better than another, the same by seed, and
# what seeds differ by beyond that.
OF_SYSTEM, OF_LUCK, OF_TRAINING = 0.12, 0.30, 0.2


def trained(chance: np.random.Generator, choices: np.ndarray, name: str, seeds: int, truth: float) -> pd.DataFrame:
    """Return a row per seed: a mean of sentences' scores, and the same on resampled test sets."""
    own = chance.normal(truth, OF_SYSTEM * SENTENCES**0.5, SENTENCES)
    luck = chance.normal(0, OF_LUCK * SENTENCES**0.5, (seeds, SENTENCES))
    scores = own + luck + chance.normal(0, OF_TRAINING, (seeds, 1))
    return system(name, *((seed, row.mean(), list(choices @ row)) for seed, row in enumerate(scores, start=1)))


def tables(truth: float, count: int) -> dict[str, list[Difference]]:
    """Compare rows of two seeds and of one with base, and rows of one with another, as many as the record has."""
    chance = np.random.default_rng(2)
    choices = chance.multinomial(SENTENCES, [1 / SENTENCES] * SENTENCES, RESAMPLES) / SENTENCES
    found = {"two": [], "one": [], "one against one": []}
    for _ in range(count):
        base = trained(chance, choices, "base", 5, 30)
        two, one = (
            [trained(chance, choices, f"{name}{row}", seeds, 30 + truth) for row in range(rows)]
            for name, seeds, rows in (("two", 2, 19), ("one", 1, 4))
        )
        other = trained(chance, choices, "other", 1, 30)
        pool = pd.concat([base, *two])  # a row of one seed tells nothing of the deviation
        found["two"] += [paired(row, base, pool) for row in two[:4]]
        found["one"] += [paired(row, base, pool) for row in one]
        found["one against one"] += [paired(row, other, pool) for row in one]
    return found


def share(differences: list[Difference], expected: str) -> float:
    return float(np.mean([verdict(expected, difference) == "seen here" for difference in differences]))


def test_of_equal_rows_one_in_twenty_is_marked_and_more_seeds_see_more_of_them_to_be_alike():
    """With 4,000 comparisons, as the record states. Here are 200, four to a base, so that rates stray."""
    equal = tables(truth=0, count=50)
    for differences in equal.values():
        assert np.mean([difference.p < LEVEL for difference in differences]) < 0.075
    alike = {seeds: share(differences, "alike") for seeds, differences in equal.items()}
    assert alike == pytest.approx({"two": 0.60, "one": 0.22, "one against one": 0.03}, abs=0.08)


def test_rows_that_are_one_bleu_apart_are_not_alike():
    """Nor are most of those with two seeds missed."""
    apart = tables(truth=-1, count=25)
    assert all(share(differences, "alike") <= 0.05 for differences in apart.values())
    assert share(apart["two"], "lower") > 0.6
