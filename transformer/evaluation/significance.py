"""The significance of differences between scores: bootstrap samples, seed variance, p-values and verdicts.

Test sentences are resampled with replacement (Koehn 2004). All systems on one test set share the samples, so scores can
be averaged or compared by sample. Seeds are too few for resampling, so Student's t accounts for them. A bootstrap of
three seeds underestimates the variance and finds too many differences (Colas et al. 2018, arXiv 1806.08295).

The error of a difference d of two means is x + e · t. x is a centred bootstrap sample, e the standard error by seeds,
and t has Student's distribution. p is the probability of an absolute error of |d| or more. The 95 % interval is d ± E.
An absolute error of E or more has probability 5 %, so p < 0.05 if and only if the interval excludes 0.
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

SEED = 12345
RESAMPLES = 1000
LEVEL = 0.05
OUTLIER = 2.0  # a system with this multiple of the pooled standard deviation keeps its own deviation (Welch's test)
MARGIN = 1.0  # BLEU: two systems are alike if the whole interval of their difference is within this margin
TRANSLATES = 2.0  # minimum BLEU of the better system for a meaningful difference
SIGNS = REPLICATED, REVERSED = "replicated", "reversed"  # the verdicts that need p < LEVEL, except on the claim "alike"
NOT_REPLICATED = "not replicated"
INCONCLUSIVE, NOT_TESTABLE, NO_EFFECT = "inconclusive", "not testable (one seed)", "–"
DIFFERS = "differs"  # the verdict on a system of which nothing was claimed

System = tuple[np.ndarray, np.ndarray]  # the score of each seed [seeds], their bootstrap samples [seeds, RESAMPLES]


class Difference(NamedTuple):  # between the scores of two systems
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
    """Resample the rows of `statistics` [sentences, numbers] RESAMPLES times, and return `score` of each sum."""
    generator = np.random.default_rng(SEED)
    chosen = (generator.integers(len(statistics), size=len(statistics)) for _ in range(RESAMPLES))
    return [round(score(statistics[rows].sum(axis=0).tolist()), 3) for rows in chosen]


def bleu_draws(hypotheses: list[str], references: list[str]) -> list[float]:
    """Return BLEU on each resampled test set. Inputs are tokens (`bleu.paper_tokens`, `bleu.paper_reference`)."""
    from sacrebleu.metrics import BLEU  # a late import of half a second, because only translations need it

    counter = BLEU(tokenize="none", effective_order=True, force=True)  # of n-grams; effective_order quiets a warning
    pairs = zip(hypotheses, references, strict=True)
    scores = [counter.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    statistics = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])
    bleu = partial(BLEU.compute_bleu, smooth_method="none")
    return draws(statistics, lambda sums: bleu(sums[:4], sums[4:8], *sums[8:]).score)


def f1_draws(counts: list[tuple[int, int, int]]) -> list[float]:
    """Return F1 in per cent on each resampled test set. Inputs are each sentence's brackets: matched, gold, test."""
    return draws(np.array(counts), lambda sums: 200 * sums[0] / (sums[1] + sums[2]) if sums[1] + sums[2] else 0.0)


def limits(samples: np.ndarray | list[float]) -> tuple[float, float]:
    """Return the limits of the central 95 % of the samples."""
    return tuple(np.percentile(samples, [2.5, 97.5]).tolist())


def compare_systems(own: System, other: System, pool: Collection[System] = ()) -> tuple[float, float, float]:
    """Test the difference between two separately trained systems: 95 % interval (low, high) and two-sided p.

    pool: systems for the estimate of seed variance. If none has two seeds, only the two compared systems count. If
    neither of these has two seeds, p is NaN and the interval accounts only for test-set sampling.
    """
    samples, pool = own[1].mean(axis=0) - other[1].mean(axis=0), pool if _freedom(pool) else (own, other)
    if not _freedom(pool):
        return *limits(samples), math.nan
    return _test(own[0].mean() - other[0].mean(), samples, (own, other), pool)


