"""Significance: bootstrap resampling of test sentences (Koehn 2004), and seed noise from Student's t.

The sentences are drawn with replacement, alike for all systems on one test set, so that scores can be averaged or
compared draw by draw. Seeds are too few to be resampled.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

SEED = 12345
RESAMPLES = 1000
TRAININGS = 50  # draws of seed noise with each draw of sentences: with one, p near 0.05 would be luck


def p_value(difference: float, differences: np.ndarray) -> float:
    """Return the two-sided p of a difference between two systems, from the `differences` on each draw.

    That is the share of draws that stray from their mean by no less; it is 1 for a difference of 0.
    """
    strays = np.abs(differences - differences.mean())
    return (1 + int(np.sum(strays >= abs(difference)))) / (1 + len(differences))


def with_training(
    differences: np.ndarray, seeds: tuple[int, ...], systems: Collection[Sequence[float]]
) -> np.ndarray | None:
    """Add seed noise to the difference between two trained systems on draws of sentences.

    differences: between their means over seeds, on resampled sentences. seeds: the numbers n and m of their seeds.
    systems: the scores of each seed of the two, and of others that are trained alike. None if no system has two seeds.
    For two ways to use the same trainings, `seeds` is their number, and `systems` holds the difference in each.

    To each difference, TRAININGS times, s · sqrt(1/n + 1/m) · t is added with both signs (antithetic draws). s is the
    deviation between seeds, pooled over all systems: the sum of squares within each over the sum of degrees of freedom.
    t is Student's with as many degrees of freedom. Without the draws of sentences that is the two-sample t-test.

    A bootstrap of three seeds would find too little spread, and so too many differences (Colas et al. 2018, arXiv
    1806.08295, compare both). Seeds also differ by their luck with these sentences, which is counted twice: p is rather
    too large than too small.
    """
    freedom = sum(len(scores) - 1 for scores in systems)
    if not freedom:
        return None
    squares = sum(float(np.var(scores)) * len(scores) for scores in systems)
    width = math.sqrt(squares / freedom * sum(1 / count for count in seeds))
    t = np.random.default_rng(SEED).standard_t(freedom, (TRAININGS // 2, len(differences)))
    return (differences + width * np.concatenate([t, -t])).ravel()  # the same mean, which t with one or two has not


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p for the number of tests by Holm's step-down (1979); NaN is no test and stays.

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
    from sacrebleu.metrics import BLEU  # half a second, for translations alone

    counter = BLEU(tokenize="none", effective_order=True, force=True)  # of n-grams; effective_order quiets a warning
    pairs = zip(hypotheses, references, strict=True)
    scores = [counter.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    statistics = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])

    def bleu(sums: list[int]) -> float:
        return BLEU.compute_bleu(sums[:4], sums[4:8], *sums[8:], smooth_method="none").score

    return draws(statistics, bleu)


def f1_draws(counts: list[tuple[int, int, int]]) -> list[float]:
    """Return F1 in per cent on each resampled test set, from each sentence's brackets: matched, in gold, in test."""
    return draws(np.array(counts), lambda sums: 200 * sums[0] / (sums[1] + sums[2]) if sums[1] + sums[2] else 0.0)


def draws(statistics: np.ndarray, score: Callable[[list[int]], float]) -> list[float]:
    """Return `score` of the summed rows of `statistics` [sentences, numbers] for RESAMPLES draws of as many rows."""
    generator = np.random.default_rng(SEED)
    chosen = (generator.integers(len(statistics), size=len(statistics)) for _ in range(RESAMPLES))
    return [round(score(statistics[rows].sum(axis=0).tolist()), 3) for rows in chosen]
