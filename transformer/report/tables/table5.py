"""Table 5: what the paper says, or takes for granted, of its own design, tested.

The paper has no such table. workflow/paper/table5.csv has each claim, what was published of it, and the row that tests
it: a run that leaves the part out, against one that has it, or an analysis of trained runs (evaluation/analyses).
"""

from collections.abc import Iterable
from itertools import groupby
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple

import pandas as pd

from transformer.evaluation import significance
from transformer.evaluation.analyses import ANALYSES
from transformer.evaluation.analysis import RUN_KEYS, Analysis, Mean, RunsText
from transformer.evaluation.scores import require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Grid, Table, lay_out
from transformer.report.tables.table3 import read_last
from transformer.storage.records import read_of_run, run_name

_PERPLEXITY = "perplexity"  # the row that compares it; the others compare BLEU
ANALYSIS_OF = {row: name for name, analysis in ANALYSES.items() for row in analysis.rows}  # by row of table5.csv


class Claim(NamedTuple):
    """A row of workflow/paper/table5.csv."""

    section: str
    claim: str
    row: str  # the experiment, or the analysis, that tests it
    against: str
    expected: str
    effect: float  # size of the published difference, in its own unit, if it is less than MARGIN; else MARGIN
    published: str
    source: str


def table5(
    *,
    paper: str,
    score: list[str],
    test: list[str],
    label: str,
    dev_label: str,
    expected: list[str],
    claims: dict[str, dict],
    probes: list[str],
    **analyses: list[str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    score, test: score files on the dev set and on the test set. claims: the rows that are trained for this table.
    probes: all analyses that should be there, each as ANALYSIS:RUN. analyses: the files of each analysis.
    """
    runs, tested = read_last(score), read_last(test)
    analysed = {name: _read_analysis(name, analyses[name]) for name in ANALYSES}
    printed = read_claims(paper)
    named = {name for claim in printed for name in (claim.row, claim.against)}
    others = [name for name in runs["experiment"].unique() if name in claims and name not in named]  # a user's
    own_rows = [
        Claim("", f"For comparison: `{name}`.", name, "base", "", significance.MARGIN, "", "") for name in others
    ]
    compared = [row for claim in printed + own_rows for row in _compare_claim(claim, runs, tested, analysed)]
    frame = _frame_of(compared)
    rows = _lines(compared)
    there = [f"{analysis}:{name}" for analysis, files in analysed.items() for name in files["name"]]
    unmeasured = ", ".join(name.replace(":", " of ") for name in cells.missing(probes, there))
    published = pd.DataFrame([claim._asdict() for claim in printed if claim.published], columns=Claim._fields)
    notes = [*cells.fixed("table5.how", "table5.detail"), lay_out(rows, _CLAIM_COLUMNS, detail=True)]
    notes += cells.gaps(expected, runs)
    notes += [cells.note("table5", "gaps", names=unmeasured)] if unmeasured else []
    notes += [[line.format(**cells.CONSTANTS) for line in cells.WORDS["table5"]["verdicts"]]]
    notes += [*cells.fixed("table5.chance"), cells.tests_note(frame["value"], frame["p"])]
    notes += [*cells.fixed("scores.perplexity", "table5.published"), lay_out(published, _PUBLISHED_COLUMNS)]
    for name, analysis in ANALYSES.items():
        if len(files := analysed[name]):
            sentences = f"Measured on {files['sentences'].iloc[0]:,} sentences of the dev set."
            notes += [f"{analysis.note} {sentences}", _lay_out_grid(analysis, files)]
    own = runs[runs["experiment"].isin({row["row"] for row in compared})]
    notes += cells.provenance(own, {"bleu": "BLEU", "dev_perplexity": "Perplexity"}, cells.note("table5", "trained"))
    main = lay_out(rows, _CLAIM_COLUMNS)
    return cells.captioned("table5", main, notes, label=dev_label, test_label=label), frame


def read_claims(path: str) -> list[Claim]:
    table = cells.read_printed(path)
    table["effect"] = pd.to_numeric(table["effect"]).fillna(significance.MARGIN)
    return [Claim(**line) for line in table[list(Claim._fields)].to_dict("records")]


def _compare_claim(
    claim: Claim, runs: pd.DataFrame, tested: pd.DataFrame, analysed: dict[str, pd.DataFrame]
) -> list[dict[str, Any]]:
    """Test a claim: add what is `compared`, differences and verdicts, in a row for each comparison.

    A trained row has a second difference, `test`, of averaged weights on the test set.
    """
    if name := ANALYSIS_OF.get(claim.row):
        pairs = ANALYSES[name].compare(claim.row, analysed[name]) if len(analysed[name]) else []
        compared = [(words, _tell(claim, own, other), (None, "")) for words, own, other in pairs]
    else:
        words = f"`{claim.row}` − `{claim.against}`" if claim.row in set(runs["experiment"]) else ""
        told = []
        for measured in (runs, tested):
            own, other = (measured[measured["experiment"] == name] for name in (claim.row, claim.against))
            told.append(_tell(claim, own, other, measured))
        compared = [(words, *told)]
    rows = []
    for words, (difference, said), (test, said_of_test) in compared or [("", (None, "not run"), (None, ""))]:
        row = {"compared": words, "difference": difference, "verdict": said, "test": test}
        rows.append(claim._asdict() | row | {"test_verdict": said_of_test if test else ""})
    return rows


def _tell(claim: Claim, own: pd.DataFrame, other: pd.DataFrame, pool: pd.DataFrame | None = None):
    """Compare two systems: the difference, if both were run, and the verdict."""
    if not (len(own) and len(other)):
        return None, "not run"
    difference = cells.paired(own, other, pool)
    least = 0.0 if claim.row == _PERPLEXITY else significance.TRANSLATES
    return difference, significance.verdict(claim.expected, difference, claim.effect, least)


def _frame_of(compared: list[dict[str, Any]]) -> pd.DataFrame:
    """List a row per comparison with all digits, for the CSV file."""
    rows = []
    for row in compared:
        values, test = dict.fromkeys(significance.Difference._fields), row["test"]
        if difference := row["difference"]:
            values = difference._asdict() | {"runs": " ".join(difference.runs)}
        start = {name: row[name] for name in ("section", "claim", "row", "expected", "compared")}
        second = {f"test_{name}": getattr(test, name, None) for name in ("value", "low", "high", "p")}
        rows.append(start | values | {"verdict": row["verdict"]} | second | {"test_verdict": row["test_verdict"]})
    frame = pd.DataFrame(rows).astype(dict.fromkeys(["seeds", "seeds_against"], "Int64"))
    frame.insert(frame.columns.get_loc("p") + 1, "p_holm", significance.holm(frame["p"]))
    return frame


def _lines(compared: list[dict[str, Any]]) -> pd.DataFrame:
    """List a line per comparison; several of one claim are named by what they compare, below a line of the claim."""
    rows = []
    for _, same in groupby(compared, key=itemgetter(*Claim._fields)):
        several = list(same)
        if len(several) > 1:
            blank = dict.fromkeys(("expected", "compared", "verdict", "test_verdict"), "")
            blank |= dict.fromkeys(("difference", "test"))
            own = [row | {"claim": f"– {row['compared']}", "section": "", "compared": ""} for row in several]
            several = [several[0] | blank, *own]
        rows += several
    return pd.DataFrame(rows)


def _difference_column(heading: str, text: str, detail: bool = False, key: str = "difference") -> Column:
    """Show a field of a difference in BLEU or perplexity, by a format that gets the fields as texts."""

    def cell(row: dict) -> Cell:
        difference, perplexity = row[key], row["row"] == _PERPLEXITY
        if difference is None:
            return Cell("")
        decimals, unit = (2, " PPL") if perplexity else (1, "")
        texts = {name: cells.difference_text(getattr(difference, name), decimals) for name in ("value", "low", "high")}
        texts |= {"score": cells.mean_text(difference.score, nan, decimals), "p": cells.p_text(difference.p)}
        texts["seeds"] = " / ".join(map(str, dict.fromkeys((difference.seeds, difference.seeds_against))))
        return cells.ours(text.format(**texts, unit=unit), " ".join(difference.runs))

    return Column(heading, cell, detail)


def _verdict_column(heading: str, key: str, of: str) -> Column:
    def cell(row: dict) -> Cell:
        said = cells.said(row[of], row["verdict"], row["test_verdict"])
        return cells.ours(said, " ".join(getattr(row[key], "runs", ())))

    return Column(heading, cell, text=True)


_WHOLE = "{value}{unit} ({low} to {high})"
_CLAIM_COLUMNS = [
    Column("Claim", "claim", key=True),
    _verdict_column("Seen on dev?", "difference", "verdict"),
    _difference_column("Dev", _WHOLE),
    _verdict_column("Seen on test?", "test", "test_verdict"),
    _difference_column("Test", _WHOLE, key="test"),
    Column("Compared: expected", lambda row: ": ".join(filter(None, (row["compared"], row["expected"]))), text=True),
    Column("§", "section", detail=True, text=True),
    _difference_column("First", "{score}", detail=True),
    _difference_column("p", "{p}", detail=True),
    _difference_column("Seeds", "{seeds}", detail=True),
]


_PUBLISHED_FIELDS = {"§": "section", "Claim": "claim", "Published": "published", "Source": "source"}
_PUBLISHED_COLUMNS = [Column(heading, field, text=True) for heading, field in _PUBLISHED_FIELDS.items()]


def _read_analysis(name: str, paths: Iterable[str]) -> pd.DataFrame:
    """Read a row per file of an analysis, with its run. Raises InputError on files that do not belong together."""
    contents, result = [], ANALYSES[name].Result
    for path in paths:
        content = read_of_run(path, result)
        run = content["run"]
        of_run = {"name": run_name(run)} | {key: run[key] for key in ("experiment", "seed", "scale", "fidelity")}
        contents.append(content | of_run | {"file": path})
    files = pd.DataFrame(contents, columns=[*result.__annotations__, *RUN_KEYS, "scale", "fidelity", "file"])
    require_one(files, "scale", "fidelity", "sentences", "target_sha256")
    return files


def _lay_out_grid(analysis: Analysis, files: pd.DataFrame) -> Grid:
    """Lay out what an analysis measured, for the notes."""
    return Grid(analysis.words, [{name: _cell(value) for name, value in row.items()} for row in analysis.grid(files)])


def _cell(value: str | Mean | RunsText) -> str | Cell:
    match value:
        case Mean(runs, column, decimals):
            return cells.mean_cell(runs, column, decimals)
        case RunsText(text, runs):
            return cells.ours(text, " ".join(runs["name"]))
    return value
