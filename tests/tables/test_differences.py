"""Differences between systems, and what they say of a claim, against numbers worked by hand."""

import pandas as pd
import pytest

from transformer.tables.differences import MARGIN, Difference, paired, verdict

COLUMNS = ["seed", "name", "bleu", "draws"]


def system(name: str, *seeds: tuple[int, float, list[float]]) -> pd.DataFrame:
    """Return scores of a system: seed, BLEU, and BLEU on resampled sentences."""
    return pd.DataFrame([(seed, f"{name}/{seed}", bleu, draws) for seed, bleu, draws in seeds], columns=COLUMNS)


def test_a_difference_is_over_the_seeds_that_both_have():
    """30 - 27 and 34 - 29 make 4; the draws' means are 4 - 1 = 3 and 6 - 1 = 5."""
    own = system("own", (1, 30.0, [1.0, 2.0]), (2, 34.0, [7.0, 10.0]), (3, 99.0, [0.0, 0.0]))
    other = system("other", (2, 29.0, [0.0, 2.0]), (1, 27.0, [2.0, 0.0]))
    difference = paired(own, other)
    assert (difference.score, difference.against, difference.value, difference.seeds) == (32, 28, 4, 2)
    assert (difference.low, difference.high) == pytest.approx((3 + 0.025 * 2, 3 + 0.975 * 2))
    assert difference.p == 1 / 3  # both draws stray from their mean by 1, less than 4; one is added to either side
    assert difference.runs == ("own/1", "own/2", "other/1", "other/2")


def test_systems_without_a_seed_in_common_have_no_difference():
    assert paired(system("own", (1, 30.0, [1.0])), system("other", (2, 30.0, [1.0]))) is None
    assert paired(system("own"), system("other", (2, 30.0, [1.0]))) is None


def difference(value: float, width: float, p: float, score: float = 30) -> Difference:
    return Difference(score + value, score, value, value - width, value + width, p, 1, ())


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
