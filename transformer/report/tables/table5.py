"""Table 5: tests of the paper's explicit and implicit claims about its design.

The paper has no such table. workflow/paper/table5.csv has each claim, published results, and the row that tests it. A
row compares runs without and with a part of the model, or is an analysis of trained runs (evaluation/analyses).
"""

from math import nan
from typing import Any

import pandas as pd

from transformer.evaluation import significance
from transformer.evaluation.analyses import ANALYSES
from transformer.evaluation.analysis import Mean, RunsText
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Grid, Table, lay_out
from transformer.report.tables.table3 import read_last

_PERPLEXITY = "perplexity"  # the only row that compares perplexity; the others compare BLEU
# Names of analyses by row of table5.csv.
ANALYSIS_OF = {row: name for name, analysis in ANALYSES.items() for row in analysis.rows}


def table5(
    *,
    paper: str,
    score: list[str],
    test: list[str],
    label: str,
    dev_label: str,
    expected: list[str],
    ablations: dict[str, dict],
    expected_analyses: list[str],
    **analyses: list[str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    score, test: score files on the dev and the test set. ablations: rows trained for this table. expected_analyses: all
    expected results as ANALYSIS:RUN. analyses: files of each analysis.
    """
    runs, tested = read_last(score), read_last(test)
    analysed = {name: analysis.read(analyses[name]) for name, analysis in ANALYSES.items()}
    printed = read_claims(paper)
    published = lay_out(printed[printed["published"] != ""], _PUBLISHED_COLUMNS)
    named = {*printed["row"], *printed["against"]}
    # A user's own ablations:
    others = [name for name in runs["experiment"].unique() if name in ablations and name not in named]
    blank = dict.fromkeys(printed, "") | {"against": "base", "effect": nan}
    every = printed.to_dict("records")
    every += [blank | {"claim": f"For comparison: `{name}`.", "row": name} for name in others]
    sets = [(measured, measured[~measured["experiment"].isin(ablations)]) for measured in (runs, tested)]
    frame = pd.DataFrame(row for claim in every for row in _compare_claim(claim, sets, analysed))
    frame = frame.reindex(columns=[*_OF_CLAIM, *_OF_SET, *(f"test_{name}" for name in _OF_SET)])
    for p in ("p", "test_p"):
        frame[f"{p}_holm"] = significance.holm(frame[p])
    rows = _lines(frame.assign(firm=cells.firm(frame)))
    there = [f"{analysis}:{name}" for analysis, files in analysed.items() for name in files["name"]]
    unmeasured = ", ".join(name.replace(":", " of ") for name in cells.missing(expected_analyses, there))
    notes = [*cells.fixed("table5.how", "table5.detail"), lay_out(rows, _CLAIM_COLUMNS, detail=True)]
    notes += cells.gaps(expected, runs)
    notes += [cells.note("table5", "gaps", names=unmeasured)] if unmeasured else []
    notes += [[line.format(**cells.CONSTANTS) for line in cells.WORDS["table5"]["verdicts"]]]
    notes += cells.fixed("table5.chance", "scores.chance", "scores.paper", "scores.perplexity", "table5.published")
    notes.append(published)
    for name, analysis in ANALYSES.items():
        if len(files := analysed[name]):
            sentences = f"Measured on {files['sentences'].iloc[0]:,} sentences of the dev set."
            grid = [{heading: _cell(value) for heading, value in row.items()} for row in analysis.grid(files)]
            notes += [f"{analysis.note} {sentences}", Grid(analysis.words, grid)]
    own = runs[runs["experiment"].isin(frame["row"])]
    notes += cells.provenance(own, {"bleu": "BLEU", "dev_perplexity": "Perplexity"}, cells.note("table5", "trained"))
    table = cells.captioned("table5", lay_out(rows, _CLAIM_COLUMNS), notes, label=dev_label, test_label=label)
    unwritten = [f"test_{name}" for name in ("score", "against", "deviation", "seeds", "seeds_against", "runs")]
    return table, frame.drop(columns=unwritten).astype(dict.fromkeys(["seeds", "seeds_against"], "Int64"))


# The frame's columns: of a claim, and of a comparison on one set.
_OF_CLAIM = ["section", "claim", "row", "expected", "compared"]
_OF_SET = ["score", "against", "value", "low", "high", "p", "p_holm", "deviation", "seeds", "seeds_against", "runs"]
_OF_SET += ["verdict"]


def read_claims(path: str) -> pd.DataFrame:
    """Read table5.csv. `row` is the experiment or the analysis that tests the claim, and `effect` is a number."""
    table = cells.read_printed(path)
    table["effect"] = pd.to_numeric(table["effect"])  # NaN if none was published
    return table


def _compare_claim(
    claim: dict[str, Any], sets: list[tuple[pd.DataFrame, pd.DataFrame]], analysed: dict[str, pd.DataFrame]
) -> list[dict[str, Any]]:
    """Test a claim. Return a row for each comparison with its difference and its verdict.

    sets: for dev and test set, all runs, and Table 3's runs, which are the pool. A trained row has a second difference
    on the test set, with averaged weights. The names of its columns begin with `test_`.
    """
    row, against = claim["row"], claim["against"]
    if name := ANALYSIS_OF.get(row):
        pairs = ANALYSES[name].compare(row, analysed[name]) if len(analysed[name]) else []
        compared = [{"compared": words} | _tell(claim, own, other) for words, own, other in pairs]
    else:
        dev, test = (
            _tell(claim, *(measured[measured["experiment"] == name] for name in (row, against)), pool)
            for measured, pool in sets
        )
        words = f"`{row}` − `{against}`" if row in set(sets[0][0]["experiment"]) else ""
        compared = [{"compared": words} | dev]
        if "value" in test:
            compared[0] |= {f"test_{name}": value for name, value in test.items()}
    start = claim | {"against": nan, "test_verdict": ""}  # from here on, `against` is the other system's score
    return [start | each for each in compared or [{"compared": "", "verdict": "not run"}]]


def _tell(
    claim: dict[str, Any], own: pd.DataFrame, other: pd.DataFrame, pool: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Return the difference between two systems, if both have runs, and the verdict."""
    if not (len(own) and len(other)):
        return {"verdict": "not run"}
    difference = cells.paired(own, other, pool)
    least = 0.0 if claim["row"] == _PERPLEXITY else significance.TRANSLATES
    verdict = significance.verdict(claim["expected"], difference, claim["effect"], least)
    return difference._asdict() | {"verdict": verdict}


def _lines(compared: pd.DataFrame) -> pd.DataFrame:
    """List a line per comparison. Several comparisons of one claim follow a line with the claim."""
    lines = []
    for (claim, section), same in compared.groupby(["claim", "section"], sort=False):
        rows = same.to_dict("records")
        if len(rows) > 1:
            blank = dict.fromkeys(("row", "expected", "compared", "verdict", "test_verdict"), "")
            lines.append({"claim": claim, "section": section, "firm": False} | blank)
            rows = [row | {"claim": f"– {row['compared']}", "section": "", "compared": ""} for row in rows]
        lines += rows
    return pd.DataFrame(lines, columns=compared.columns)


def _difference_column(heading: str, text: str, detail: bool = False, prefix: str = "") -> Column:
    """Return a column with a difference in BLEU or perplexity. Its format has the fields as texts."""

    def cell(row: dict) -> Cell:
        difference = {name: row[prefix + name] for name in significance.Difference._fields}
        if pd.isna(difference["value"]):
            return Cell("")
        decimals, unit = (2, " PPL") if row["row"] == _PERPLEXITY else (1, "")
        texts = {name: cells.difference_text(difference[name], decimals) for name in ("value", "low", "high")}
        texts["score"] = cells.mean_text(difference["score"], difference["deviation"], decimals)
        counts = (f"{difference[name]:.0f}" for name in ("seeds", "seeds_against"))
        texts["seeds"] = " / ".join(dict.fromkeys(counts))
        return cells.ours(text.format(**texts, unit=unit), difference["runs"])

    return Column(heading, cell, detail)


_WHOLE = "{value}{unit} ({low} to {high})"
_CLAIM_COLUMNS = [
    Column("Claim", "claim", key=True),
    cells.verdict_column("dev", "verdict", "runs"),
    cells.verdict_column("test", "test_verdict", "test_runs"),
    _difference_column("Dev", _WHOLE),
    _difference_column("Test", _WHOLE, prefix="test_"),
    Column("Compared: expected", lambda row: ": ".join(filter(None, (row["compared"], row["expected"]))), text=True),
    Column("§", "section", detail=True, text=True),
    _difference_column("First, dev", "{score}", detail=True),
    _difference_column("First, test", "{score}", detail=True, prefix="test_"),
    cells.p_column("dev", "runs"),
    cells.p_column("test", "test_runs", "test_"),
    _difference_column("Seeds", "{seeds}", detail=True),
]


_PUBLISHED_FIELDS = {"§": "section", "Claim": "claim", "Published": "published", "Source": "source"}
_PUBLISHED_COLUMNS = [Column(heading, field, text=True) for heading, field in _PUBLISHED_FIELDS.items()]


def _cell(value: str | Mean | RunsText) -> str | Cell:
    """Make a cell with a result of an analysis."""
    match value:
        case Mean(runs, column, decimals):
            return cells.mean_cell(runs, column, decimals)
        case RunsText(text, runs):
            return cells.ours(text, " ".join(runs["name"]))
    return value
