"""Table 5: what the paper says, or takes for granted, of its own design, tested.

The paper has no such table. workflow/paper/table5.csv has each claim, what was published of it, and the row that tests
it: a run that leaves the part out, against one that has it, or an analysis of trained runs (transformer/evaluation).
"""

from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd

from transformer.evaluation.analyses import PAYLOADS
from transformer.evaluation.significance import holm
from transformer.files import InputError
from transformer.registry import TABLE_5, TABLES
from transformer.report.tables.analysed import COMPARED, analysis_notes, read_analysis
from transformer.report.tables.cells import Cell, difference_text, ours, p_text, read_printed
from transformer.report.tables.differences import MARGIN, TRANSLATES, Difference, paired, verdict
from transformer.report.tables.notes import CONSTANTS, WORDS, gaps, missing, note, provenance, tests_note
from transformer.report.tables.render import Column, Note, Table, lay_out
from transformer.report.tables.table3 import read_last

EXPECTATIONS = ("lower", "higher", "alike", "")
UNTESTABLE = "not run"
PERPLEXITY = "perplexity"  # the row that compares it; the others compare BLEU


class Claim(NamedTuple):
    """A row of workflow/paper/table5.csv."""

    section: str
    claim: str
    row: str  # the experiment, or the analysis, that tests it
    against: str
    expected: str
    effect: float  # size of the published difference, in BLEU, if it is less than MARGIN; else MARGIN
    published: str
    source: str


def table5(input: SimpleNamespace, params: SimpleNamespace) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    input: paper, score (files), and the files of each analysis under its name. params: label of our dev set; expected
    (runs); probes, all analyses that should be there, each as ANALYSIS:RUN.
    """
    runs = read_last(input.score)
    analysed = {name: read_analysis(name, getattr(input, name)) for name in PAYLOADS}
    claims = with_others(read_claims(input.paper), runs)
    compared = [comparison for claim in claims for comparison in compare_claim(claim, runs, analysed)]
    frame = pd.DataFrame([record(comparison) for comparison in compared])
    frame = frame.astype(dict.fromkeys(["seeds", "seeds_against"], "Int64"))
    frame.insert(frame.columns.get_loc("p") + 1, "p_holm", holm(frame["p"]))
    rows = lines(compared)
    notes: list[Note] = [
        note("table5", "detail"),
        lay_out(rows, CLAIM_COLUMNS, detail=True),
        *gaps(params.expected, runs),
    ]
    notes += [*missing_analyses(params.probes, analysed), note("table5", "how")]
    notes += [[line.format(**CONSTANTS) for line in WORDS["table5"]["verdicts"]], note("scores", "chance")]
    notes += [tests_note(frame["value"], frame["p"]), note("scores", "perplexity"), *published(claims)]
    notes += analysis_notes(analysed)
    notes += provenance(runs, {"bleu": "BLEU", "dev_perplexity": "Perplexity"}, note("table5", "trained"))
    caption = note("table5", "caption", label=params.label)
    return Table("table5", TABLES["table5"].title, caption, lay_out(rows, CLAIM_COLUMNS), notes), frame


def read_claims(path: str) -> list[Claim]:
    """Read the claims. Raises InputError naming the row and what it should have."""
    claims = []
    for line in read_printed(path, list(Claim._fields))[list(Claim._fields)].to_dict("records"):
        where = f"{path}: {line['row']}"
        if line["expected"] not in EXPECTATIONS:
            choices = "lower, higher, alike or nothing"
            raise InputError(f"{where}: expected: expected {choices}, found {line['expected']!r}")
        try:
            claims.append(Claim(**line | {"effect": float(line["effect"] or MARGIN)}))
        except ValueError:
            raise InputError(f"{where}: effect: expected a number or nothing, found {line['effect']!r}") from None
    return claims


def with_others(claims: list[Claim], runs: pd.DataFrame) -> list[Claim]:
    """Add each experiment that was run and that no claim names, beside base for comparison."""
    named = {*TABLE_5, *(name for claim in claims for name in (claim.row, claim.against))}
    others = [name for name in runs["experiment"].unique() if name not in named]
    return claims + [Claim("", f"For comparison: `{name}`.", name, "base", "", MARGIN, "", "") for name in others]


def compare_claim(claim: Claim, runs: pd.DataFrame, analysed: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Test a claim: by one comparison of trained runs, or by several of an analysis's points.

    Adds to the claim's values what is `compared`, the `difference`, and the `verdict`, or why there is none.
    """
    if claim.row in COMPARED:
        analysis, pairs_of = COMPARED[claim.row]
        pairs = pairs_of(analysed[analysis]) if len(analysed[analysis]) else []
    else:
        own, other, base = (runs[runs["experiment"] == name] for name in (claim.row, claim.against, "base"))
        pairs = [(f"`{claim.row}` − `{claim.against}`", own, other, base)]
    rows = []
    for words, own, other, *alike in pairs or [("", runs[:0], runs[:0])]:
        difference, said = None, UNTESTABLE
        if len(own) and len(other):
            difference = paired(own, other, *alike)
            least = 0.0 if claim.row == PERPLEXITY else TRANSLATES
            said = verdict(claim.expected, difference, claim.effect, least)
        rows.append(claim._asdict() | {"compared": words, "difference": difference, "verdict": said})
    return rows


