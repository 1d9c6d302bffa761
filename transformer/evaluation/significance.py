"""The significance of differences between scores: bootstrap samples, seed variance, p-values and verdicts.

Test sentences are resampled (Koehn 2004): drawn with replacement, alike for all systems on one test set, so that scores
can be averaged or compared sample by sample. Seeds are too few to be resampled: Student's t accounts for them. A
bootstrap of three would find too little variance, and so too many differences (Colas et al. 2018, arXiv 1806.08295).
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

SEED = 12345
RESAMPLES = 1000
_T_SAMPLES = 50  # samples of seed variance for each bootstrap sample: with one, p near 0.05 would be luck
LEVEL = 0.05
# BLEU: two systems whose difference is surely smaller are alike; an effect is as large if none smaller was published.
MARGIN = 1.0
TRANSLATES = 2.0  # BLEU that one of two systems needs, at least, for their difference to mean anything
SEEN, NOT_SEEN, OPEN, NO_VERDICT = "seen here", "not seen here", "cannot be told", "no verdict"

System = tuple[np.ndarray, np.ndarray]  # the score of each seed [seeds], their bootstrap samples [seeds, RESAMPLES]


class Difference(NamedTuple):  # of one system's score and another's
    score: float  # mean over seeds
    against: float  # the other system's
    value: float  # of the difference
    low: float  # 95 % interval, by the chances that p knows, or if it is NaN, by the choice of sentences alone
    high: float
    p: float  # two-sided; NaN where the seed variance is unknown
    seeds: int
    seeds_against: int
    runs: str  # the names of both systems' runs, with spaces between them


def draws(statistics: np.ndarray, score: Callable[[list[int]], float]) -> list[float]:
    """Return `score` of the summed rows of `statistics` [sentences, numbers] for RESAMPLES draws of as many rows."""
    generator = np.random.default_rng(SEED)
    chosen = (generator.integers(len(statistics), size=len(statistics)) for _ in range(RESAMPLES))
    return [round(score(statistics[rows].sum(axis=0).tolist()), 3) for rows in chosen]


def bleu_draws(hypotheses: list[str], references: list[str]) -> list[float]:
    """Return BLEU on each resampled test set, of sentences as tokens (`bleu.paper_tokens`, `bleu.paper_reference`)."""
    from sacrebleu.metrics import BLEU  # half a second, for translations alone

    counter = BLEU(tokenize="none", effective_order=True, force=True)  # of n-grams; effective_order quiets a warning
    pairs = zip(hypotheses, references, strict=True)
    scores = [counter.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    statistics = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])
    bleu = partial(BLEU.compute_bleu, smooth_method="none")
    return draws(statistics, lambda sums: bleu(sums[:4], sums[4:8], *sums[8:]).score)


def f1_draws(counts: list[tuple[int, int, int]]) -> list[float]:
    """Return F1 in per cent on each resampled test set, from each sentence's brackets: matched, in gold, in test."""
    return draws(np.array(counts), lambda sums: 200 * sums[0] / (sums[1] + sums[2]) if sums[1] + sums[2] else 0.0)


def limits(samples: np.ndarray | list[float]) -> tuple[float, float]:
    """Return the two values that 95 % of the samples lie between."""
    return tuple(np.percentile(samples, [2.5, 97.5]).tolist())


def compare_systems(own: System, other: System, systems: Collection[System]) -> tuple[float, float, float]:
    """Test the difference between two systems that were trained apart, by bootstrap samples and seed variance.

    systems: the two, and others that estimate the seed variance. Returns the 95 % interval (low, high) and the
    two-sided p; without a system of two seeds p is NaN, and the interval accounts for the sentences only.
    """
    difference, samples = own[0].mean() - other[0].mean(), own[1].mean(axis=0) - other[1].mean(axis=0)
    widened = _add_seed_variance(samples, (len(own[0]), len(other[0])), systems)
    if widened is None:
        return *limits(samples), math.nan
    return *limits(widened), _p_value(difference, widened)


