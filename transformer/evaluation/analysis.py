"""The parts of an analysis in Table 5, and the shared types of analyses. This module imports no torch, NumPy or pandas.

BLEU is computed on the dev set's plain text. `draws` are BLEU on resampled sets, and 95 % of them are between `low` and
`high`. `length_ratio` is words in the translations over words in the references. Losses are means of the unsmoothed
cross-entropy over target tokens, in nats, with the reference as the decoder's input.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta

from transformer.config.experiment import described
from transformer.evaluation.scores import require_one
from transformer.layout import Data, Run
from transformer.storage.reading import Section
from transformer.storage.records import Amount, Checksum, Draws, Positive, RunRecord, read_of_run, run_name

if TYPE_CHECKING:
    from pandas import DataFrame

    from transformer.evaluation.evaluated_run import EvaluatedRun
else:  # the imports take seconds
    DataFrame = EvaluatedRun = Any

Numbers = Annotated[list[Annotated[int, Meta(ge=1, le=1000)]], Meta(min_length=1)]
Beams = Annotated[Numbers, described("Beam sizes, each of which translates the dev set (§5.4, §6.1).")]
RUN_KEYS = ["task", "experiment", "seed", "scale", "fidelity"]


class RunSettings(Section, kw_only=True):
    """Common settings of all analyses of trained runs: keys of `analyses` in config.yaml, and options of `analyse`."""

    sentences: Annotated[
        int, Meta(ge=10, le=1_000_000), described("Maximum number of dev sentences that are measured.")
    ] = 100_000


class OfRun(TypedDict):  # the common keys of analysis files, together with "language"
    run: RunRecord
    sentences: Positive
    target_sha256: Checksum


class Bleu(TypedDict):
    bleu: float
    low: float
    high: float
    draws: Draws
    length_ratio: Amount


class Mean(NamedTuple):  # a cell with the mean of a column over runs
    runs: DataFrame
    column: str
    decimals: int


class RunsText(NamedTuple):  # a cell
    text: str
    runs: DataFrame


GridRows = list[dict[str, str | Mean | RunsText]]  # by heading
Pair = tuple[str, DataFrame, DataFrame]  # a description of the comparison, and its two systems with a row per run


class Analysis:
    """An analysis of trained runs, as config.yaml, the workflow, `analyse` and Table 5 use it.

    The frames `files` are results of `read`.
    """

    Settings: type[RunSettings]
    Result: type[OfRun]
    experiments: tuple[str, ...]  # the runs of these experiments are measured
    of_baselines = False  # whether Table 2's rows of other architectures are measured, too
    needs_heads = False  # whether the analysis measures attention heads, which only a Transformer has
    needs_data = False  # whether the analysis reads the encoded training text
    rows: tuple[str, ...] = ()  # tested rows of workflow/paper/table5.csv
    note: str  # above the grid
    words: tuple[str, ...] = ()  # the grid's left-aligned headings

    def reads(self, run: Run, data: Data) -> list[Path]:
        """Return the input files in addition to the run's weights and the dev set."""
        return []

    def measure(self, run: EvaluatedRun, settings: Any) -> dict[str, Any]:
        """Return the keys that `Result` adds to OfRun, with their values."""

    def read(self, paths: Iterable[str]) -> DataFrame:
        """Read a row per file, with the keys of `Result`, the run's name and RUN_KEYS.

        Raises InputError on files that do not belong together.
        """
        import pandas as pd

        contents = []
        for path in paths:
            content = read_of_run(path, self.Result)
            run = content["run"]
            of_run = {"name": run_name(run), "file": path} | {key: run[key] for key in RUN_KEYS}
            contents.append(content | of_run)
        files = pd.DataFrame(contents, columns=[*self.Result.__annotations__, "name", "file", *RUN_KEYS])
        require_one(files, "scale", "fidelity", "sentences", "target_sha256")
        return files

    def compare(self, row: str, files: DataFrame) -> list[Pair]:
        """Return the pairs of systems that a row of the table compares."""

    def grid(self, files: DataFrame) -> GridRows:
        """Arrange all measurements as a grid for the notes."""


def entries(files: DataFrame, key: str) -> DataFrame:
    """List the entries of `key` in all files. A row has name and RUN_KEYS, the index `place`, and the entry's keys."""
    import pandas as pd

    return pd.DataFrame(
        {name: content[name] for name in ("name", *RUN_KEYS)} | {"place": place} | entry
        for content in files.to_dict("records")
        for place, entry in enumerate(content[key])
    )


def base_and(experiment: str, measured: DataFrame, words: str) -> Pair:
    """Compare base with another experiment."""
    return words, measured[measured["experiment"] == "base"], measured[measured["experiment"] == experiment]
