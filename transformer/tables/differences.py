"""Differences in BLEU between two systems on the same sentences, and what such a difference says about a claim."""

from dataclasses import dataclass

import pandas as pd

from transformer.scoring.significance import limits, p_value
from transformer.tables.cells import mean_draws

LEVEL = 0.05
MARGIN = 1.0  # BLEU: a difference that is surely smaller counts as none


@dataclass(frozen=True)
class Difference:
    """The BLEU of one system less that of another, over the seeds that both have."""

    bleu: float  # mean over these seeds
    against: float  # the other system's
    value: float
    low: float  # 95 % of the differences on resampled sentences lie between these two
    high: float
    p: float
    seeds: int
    runs: tuple[str, ...]  # by name, of both


def paired(own: pd.DataFrame, other: pd.DataFrame) -> Difference | None:
    """Return the difference between two systems, by paired bootstrap resampling; None if they share no seed.

    own, other: a row per seed, with seed, name, bleu and draws.
    """
    pairs = own.merge(other, on="seed", suffixes=("", "_other"))
    if pairs.empty:
        return None
    draws = mean_draws(pairs["draws"]) - mean_draws(pairs["draws_other"])
    value = (pairs["bleu"] - pairs["bleu_other"]).mean()
    low, high = limits(draws)
    return Difference(
        bleu=pairs["bleu"].mean(),
        against=pairs["bleu_other"].mean(),
        value=value,
        low=low,
        high=high,
        p=p_value(value, draws),
        seeds=len(pairs),
        runs=tuple(dict.fromkeys([*pairs["name"], *pairs["name_other"]])),
    )


def verdict(expected: str, difference: Difference) -> str:
    """Say whether a difference is the one that a claim expects: "worse", "better" or "alike"."""
    small = max(abs(difference.low), abs(difference.high)) < MARGIN
    significant = difference.p < LEVEL
    if expected == "alike":
        return "seen here" if small else "not seen here" if significant else "cannot be told"
    sign = {"worse": -1, "better": 1}[expected]
    if significant:
        return "seen here" if sign * difference.value > 0 else "not seen here"
    least = difference.high if sign > 0 else -difference.low  # how large the expected effect may be
    return "not seen here" if least < MARGIN else "cannot be told"
