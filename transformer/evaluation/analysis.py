"""The parts of an analysis of Table 5, and the types that analyses share. No torch, NumPy or pandas here.

BLEU is that of the dev set's plain text: 95 % of the `draws`, BLEU on resampled sets, lie between `low` and `high`;
`length_ratio` is the number of words in the translations over that in the references. Losses are means of the
unsmoothed cross-entropy over target tokens, in nats, with the reference as the decoder's input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta

from transformer.config.experiment import Section, says
from transformer.layout import Data, Run
from transformer.storage.records import Amount, Checksum, Draws, Positive, RunRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from transformer.evaluation.evaluated_run import EvaluatedRun
else:  # they take seconds to import
    DataFrame = EvaluatedRun = Any

Numbers = Annotated[list[Annotated[int, Meta(ge=1, le=1000)]], Meta(min_length=1)]
Beams = Annotated[Numbers, says("Beam sizes, each of which translates the dev set (§5.4, §6.1).")]
RUN_KEYS = ["name", "experiment", "seed"]


class RunSettings(Section):
    """The settings of every analysis of a trained run: keys of `probes` in config.yaml, and options of `analyse`."""

    sentences: Annotated[int, Meta(ge=10, le=1_000_000), says("Dev sentences that are measured, at most.")]


class OfRun(TypedDict):  # the file of every analysis; has "language", too
    run: RunRecord
    sentences: Positive
    target_sha256: Checksum


class Bleu(TypedDict):
    bleu: float
    low: float
    high: float
    draws: Draws


class BleuAndLength(Bleu):
    length_ratio: Amount


class Mean(NamedTuple):
    """A cell with the mean of a column over runs."""

    runs: DataFrame
    column: str
    decimals: int


class Measured(NamedTuple):
    """A cell with a text that comes from runs."""

    text: str
    runs: DataFrame


Rows = list[dict[str, str | Mean | Measured]]  # by heading
Pair = tuple[str, DataFrame, DataFrame]  # what is compared, in words, and its two systems: a row per run


@dataclass(frozen=True)
class Analysis:
    """An analysis of trained runs: what config.yaml, the workflow, `analyse` and Table 5 need of it.

    The frames that it lays out have a row per file, with the keys of `result` and RUN_KEYS.
    """

    settings: type[RunSettings]
    result: type[OfRun]
    measure: Callable[[EvaluatedRun, Any], dict[str, Any]]  # takes `settings`; returns what `result` adds to OfRun
    experiments: tuple[str, ...]  # whose runs are measured
    note: str  # above the grid
    grid: Callable[[DataFrame], Rows]
    words: tuple[str, ...] = ()  # the grid's headings of texts, which are set to the left
    compared: Mapping[str, Callable[[DataFrame], list[Pair]]] = field(default_factory=dict)  # by row of table5.csv
    reads: Callable[[Run, Data], list[Path]] = lambda run, data: []  # besides the run's weights and the dev set


def entries(files: DataFrame, key: str) -> DataFrame:
    """List the entries of `key` of all files, a row each: the run, `place` in the list, and what the entry has."""
    import pandas as pd

    return pd.DataFrame(
        {name: content[name] for name in RUN_KEYS} | {"place": place} | entry
        for content in files.to_dict("records")
        for place, entry in enumerate(content[key])
    )


def base_and(experiment: str, measured: DataFrame, words: str) -> Pair:
    """Compare base with another experiment."""
    return words, measured[measured["experiment"] == "base"], measured[measured["experiment"] == experiment]
