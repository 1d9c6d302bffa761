"""The parts of an analysis of Table 5, and the types that analyses share. No torch, NumPy or pandas here.

BLEU is that of the dev set's plain text: 95 % of the `draws`, BLEU on resampled sets, lie between `low` and `high`;
`length_ratio` is the number of words in the translations over that in the references. Losses are means of the
unsmoothed cross-entropy over target tokens, in nats, with the reference as the decoder's input.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta

from transformer.config.experiment import described
from transformer.layout import Data, Run
from transformer.storage.reading import Section
from transformer.storage.records import Amount, Checksum, Draws, Positive, RunRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from transformer.evaluation.evaluated_run import EvaluatedRun
else:  # they take seconds to import
    DataFrame = EvaluatedRun = Any

Numbers = Annotated[list[Annotated[int, Meta(ge=1, le=1000)]], Meta(min_length=1)]
Beams = Annotated[Numbers, described("Beam sizes, each of which translates the dev set (§5.4, §6.1).")]
RUN_KEYS = ["name", "experiment", "seed"]


class RunSettings(Section, kw_only=True):
    """The settings of every analysis of a trained run: keys of `analyses` in config.yaml, and options of `analyse`."""

    sentences: Annotated[
        int, Meta(ge=10, le=1_000_000), described("Maximum number of dev sentences that are measured.")
    ] = 100_000


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


class Mean(NamedTuple):  # a cell with the mean of a column over runs
    runs: DataFrame
    column: str
    decimals: int


class RunsText(NamedTuple):  # a cell
    text: str
    runs: DataFrame


GridRows = list[dict[str, str | Mean | RunsText]]  # by heading
Pair = tuple[str, DataFrame, DataFrame]  # what is compared, in words, and its two systems: a row per run


class Analysis:
    """An analysis of trained runs: what config.yaml, the workflow, `analyse` and Table 5 need of it.

    The frames `files` have a row per file, with the keys of `Result` and RUN_KEYS.
    """

    Settings: type[RunSettings]
    Result: type[OfRun]
    experiments: tuple[str, ...]  # whose runs are measured
    needs_heads = False  # measures what only a Transformer has
    rows: tuple[str, ...] = ()  # of workflow/paper/table5.csv, which it tests
    note: str  # above the grid
    words: tuple[str, ...] = ()  # the grid's headings of texts, which are set to the left

    def reads(self, run: Run, data: Data) -> list[Path]:
        """Return the files that are read besides the run's weights and the dev set."""
        return []

    def measure(self, run: EvaluatedRun, settings: Any) -> dict[str, Any]:
        """Return the keys that `Result` adds to OfRun, with their values."""

    def compare(self, row: str, files: DataFrame) -> list[Pair]:
        """Return the pairs of systems that a row of the table compares."""

    def grid(self, files: DataFrame) -> GridRows:
        """Lay out all that was measured, for the notes."""


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