def compare_uses(own: System, other: System) -> tuple[float, float, float]:
    """Test the difference between two ways to use the same runs, such as two searches, run by run.

    Several runs estimate how much the difference depends on the seed; a single run is tested on sentences alone.
    """
    paired = own[0] - other[0], own[1] - other[1]
    difference, samples = own[0].mean() - other[0].mean(), own[1].mean(axis=0) - other[1].mean(axis=0)
    widened = _add_seed_variance(samples, (len(paired[0]),), [paired]) if len(paired[0]) > 1 else samples
    return *limits(widened), _p_value(difference, widened)


def _p_value(difference: float, samples: np.ndarray) -> float:
    """Return the two-sided p of a difference: the share of samples that stray from their mean by no less; 1 for 0."""
    strays = np.abs(samples - samples.mean())
    return (1 + int(np.sum(strays >= abs(difference)))) / (1 + len(samples))


def _add_seed_variance(samples: np.ndarray, seeds: tuple[int, ...], systems: Collection[System]) -> np.ndarray | None:
    """Widen the bootstrap samples of a difference by the seed variance; return None if no system has two seeds.

    samples: of the difference between the means over seeds. seeds: the numbers n and m of both systems' seeds, or the
    number of paired runs. systems: both, and others pooled for the variance; of paired runs their differences.

    To each sample, _T_SAMPLES times, s · sqrt(1/n + 1/m) · t is added with both signs (antithetic samples). s is the
    standard deviation between seeds, pooled over all systems: the sum of squares within each over the sum of degrees of
    freedom. t is Student's with as many degrees of freedom. Without the bootstrap that is the two-sample t-test.

    Seeds also differ by the sampling of test sentences, which s already includes. So the bootstrap samples are narrowed
    by as much variance as the seeds' samples have about their mean: without that it would count twice.
    """
    freedom = sum(len(scores) - 1 for scores, _ in systems)
    if not freedom:
        return None
    parts = sum(1 / count for count in seeds) / freedom
    between = parts * sum(float(np.var(scores)) * len(scores) for scores, _ in systems)
    about_mean = (own - own.mean(axis=1, keepdims=True) for _, own in systems)
    sampling = parts * sum(float(np.var(own, axis=0).mean()) * len(own) for own in about_mean)
    mean, variance = samples.mean(), samples.var()
    narrowed = mean + (samples - mean) * math.sqrt(max(0.0, 1 - sampling / variance) if variance else 0.0)
    t = np.random.default_rng(SEED).standard_t(freedom, (_T_SAMPLES // 2, len(samples)))
    # Both signs keep the mean, which samples of t with one or two degrees of freedom would move.
    return (narrowed + math.sqrt(between) * np.concatenate([t, -t])).ravel()


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p for the number of tests by Holm's step-down (1979); NaN is no test and stays.

    Of m numbers in ascending order, the first is multiplied by m, the next by m - 1 and so on; none is less than the
    one before it, nor more than 1.
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)  # NaN last
    factors = np.maximum(np.sum(~np.isnan(values)) - np.arange(len(values)), 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def verdict(expected: str, difference: Difference, effect: float = MARGIN, least: float = TRANSLATES) -> str:
    """Judge a claim that expects "lower", "higher", "alike" or nothing, by the published effect and a least score."""
    if not expected:
        return ""
    if math.isnan(difference.p):
        return NO_VERDICT
    if max(difference.score, difference.against) < least:
        return OPEN
    significant = difference.p < LEVEL
    if expected == "alike":
        small = max(abs(difference.low), abs(difference.high)) < MARGIN
        return SEEN if small else NOT_SEEN if significant else OPEN
    sign = {"lower": -1, "higher": 1}[expected]
    if significant:
        return SEEN if sign * difference.value > 0 else NOT_SEEN
    most = difference.high if sign > 0 else -difference.low  # how large the expected effect may be
    return NOT_SEEN if most < effect else OPEN
