"""Marks and verdicts on made-up scores whose truth is known: they must survive another seed."""

import numpy as np
import pandas as pd
import pytest

from transformer.evaluation.significance import RESAMPLES
from transformer.report.tables.cells import LEVEL, Difference, paired

BETWEEN_SEEDS = 1.8  # deviation of BLEU
BETWEEN_SENTENCES = 1.3  # deviation of a difference in BLEU, of which either system has its part
PAIRS = 200
MANY = 3 * PAIRS  # so that luck neither makes nor hides one mark in twenty


class World:
    """A source of made-up trainings: each moves the score, and so does the choice of the test sentences."""

    def __init__(self, number: int):
        self.chance = np.random.default_rng(number)

    def system(self, name: str, seeds: int, truth: float = 30) -> pd.DataFrame:
        """Return a row per seed of a system whose score is `truth` over all trainings and all sentences."""
        of_sentences = self.chance.normal(0, BETWEEN_SENTENCES / 2**0.5, 1 + RESAMPLES)
        bleu = truth + of_sentences[0] + self.chance.normal(0, BETWEEN_SEEDS, seeds)
        names = [f"en-de/{name}/{seed}" for seed in range(seeds)]
        return pd.DataFrame({"name": names, "bleu": bleu, "draws": [score + of_sentences[1:] for score in bleu]})


def marked(difference: Difference) -> int:
    """Return 1 for what is marked as better, -1 as worse, and 0 for what cannot be told."""
    return int(np.sign(difference.value)) if difference.p < LEVEL else 0


def by_sentences(own: pd.DataFrame, base: pd.DataFrame) -> int:
    """Return the mark of two runs that counts no chance in training, as if both were one training."""
    return marked(paired(own[:1].assign(name="one"), base[:1].assign(name="one")))


@pytest.mark.parametrize("seeds", [1, 3])
def test_of_pairs_of_equal_models_at_most_one_in_twenty_is_marked(seeds):
    """Base has three seeds. By the choice of sentences alone, more than one in four is marked."""
    world = World(1)
    pairs = [(world.system("own", seeds), world.system("base", 3)) for _ in range(MANY)]
    assert sum(marked(paired(*pair)) != 0 for pair in pairs) <= MANY / 20
    assert sum(by_sentences(*pair) != 0 for pair in pairs[:PAIRS]) > PAIRS / 4


def test_of_equal_searches_by_the_same_trainings_at_most_one_in_twenty_is_marked():
    """One search is better for one training, another for the next, and all sentences agree."""
    chance = np.random.default_rng(3)

    def mark() -> int:
        scores = 30 + chance.normal(0, BETWEEN_SEEDS, 3)
        ways = [scores, scores + chance.normal(0, 0.3, 3)]
        own, other = (
            pd.DataFrame({"name": list("abc"), "bleu": way, "draws": [[s] * 1000 for s in way]}) for way in ways
        )
        return marked(paired(own, other))

    assert sum(mark() != 0 for _ in range(MANY)) <= 0.065 * MANY  # one in twenty, and what luck adds to it


@pytest.mark.parametrize("seeds", [1, 3])
def test_two_trainings_of_one_row_get_no_opposite_verdicts(seeds):
    """Neither beside one base, nor where base is trained anew, too; by the choice of sentences alone, some do."""
    world, opposite, before = World(2), 0, 0
    for _ in range(PAIRS):
        one, other, base, anew = (world.system(*each) for each in [("own", seeds)] * 2 + [("base", 3)] * 2)
        mark = marked(paired(one, base))
        opposite += any(mark * marked(paired(other, against)) == -1 for against in (base, anew))
        before += by_sentences(one, base) * by_sentences(other, anew) == -1
    assert opposite == 0
    assert before > 0


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_difference_of_six_deviations_is_marked_with_three_seeds_each(sign):
    world, truth = World(3), 30 + sign * 6 * BETWEEN_SEEDS
    found = [marked(paired(world.system("own", 3, truth), world.system("base", 3))) for _ in range(PAIRS // 2)]
    assert found.count(sign) >= 0.95 * len(found)
    assert -sign not in found


def test_one_seed_each_gives_no_mark_at_all():
    world = World(4)
    difference = paired(world.system("own", 1, 60), world.system("base", 1))
    assert difference.value > 20
    assert np.isnan(difference.p)
