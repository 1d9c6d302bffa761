"""Resampling compared with a second bootstrap; differences and verdicts by hand; scores with known truth."""

import math
import random
from statistics import mean, stdev

import numpy as np
import pytest
import sacrebleu

from transformer.evaluation.significance import (
    LEVEL,
    RESAMPLES,
    Difference,
    System,
    _central_t,
    _p_value,
    bleu_draws,
    compare_systems,
    compare_uses,
    f1_draws,
    holm,
    verdict,
)

SOURCE = random.Random(1)
REFERENCES = [" ".join(SOURCE.choices("abcdefghij", k=8)) for _ in range(40)]


def with_errors(numbers, error: str = "x") -> list[str]:
    """Return the references, with a wrong word in the middle of the sentences of these numbers."""
    return [f"{line[:6]}{error}{line[7:]}" if n in numbers else line for n, line in enumerate(REFERENCES)]


def compared(base: list[str], system: list[str]) -> float:
    uses = [(np.array([bleu(side, REFERENCES)]), np.array([bleu_draws(side, REFERENCES)])) for side in (system, base)]
    return compare_uses(*uses)[2]


def bleu(hypotheses: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", smooth_method="none", force=True).score


def resampled(base: list[str], system: list[str], draws: int) -> float:
    """Return (k + 1) / (n + 1). k of n draws differ from their mean by no less than the real difference."""

    def difference(numbers) -> float:
        sides = [[lines[n] for n in numbers] for lines in (base, system, REFERENCES)]
        return bleu(sides[0], sides[2]) - bleu(sides[1], sides[2])

    source, every = random.Random(2), range(len(REFERENCES))
    differences = [difference(source.choices(every, k=len(every))) for _ in range(draws)]
    mean = sum(differences) / draws
    return (sum(abs(one - mean) >= abs(difference(every)) for one in differences) + 1) / (draws + 1)


@pytest.mark.parametrize("more", [2, 8], ids="{} more errors".format)
def test_a_second_bootstrap_agrees(more):
    base, system = with_errors(range(0, 10)), with_errors(range(10, 20 + more))
    assert compared(base, system) == pytest.approx(resampled(base, system, 300), abs=0.08)


def test_p_by_hand():
    """Of -2, -1, 0 and 3, only -2 and 3 stray by 2 or more."""
    assert _p_value(2.0, np.array([-2.0, -1.0, 0.0, 3.0]), 0, 1) == 3 / 5


@pytest.mark.parametrize("freedom", [3, 8, 23])
def test_students_t_is_that_of_its_density(freedom):
    """Summed over angles, of which t is sqrt(freedom) times the tangent: the density is then a power of the cosine."""
    angles = (np.arange(200_000) + 0.5) / 200_000 * math.pi / 2
    weights = np.cos(angles) ** (freedom - 1)
    for t in (0.3, 2.0, 5.0):
        expected = weights[math.sqrt(freedom) * np.tan(angles) < t].sum() / weights.sum()
        assert _central_t(np.array([t, -t]), freedom) == pytest.approx([expected, -expected], abs=2e-5)


def test_f1_on_resampled_test_sets():
    assert set(f1_draws([(3, 3, 3)] * 20)) == {100}
    assert set(f1_draws([(0, 0, 0)] * 20)) == {0}
    found = f1_draws([(2, 4, 4)] * 10 + [(4, 4, 4)] * 10)  # F1 75, and 20 sentences per draw with F1 50 or 100
    assert mean(found) == pytest.approx(75, abs=0.5)
    assert stdev(found) == pytest.approx(25 / 20**0.5, rel=0.1)


def test_holm_by_hand():
    """0.01 · 4, 0.02 · 3, 0.03 · 2, 0.04 · 1: the last product is smaller than the one before it."""
    nan = float("nan")
    found = holm([0.03, nan, 0.01, 0.04, 0.02])
    assert found == pytest.approx([0.06, nan, 0.04, 0.06, 0.06], nan_ok=True)
    assert holm([0.6, 0.5]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
    assert np.isnan(holm([nan, nan])).all()


def flat(*scores: float) -> System:
    """Return a system with identical sentences. Only its seeds differ."""
    return np.array(scores, dtype=float), np.repeat(np.array(scores, dtype=float)[:, None], RESAMPLES, axis=1)


# Two-sided critical values of Student's t from a printed table: degrees of freedom, level, t.
CRITICAL = [(1, 0.05, 12.706), (2, 0.1, 2.920), (2, 0.05, 4.303), (4, 0.05, 2.776), (4, 0.01, 4.604), (6, 0.05, 2.447)]
BASE = {1: [], 2: [0.0, 1.0], 4: [0.0, 1.0, 2.0, 5.0], 6: [0.0, 1.0, 2.0, 3.0, 5.0, 6.0]}  # seeds by freedom


@pytest.mark.parametrize(("freedom", "level", "t"), CRITICAL)
def test_without_a_choice_of_sentences_it_is_the_t_test_with_a_pooled_deviation(freedom, level, t):
    """One system has two seeds, the other has one. Each of the three systems adds squares, and its seeds less one."""
    base = BASE[freedom]
    squares = 2 * 1.5**2 + sum((score - sum(base) / len(base)) ** 2 for score in base)
    value = t * (squares / freedom * (1 / 2 + 1)) ** 0.5
    own, other = flat(30 + value - 1.5, 30 + value + 1.5), flat(30)
    low, high, p = compare_systems(own, other, [own, other, *([flat(*base)] if base else [])])
    assert p == pytest.approx(level, rel=0.01)
    if level == 0.05:
        assert (low, high) == pytest.approx((0, 2 * value), abs=0.001 * value)


def test_both_kinds_of_chance_add_up():
    """A difference of 14: sentences deviate by 8, a normal deviate of 1.75; seeds by 3.16, t of 4.4 with 3 degrees."""
    strays, base = np.random.default_rng(1).normal(0, 8, RESAMPLES), flat(28, 34, 31)
    wide = np.array([42.0, 48.0]), np.add.outer([42.0, 48.0], strays)
    _, _, both = compare_systems(wide, base, [wide, base])
    _, _, seeds = compare_systems(flat(42, 48), base, [flat(42, 48), base])
    sentences = _p_value(14, strays - strays.mean(), 0, 1)
    assert sentences == pytest.approx(0.08, abs=0.02)
    assert seeds == pytest.approx(0.0214, abs=0.0001)
    assert seeds < sentences < both


def test_seeds_vary_at_least_by_the_sentences_that_they_are_scored_on():
    """Two seeds whose scores happen to be equal, on sentences that each does better by a deviation of 3 and 4."""
    chance = np.random.default_rng(1)
    own, other = ((np.array([score] * 2), chance.normal(score, 3.5, (2, RESAMPLES))) for score in (40.0, 30.0))
    low, high, p = compare_systems(own, other)
    assert p == pytest.approx(0.104, abs=0.01)  # t of 10 / 3.5 with 2 degrees
    assert high - 10 == 10 - low == pytest.approx(4.303 * 3.5, rel=0.05)


def test_a_system_that_strays_twice_as_far_as_the_pool_keeps_its_own_variance():
    """Welch's test, with Satterthwaite's degrees: of 18 / 2 with 1 and 1 / 2 with 9, that is 1.1, rounded down."""
    pool, far = [flat(29, 29 + 2**0.5)] * 9, flat(42, 48)
    assert compare_systems(far, pool[0], pool)[2] == pytest.approx(
        2 / math.pi * math.atan(9.5**0.5 / 15.293), abs=0.001
    )
    assert compare_systems(flat(43.7, 46.3), pool[0], pool)[2] < 0.0001


@pytest.mark.parametrize("far", [0.5, 0.999, 1.001, 2])
def test_the_interval_excludes_0_exactly_where_p_is_below_5_percent(far):
    strays = np.random.default_rng(2).normal(0, 1, (1, RESAMPLES))
    own, pool = (np.array([30.0]), 30 + strays), [flat(29, 31, 30)]
    width = -compare_systems(own, flat(30), pool)[0]
    low, high, p = compare_systems((own[0] + far * width, own[1]), flat(30), pool)
    assert (p < LEVEL) == (not low <= 0 <= high) == (far > 1)


def test_without_two_seeds_the_interval_is_of_sentences_and_there_is_no_verdict():
    one, other = (np.array([30.0]), np.array([[29.0, 31.0]])), (np.array([20.0]), np.array([[20.0, 20.0]]))
    low, high, p = compare_systems(one, other, [one, other])
    assert math.isnan(p)
    assert (low, high) == pytest.approx((9.05, 10.95))
    found = Difference(30, 20, 10, low, high, p, math.nan, 1, 1, "")
    assert [verdict(expected, found) for expected in ("higher", "alike", "")] == ["not testable (one seed)"] * 2 + [""]


def difference(value: float, width: float, p: float, against: float = 30) -> Difference:
    return Difference(against + value, against, value, value - width, value + width, p, math.nan, 1, 1, "")


@pytest.mark.parametrize(
    ("expected", "value", "width", "p", "words"),
    [
        ("lower", -3, 1, 0.001, "replicated"),
        ("lower", -0.3, 0.2, 0.04, "replicated"),
        ("lower", 3, 1, 0.001, "reversed"),
        ("lower", -0.2, 0.9, 0.4, "inconclusive"),  # no size was published
        ("higher", 3, 1, 0.001, "replicated"),
        ("alike", 0.2, 0.7, 0.4, "replicated"),
        ("alike", 0.5, 0.4, 0.01, "replicated"),  # a difference, but a small one
        ("alike", -0.2, 0.9, 0.4, "inconclusive"),
        ("alike", 2, 0.5, 0.01, "not replicated"),
        ("", 2, 0.5, 0.01, ""),
    ],
)
def test_verdicts_on_a_claim(expected, value, width, p, words):
    assert verdict(expected, difference(value, width, p)) == words


@pytest.mark.parametrize(
    ("value", "width", "p", "against", "options", "words"),
    [
        (0.3, 0.6, 0.3, 30, {"effect": 0.8}, "inconclusive"),  # 0.9 at most: the published size is possible
        (0.3, 0.6, 0.3, 30, {"effect": 1.0}, "not replicated"),
        (0.9, 0.2, 0.001, 0.5, {}, "inconclusive"),  # neither translates
        (1.6, 0.2, 0.001, 0.5, {}, "replicated"),  # one does
        (0.9, 0.2, 0.001, 0.5, {"least": 0}, "replicated"),
    ],
)
def test_small_effects_and_low_scores(value, width, p, against, options, words):
    assert verdict("higher", difference(value, width, p, against), **options) == words


SENTENCES = 1000
# Deviations of BLEU in Multi30k's record: between systems by sentences, the same between seeds, and
# the remaining deviation between seeds.
OF_SYSTEM, OF_LUCK, OF_TRAINING = 0.12, 0.30, 0.2


def trained(chance: np.random.Generator, choices: np.ndarray, seeds: int, truth: float) -> System:
    """Return scores that are means of sentences' scores, and the scores on resampled test sets."""
    own = chance.normal(truth, OF_SYSTEM * SENTENCES**0.5, SENTENCES)
    luck = chance.normal(0, OF_LUCK * SENTENCES**0.5, (seeds, SENTENCES))
    scores = own + luck + chance.normal(0, OF_TRAINING, (seeds, 1))
    return scores.mean(axis=1), scores @ choices.T


def tables(truth: float, count: int) -> dict[str, list[Difference]]:
    """Compare rows of two seeds and of one with base, and pairs of rows with one seed, in the record's numbers."""
    chance, found = np.random.default_rng(2), {"two": [], "one": [], "one against one": []}
    choices = chance.multinomial(SENTENCES, [1 / SENTENCES] * SENTENCES, RESAMPLES) / SENTENCES
    for _ in range(count):
        base = trained(chance, choices, 5, 30)
        two, one = ([trained(chance, choices, n, 30 + truth) for _ in range(rows)] for n, rows in ((2, 19), (1, 4)))
        for name, rows, other in (
            ("two", two[:4], base),
            ("one", one, base),
            ("one against one", one, trained(chance, choices, 1, 30)),
        ):
            for row in rows:  # a row with one seed gives no deviation
                value = row[0].mean() - other[0].mean()
                tested = compare_systems(row, other, [base, *two])
                found[name].append(Difference(30 + value, 30, value, *tested, math.nan, len(row[0]), len(other[0]), ""))
    return found


def share(differences: list[Difference], expected: str) -> float:
    return float(np.mean([verdict(expected, difference) == "replicated" for difference in differences]))


def test_one_in_twenty_equal_rows_is_marked_and_more_seeds_recognise_more_equal_rows():
    """The record reports 4,000 comparisons. Here are 100, four per base, so the rates vary."""
    equal = tables(truth=0, count=25)
    for differences in equal.values():
        assert np.mean([difference.p < LEVEL for difference in differences]) < 0.075
    alike = {seeds: share(differences, "alike") for seeds, differences in equal.items()}
    assert alike == pytest.approx({"two": 0.60, "one": 0.22, "one against one": 0.03}, abs=0.08)
