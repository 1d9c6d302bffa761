"""Differences between two systems on the same sentences, and the verdict on a claim about them."""

import math
from dataclasses import dataclass

import pandas as pd

from transformer.evaluation.significance import limits, p_value, with_training
from transformer.report.tables.cells import mean_draws

LEVEL = 0.05
# BLEU: two systems whose difference is surely smaller are alike; an effect is as large if none smaller was published.
MARGIN = 1.0
TRANSLATES = 2.0  # BLEU that one of two systems needs, at least, for their difference to mean anything
NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Difference:
    """The score of one system less that of another."""

    score: float  # mean over seeds
    against: float  # the other system's
    value: float
    low: float  # 95 % interval, by the chances that p knows, or if it is NaN, by the choice of sentences alone
    high: float
    p: float  # two-sided; NaN where the chance in training is unknown
    seeds: int
    seeds_against: int
    runs: tuple[str, ...]  # by name, of both


def paired(own: pd.DataFrame, other: pd.DataFrame, *alike: pd.DataFrame) -> Difference:
    """Compare two systems by paired bootstrap resampling, and by the chance in training (`with_training`).

    own, other: a row per run, with name, bleu (or another score in its place) and its draws. alike: further systems
    whose seeds tell how far seeds are apart. Two ways to use the same runs (two searches, say) are compared run by run:
    several runs tell how much the difference depends on the seed; a single one is compared on sentences alone.
    """
    same = sorted(set(own["name"]) & set(other["name"]))
    if same:
        own, other = (system.set_index("name", drop=False).loc[same] for system in (own, other))
    value = own["bleu"].mean() - other["bleu"].mean()
    resampled = mean_draws(own) - mean_draws(other)
    if not same:
        drawn = with_training(resampled, (len(own), len(other)), by_system(own, other, *alike))
    elif len(same) > 1:
        drawn = with_training(resampled, (len(same),), [list(own["bleu"] - other["bleu"])])
    else:
        drawn = resampled
    low, high = limits(resampled if drawn is None else drawn)
    return Difference(
        score=own["bleu"].mean(),
        against=other["bleu"].mean(),
        value=value,
        low=low,
        high=high,
        p=math.nan if drawn is None else p_value(value, drawn),
        seeds=len(own),
        seeds_against=len(other),
        runs=tuple(dict.fromkeys([*own["name"], *other["name"]])),
    )


def by_system(*systems: pd.DataFrame) -> list[list[float]]:
    """List the scores of each system that has any, once where the same is named twice."""
    scores = {tuple(system["name"]): list(system["bleu"]) for system in systems if len(system)}
    return list(scores.values())


def verdict(expected: str, difference: Difference, effect: float = MARGIN, least: float = TRANSLATES) -> str:
    """Judge a claim that expects "lower", "higher", "alike", or, without a claim, "".

    effect: how large others found it. least: the score that one of the systems must have.
    """
    if not expected:
        return ""
    if math.isnan(difference.p):
        return NO_VERDICT
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
