"""The chance that lies in the choice of test sentences, and the one that lies in training.

The sentences of the test set are drawn many times with replacement, alike for all systems on one test set, so that
their scores can be averaged or compared draw by draw (bootstrap resampling). Seeds are too few to be drawn in that way:
what another one would change comes from Student's t.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

SEED = 12345
RESAMPLES = 1000
TRAININGS = 50  # draws of the chance in training with each draw of sentences: with one, p near 0.05 would be luck


def p_value(difference: float, differences: np.ndarray) -> float:
    """Return how likely so large a difference between two systems is if they are equal, in either direction.

    That is the share of the `differences` on each draw that stray from their mean by no less: 1 where the difference
    is 0.
    """
    strays = np.abs(differences - differences.mean())
    return (1 + int(np.sum(strays >= abs(difference)))) / (1 + len(differences))


def with_training(
    differences: np.ndarray, seeds: tuple[int, ...], systems: Collection[Sequence[float]]
) -> np.ndarray | None:
    """Return the difference between two trained systems on draws of sentences and of the chance in training.

    differences: between their means over seeds, on resampled sentences. seeds: how many each of the two has. systems:
    the scores of each seed of the two, and of others that are trained alike. None where no system has two seeds: then
    nobody knows how far another seed would move the difference. For two ways to use the same trainings, `seeds` is
    their number, and `systems` holds the difference in each.

    To each difference, TRAININGS times, s · sqrt(1/n + 1/m) · t is added, as often with the other sign. n and m are the
    numbers of seeds. s is the deviation between seeds, which is taken to be the same for all systems and pooled over
    them: the sum of the squares within each system over the sum of its degrees of freedom. t is drawn from Student's
    distribution with as many degrees of freedom. Without the choice of sentences that is the two-sample t-test.

    Seeds are not resampled: a bootstrap of three finds too little spread, and so too many differences (Colas et al.
    2018, arXiv 1806.08295, compare both). A little is counted twice, as seeds also differ by what they make of these
    sentences: p is rather too large than too small.
    """
    freedom = sum(len(scores) - 1 for scores in systems)
    if not freedom:
        return None
    squares = sum(float(np.var(scores)) * len(scores) for scores in systems)
    width = math.sqrt(squares / freedom * sum(1 / count for count in seeds))
    t = np.random.default_rng(SEED).standard_t(freedom, (TRAININGS // 2, len(differences)))
    return (differences + width * np.concatenate([t, -t])).ravel()  # the same mean, which t with one or two has not


def holm(p: Sequence[float]) -> np.ndarray:
    """Return p by Holm's step-down (1979), which allows for the number of tests; NaN is no test and stays.

    Of m numbers in ascending order, the first is multiplied by m, the next by m - 1 and so on; none is less than the
    one before it, nor more than 1.
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)  # NaN last
    tests = int(np.sum(~np.isnan(values)))
    factors = np.maximum(tests - np.arange(len(values)), 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def limits(draws: np.ndarray | list[float]) -> tuple[float, float]:
    """Return the two values that 95 % of the draws lie between."""
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def bleu_draws(hypotheses: list[str], references: list[str]) -> list[float]:
    """Return BLEU on each resampled test set, of sentences as tokens (`bleu.paper_tokens`, `bleu.paper_reference`)."""
    from sacrebleu.metrics import BLEU  # here, as what scores no translation should start without it

    counter = BLEU(tokenize="none", effective_order=True, force=True)  # of n-grams; effective_order quiets a warning
    pairs = zip(hypotheses, references, strict=True)
    scores = [counter.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    statistics = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])

    def bleu(sums: list[int]) -> float:
        return BLEU.compute_bleu(sums[:4], sums[4:8], *sums[8:], smooth_method="none").score

    return draws(statistics, bleu)


def f1_draws(counts: list[tuple[int, int, int]]) -> list[float]:
    """Return F1 in per cent on each resampled test set, from each sentence's brackets: matched, in gold, in test."""

    def f1(sums: list[int]) -> float:
        matched, gold, test = sums
        return 200 * matched / (gold + test) if gold + test else 0.0

    return draws(np.array(counts), f1)


def draws(statistics: np.ndarray, score: Callable[[list[int]], float]) -> list[float]:
    """Return `score` of the summed rows of `statistics` [sentences, numbers] for RESAMPLES draws of as many rows."""
    generator = np.random.default_rng(SEED)
    chosen = (generator.integers(len(statistics), size=len(statistics)) for _ in range(RESAMPLES))
    return [round(score(statistics[rows].sum(axis=0).tolist()), 3) for rows in chosen]
