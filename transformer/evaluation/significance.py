"""The significance of differences between scores: bootstrap samples, seed variance, p-values and verdicts.

Test sentences are resampled (Koehn 2004): drawn with replacement, alike for all systems on one test set, so that scores
can be averaged or compared sample by sample. Seeds are too few to be resampled: Student's t accounts for them. A
bootstrap of three would find too little variance, and so too many differences (Colas et al. 2018, arXiv 1806.08295).

A difference d of two means strays from the true one by x + e · t: x is a centred bootstrap sample, e the standard error
by seeds, t Student's. p is the probability of straying by |d| or more, and the 95 % interval is d ± the stray with a
probability of 5 %, so that p < 0.05 exactly where the interval excludes 0.
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

SEED = 12345
RESAMPLES = 1000
LEVEL = 0.05
OUTLIER = 2.0  # times the pooled standard deviation: a system's own from which on it counts instead (Welch's test)
MARGIN = 1.0  # BLEU: two systems are alike if the whole interval of their difference is within this margin
TRANSLATES = 2.0  # BLEU that one of two systems needs for their difference to mean anything
SIGNS = REPLICATED, REVERSED = "replicated", "reversed"  # the verdicts that need p < LEVEL
NOT_REPLICATED = "not replicated"
INCONCLUSIVE, NOT_TESTABLE, NO_EFFECT = "inconclusive", "not testable (one seed)", "–"

System = tuple[np.ndarray, np.ndarray]  # the score of each seed [seeds], their bootstrap samples [seeds, RESAMPLES]


class Difference(NamedTuple):  # of one system's score and another's
    score: float  # mean over seeds
    against: float  # the other system's
    value: float  # of the difference
    low: float  # 95 % interval; where p is NaN, it accounts for test-set sampling only
    high: float
    p: float  # two-sided; NaN where the seed variance is unknown
    deviation: float  # standard deviation of the system's own seeds; NaN for one seed
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


def compare_systems(own: System, other: System, pool: Collection[System] = ()) -> tuple[float, float, float]:
    """Test the difference between two systems that were trained separately: 95 % interval (low, high), two-sided p.

    pool: systems whose seeds estimate the seed variance; if none has two, the two systems do. If neither has two seeds,
    p is NaN, and the interval accounts for test-set sampling only.
    """
    samples, pool = own[1].mean(axis=0) - other[1].mean(axis=0), pool if _freedom(pool) else (own, other)
    if not _freedom(pool):
        return *limits(samples), math.nan
    return _test(own[0].mean() - other[0].mean(), samples, (own, other), pool)


def compare_uses(own: System, other: System) -> tuple[float, float, float]:
    """Test the difference between two ways to use the same runs, such as two searches, run by run.

    Several runs estimate how much the difference depends on the seed; a single run is tested on sentences only.
    """
    paired = own[0] - other[0], own[1] - other[1]
    return _test(paired[0].mean(), paired[1].mean(axis=0), (paired,), (paired,))


def _freedom(systems: Collection[System]) -> int:
    return sum(len(scores) - 1 for scores, _ in systems)


def _seed_error(compared: Collection[System], pool: Collection[System]) -> tuple[float, float, int]:
    """Return the variance of a difference by seeds, its part by test-set sampling, and degrees of freedom.

    The variance of seeds is pooled: the sum of squares within systems over the sum of degrees of freedom. It includes
    test-set sampling, and is at least as large. A system that deviates OUTLIER times as much as the pool, or more,
    keeps its own variance: Welch's test, with Satterthwaite's degrees of freedom, rounded down.
    """
    freedom, about_mean = _freedom(pool), (own - own.mean(axis=1, keepdims=True) for _, own in pool)
    pooled = sum(float(np.var(scores)) * len(scores) for scores, _ in pool) / max(freedom, 1)
    sampling = sum(float(np.var(own, axis=0).mean()) * len(own) for own in about_mean) / max(freedom, 1)
    parts, degrees = [], []
    for scores, _ in compared:
        own = float(np.var(scores, ddof=1)) if len(scores) > 1 else 0.0
        outlier = own > 0 and own >= OUTLIER**2 * pooled
        parts.append(max(own if outlier else pooled, sampling) / len(scores))
        degrees.append(len(scores) - 1 if outlier else freedom)
    if set(degrees) != {freedom}:
        freedom = int(sum(parts) ** 2 / sum(part**2 / each for part, each in zip(parts, degrees, strict=True)))
    return sum(parts), sampling * sum(1 / len(scores) for scores, _ in compared), freedom


def _test(
    difference: float, samples: np.ndarray, compared: Collection[System], pool: Collection[System]
) -> tuple[float, float, float]:
    """Return interval and p of a difference from its bootstrap samples, and from the seeds of the systems compared."""
    squared, sampling, freedom = _seed_error(compared, pool)
    error, variance = math.sqrt(squared), float(samples.var())
    kept = max(0.0, 1 - sampling / variance) if variance else 0.0  # the seeds' part would count twice
    strays = (samples - samples.mean()) * math.sqrt(kept)
    low, high = 0.0, float(np.abs(strays).max()) + 13 * error  # t with one degree of freedom exceeds 12.7 in 5 %
    for _ in range(60):  # bisection
        middle = (low + high) / 2
        low, high = (low, middle) if _p_value(middle, strays, error, freedom) < LEVEL else (middle, high)
    return difference - high, difference + high, _p_value(abs(difference), strays, error, freedom)


def _p_value(size: float, strays: np.ndarray, error: float, freedom: int) -> float:
    """Return the probability that |x + error · t| is `size` or more, x drawn from `strays`; at least 1e-6.

    Without seed variance it is (k + 1) / (n + 1) if k of n strays are so large.
    """
    if not error:
        return (1 + int(np.sum(np.abs(strays) >= size))) / (1 + len(strays))
    within = _central_t((size - strays) / error, freedom) + _central_t((size + strays) / error, freedom)
    return max(round(1 - float(within.mean()) / 2, 9), 1e-6)  # the digits beyond depend on the processor


def _central_t(t: np.ndarray, freedom: int) -> np.ndarray:
    """Return the probability of Student's t between -t and t, with the sign of t (Abramowitz & Stegun, 26.7.3 f)."""
    angle, odd = np.arctan(t / math.sqrt(freedom)), freedom % 2
    cosine = np.cos(angle)
    term, total = cosine**odd, np.zeros_like(angle)
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return (total * np.sin(angle) + angle) * 2 / math.pi if odd else total * np.sin(angle)


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


def verdict(expected: str, difference: Difference, effect: float = math.nan, least: float = TRANSLATES) -> str:
    """Judge a claim that expects "lower", "higher", "alike" or nothing.

    effect: size of the published difference, without sign; NaN if none was published, so that none can be excluded.
    least: score that one of the two systems needs.
    """
    if not expected:
        return ""
    if math.isnan(difference.p):
        return NOT_TESTABLE
    if max(difference.score, difference.against) < least:
        return INCONCLUSIVE
    significant = difference.p < LEVEL
    if expected == "alike":
        small = max(abs(difference.low), abs(difference.high)) < MARGIN
        return REPLICATED if small else NOT_REPLICATED if significant else INCONCLUSIVE
    sign = {"lower": -1, "higher": 1}[expected]
    if significant:
        return REPLICATED if sign * difference.value > 0 else REVERSED
    most = difference.high if sign > 0 else -difference.low  # largest effect of the expected sign in the interval
    return NOT_REPLICATED if most < effect else INCONCLUSIVE