def record(row: dict[str, Any]) -> dict[str, Any]:
    """List a comparison with all digits, for the CSV file."""
    values = dict.fromkeys(field.name for field in fields(Difference))
    if difference := row["difference"]:
        values = vars(difference) | {"runs": " ".join(difference.runs)}
    start = {name: row[name] for name in ("section", "claim", "row", "expected", "compared")}
    return start | values | {"verdict": row["verdict"]}


def lines(compared: list[dict[str, Any]]) -> pd.DataFrame:
    """List a line per comparison; several of one claim are named by what they compare, below a line of the claim."""
    rows = []
    for _, same in groupby(compared, key=itemgetter(*Claim._fields)):
        several = list(same)
        if len(several) > 1:
            head = several[0] | {"expected": "", "compared": "", "difference": None, "verdict": ""}
            several = [head, *(row | {"claim": f"– {row['compared']}", "section": ""} for row in several)]
        rows += several
    return pd.DataFrame(rows)


def difference_column(heading: str, text: str, detail: bool = False) -> Column:
    """Show a field of a difference in BLEU or perplexity, by a format that gets the fields as texts."""

    def cell(row: dict) -> Cell:
        difference, decimals = row["difference"], 2 if row["row"] == PERPLEXITY else 1
        if difference is None:
            return Cell("")
        texts = {name: difference_text(getattr(difference, name), decimals) for name in ("value", "low", "high")}
        texts |= {"score": f"{difference.score:.{decimals}f}", "p": p_text(difference.p)}
        texts["seeds"] = " / ".join(map(str, dict.fromkeys((difference.seeds, difference.seeds_against))))
        return ours(text.format(**texts), " ".join(difference.runs))

    return Column(heading, cell, detail)


CLAIM_COLUMNS = [
    Column("Claim", "claim", key=True),
    Column("§", "section", key=True),
    Column("Compared", "compared", detail=True, text=True),
    Column("Expected", "expected", detail=True, text=True),
    difference_column("First", "{score}", detail=True),
    difference_column("Difference", "{value}"),
    difference_column("95 %", "{low} to {high}"),
    difference_column("p", "{p}", detail=True),
    difference_column("Seeds", "{seeds}", detail=True),
    Column("Here", lambda row: ours(row["verdict"], " ".join(getattr(row["difference"], "runs", ()))), text=True),
]


def published(claims: list[Claim]) -> list[Note]:
    """Lay out what others published of the claims."""
    rows = pd.DataFrame([claim._asdict() for claim in claims if claim.published], columns=Claim._fields)
    columns = {"§": "section", "Claim": "claim", "Published": "published", "Source": "source"}
    grid = lay_out(rows, [Column(heading, name, text=True) for heading, name in columns.items()])
    return [note("table5", "published"), grid]


def missing_analyses(expected: list[str], analysed: dict[str, pd.DataFrame]) -> list[Note]:
    """Name in a paragraph what was not measured, of what is expected as ANALYSIS:RUN; none if all is there."""
    there = [f"{analysis}:{name}" for analysis, files in analysed.items() for name in files["name"]]
    names = [name.replace(":", " of ") for name in missing(expected, there)]
    return [note("table5", "gaps", names=", ".join(names))] if names else []
