"""Resampling against a bootstrap written again with Python's own random numbers, and cases with known answers."""

import random
from statistics import mean, stdev

import numpy as np
import pytest
import sacrebleu

from transformer.evaluation.significance import RESAMPLES, add_seed_variance, bleu_draws, f1_draws, holm, p_value

SOURCE = random.Random(1)
REFERENCES = [" ".join(SOURCE.choices("abcdefghij", k=8)) for _ in range(40)]


def with_errors(numbers, error: str = "x") -> list[str]:
    """Return the references, with a wrong word in the middle of the sentences of these numbers."""
    return [f"{line[:6]}{error}{line[7:]}" if n in numbers else line for n, line in enumerate(REFERENCES)]


def compared(base: list[str], system: list[str]) -> float:
    """Return `p_value` of the difference of two systems on REFERENCES."""
    one, two = (bleu(side, REFERENCES) for side in (base, system))
    return p_value(two - one, np.subtract(bleu_draws(system, REFERENCES), bleu_draws(base, REFERENCES)))


def bleu(hypotheses: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", smooth_method="none", force=True).score


def resampled(base: list[str], system: list[str], draws: int) -> float:
    """Return (k + 1) / (n + 1): of n draws, k differ from the draws' mean by no less than the real difference does."""

    def difference(numbers) -> float:
        sides = [[lines[n] for n in numbers] for lines in (base, system, REFERENCES)]
        return bleu(sides[0], sides[2]) - bleu(sides[1], sides[2])

    source, every = random.Random(2), range(len(REFERENCES))
    differences = [difference(source.choices(every, k=len(every))) for _ in range(draws)]
    mean = sum(differences) / draws
    return (sum(abs(one - mean) >= abs(difference(every)) for one in differences) + 1) / (draws + 1)


@pytest.mark.parametrize("more", [2, 8], ids="{} more errors".format)
def test_a_bootstrap_written_again_agrees(more):
    base, system = with_errors(range(0, 10)), with_errors(range(10, 20 + more))
    assert compared(base, system) == pytest.approx(resampled(base, system, 300), abs=0.08)


def test_p_by_hand():
    """Of 1, 2, 3 and 6, whose mean is 3, only 1 and 6 stray by 2 or more."""
    assert p_value(2.0, np.array([1.0, 2.0, 3.0, 6.0])) == p_value(-2.0, np.array([1.0, 2.0, 3.0, 6.0])) == 3 / 5


def test_bleu_on_resampled_test_sets():
    """Mean and deviation of the draws against sacreBLEU's on sentences drawn by other random numbers."""
    system, source = with_errors(range(0, 20)), random.Random(3)
    drawn = [source.choices(range(len(REFERENCES)), k=len(REFERENCES)) for _ in range(400)]
    sides = [[[lines[n] for n in numbers] for lines in (system, REFERENCES)] for numbers in drawn]
    others = [
        sacrebleu.corpus_bleu(one, [two], tokenize="none", smooth_method="none", force=True) for one, two in sides
    ]
    found = bleu_draws(system, REFERENCES)
    assert len(found) == RESAMPLES
    assert mean(found) == pytest.approx(mean(other.score for other in others), abs=0.5)
    assert stdev(found) == pytest.approx(stdev(other.score for other in others), rel=0.15)


def test_f1_on_resampled_test_sets():
    assert set(f1_draws([(3, 3, 3)] * 20)) == {100}
    assert set(f1_draws([(0, 0, 0)] * 20)) == {0}
    found = f1_draws([(2, 4, 4)] * 10 + [(4, 4, 4)] * 10)  # F1 75, by 20 draws of 50 or 100
    assert mean(found) == pytest.approx(75, abs=0.5)
    assert stdev(found) == pytest.approx(25 / 20**0.5, rel=0.1)


def test_the_chance_in_training_moves_no_difference_and_is_the_same_whenever_it_is_drawn():
    """Not even with one degree of freedom, where the mean of draws of t is anything."""
    sentences = np.linspace(0, 1, RESAMPLES)
    systems = [([30.0, 40.0], np.zeros((2, RESAMPLES))), ([20.0], np.zeros((1, RESAMPLES)))]
    drawn = add_seed_variance(sentences, (1, 1), systems)
    assert drawn.mean() == pytest.approx(0.5)
    assert np.array_equal(drawn, add_seed_variance(sentences, (1, 1), systems))


def test_holm_by_hand():
    """0.01 · 4, 0.02 · 3, 0.03 · 2, 0.04 · 1: the last is less than the one before it."""
    nan = float("nan")
    found = holm([0.03, nan, 0.01, 0.04, 0.02])
    assert found == pytest.approx([0.06, nan, 0.04, 0.06, 0.06], nan_ok=True)
    assert holm([0.6, 0.5]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
    assert np.isnan(holm([nan, nan])).all()


def test_holm_rejects_what_the_procedure_rejects():
    """Holm's own words: step down through the ordered p while each is under the level over the tests that are left."""
    source = random.Random(4)
    for _ in range(200):
        p = [source.random() ** 4 for _ in range(source.randint(1, 12))]
        rejected, left = set(), sorted(range(len(p)), key=p.__getitem__)
        while left and p[left[0]] < 0.05 / len(left):
            rejected.add(left.pop(0))
        assert set(np.flatnonzero(holm(p) < 0.05)) == rejected