def compare_uses(own: System, other: System) -> tuple[float, float, float]:
    """Test the difference between two uses of the same runs, for example two searches, with paired runs.

    Several runs estimate the seed variance of the difference. With a single run, only sentences are resampled.
    """
    paired = own[0] - other[0], own[1] - other[1]
    return _test(paired[0].mean(), paired[1].mean(axis=0), (paired,), (paired,))


def _freedom(systems: Collection[System]) -> int:
    return sum(len(scores) - 1 for scores, _ in systems)


def _seed_error(compared: Collection[System], pool: Collection[System]) -> tuple[float, float, int]:
    """Return the seed variance of a difference, its part from test-set sampling, and the number of degrees of freedom.

    The seed variance is pooled: the sum of squares within systems over the sum of degrees of freedom. It includes the
    variance of test-set sampling, and is never smaller. A system with OUTLIER or more times the pooled standard
    deviation keeps its own variance (Welch's test), with Satterthwaite's degrees of freedom, rounded down.
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
    """Return interval and p of a difference from its bootstrap samples and the seeds of the compared systems."""
    squared, sampling, freedom = _seed_error(compared, pool)
    error, variance = math.sqrt(squared), float(samples.var())
    kept = max(0.0, 1 - sampling / variance) if variance else 0.0  # else test-set sampling would count twice
    strays = (samples - samples.mean()) * math.sqrt(kept)
    low, high = 0.0, float(np.abs(strays).max()) + 13 * error  # |t| with one degree of freedom exceeds 12.7 in 5 %
    for _ in range(60):  # bisection
        middle = (low + high) / 2
        low, high = (low, middle) if _p_value(middle, strays, error, freedom) < LEVEL else (middle, high)
    return difference - high, difference + high, _p_value(abs(difference), strays, error, freedom)


def _p_value(size: float, strays: np.ndarray, error: float, freedom: int) -> float:
    """Return the probability that |x + error · t| ≥ `size`, where x is sampled from `strays`; the minimum is 1e-6.

    Without seed variance, it is (k + 1) / (n + 1) if k of the n values |x| are at least `size`.
    """
    if not error:
        return (1 + int(np.sum(np.abs(strays) >= size))) / (1 + len(strays))
    within = _central_t((size - strays) / error, freedom) + _central_t((size + strays) / error, freedom)
    return max(round(1 - float(within.mean()) / 2, 9), 1e-6)  # further digits depend on the processor


def _central_t(t: np.ndarray, freedom: int) -> np.ndarray:
    """Return the probability of Student's t between -t and t, with the sign of t (Abramowitz & Stegun, 26.7.3–4)."""
    angle, odd = np.arctan(t / math.sqrt(freedom)), freedom % 2
    cosine = np.cos(angle)
    term, total = cosine**odd, np.zeros_like(angle)
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return (total * np.sin(angle) + angle) * 2 / math.pi if odd else total * np.sin(angle)


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p for the number of tests by Holm's step-down (1979). NaN is not a test and remains NaN.

    In ascending order, the first of m values is multiplied by m, the next by m - 1, and so on. Each result is at least
    the previous one and at most 1.
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)  # NaN last
    factors = np.maximum(np.sum(~np.isnan(values)) - np.arange(len(values)), 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def verdict(expected: str, difference: Difference, effect: float = math.nan, least: float = TRANSLATES) -> str:
    """Return the verdict on a claim that expects "lower", "higher", "alike", "any" difference, or nothing.

    effect: absolute value of the published difference; NaN if no effect was published.
    least: minimum score of the better system.
    """
    if not expected:
        return ""
    if math.isnan(difference.p):
        return NOT_TESTABLE
    if max(difference.score, difference.against) < least:
        return INCONCLUSIVE
    significant = difference.p < LEVEL
    if expected == "any":
        return DIFFERS if significant else INCONCLUSIVE
    if expected == "alike":
        small = max(abs(difference.low), abs(difference.high)) < MARGIN
        return REPLICATED if small else NOT_REPLICATED if significant else INCONCLUSIVE
    sign = {"lower": -1, "higher": 1}[expected]
    if significant:
        return REPLICATED if sign * difference.value > 0 else REVERSED
    most = difference.high if sign > 0 else -difference.low  # largest effect of the expected sign in the interval
    return NOT_REPLICATED if most < effect else INCONCLUSIVE
