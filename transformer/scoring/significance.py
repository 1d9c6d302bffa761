"""The chance that lies in the choice of test sentences, by bootstrap resampling.

The sentences of the test set are drawn many times with replacement, alike for all systems on one test set, so that
their scores can be averaged or compared draw by draw.
"""

from collections.abc import Callable

import numpy as np

SEED = 12345
RESAMPLES = 1000


def p_value(difference: float, differences: np.ndarray) -> float:
    """Return how likely so large a difference between two systems is if they are equal.

    That is the share of the `differences` on each draw that stray from their mean by no less: 1 where the difference
    is 0.
    """
    strays = np.abs(differences - differences.mean())
    return (1 + int(np.sum(strays >= abs(difference)))) / (1 + len(differences))


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
