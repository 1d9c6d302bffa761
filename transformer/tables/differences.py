"""Differences between two systems on the same sentences, and what such a difference says about a claim."""

from dataclasses import dataclass

import pandas as pd

from transformer.scoring.significance import limits, p_value
from transformer.tables.cells import mean_draws

LEVEL = 0.05
# BLEU: two systems whose difference is surely smaller are alike; an effect is as large if none smaller was published.
MARGIN = 1.0
TRANSLATES = 2.0  # BLEU that one of two systems needs, at least, for their difference to mean anything


@dataclass(frozen=True)
class Difference:
    """The score of one system less that of another, over the seeds that both have."""

    score: float  # mean over these seeds
    against: float  # the other system's
    value: float
    low: float  # 95 % of the differences on resampled sentences lie between these two
    high: float
    p: float
    seeds: int
    runs: tuple[str, ...]  # by name, of both


def paired(own: pd.DataFrame, other: pd.DataFrame) -> Difference | None:
    """Return the difference between two systems, by paired bootstrap resampling; None if they share no seed.

    own, other: a row per seed, with seed, name, bleu (or another score in its place) and its draws.
    """
    pairs = own.merge(other, on="seed", suffixes=("", "_other"))
    if pairs.empty:
        return None
    resampled = mean_draws(pairs["draws"]) - mean_draws(pairs["draws_other"])
    value = (pairs["bleu"] - pairs["bleu_other"]).mean()
    low, high = limits(resampled)
    return Difference(
        score=pairs["bleu"].mean(),
        against=pairs["bleu_other"].mean(),
        value=value,
        low=low,
        high=high,
        p=p_value(value, resampled),
        seeds=len(pairs),
        runs=tuple(dict.fromkeys([*pairs["name"], *pairs["name_other"]])),
    )


def verdict(expected: str, difference: Difference, effect: float = MARGIN, least: float = TRANSLATES) -> str:
    """Say whether a difference is what a claim expects: "lower", "higher", "alike", or, for no claim, "".

    effect: how large it was found to be. least: the score that one of the systems must have.
    """
    if not expected:
        return ""
    if max(difference.score, difference.against) < least:
        return "cannot be told"
    significant = difference.p < LEVEL
    if expected == "alike":
        small = max(abs(difference.low), abs(difference.high)) < MARGIN
        return "seen here" if small else "not seen here" if significant else "cannot be told"
    sign = {"lower": -1, "higher": 1}[expected]
    if significant:
        return "seen here" if sign * difference.value > 0 else "not seen here"
    most = difference.high if sign > 0 else -difference.low  # how large the expected effect may be
    return "not seen here" if most < effect else "cannot be told"
