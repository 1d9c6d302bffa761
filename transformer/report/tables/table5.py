"""Table 5: what the paper says, or takes for granted, of its own design, tested.

The paper has no such table. --paper has each claim, what was published of it, and the row that tests it: a run that
leaves the part out, against one that has it, or a measurement of trained runs (transformer/evaluation).
"""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from transformer.commandline import score_arguments
from transformer.config.runs import TABLE_5
from transformer.evaluation.significance import holm
from transformer.files import InputError
from transformer.report.tables import probed
from transformer.report.tables.cells import Cell, Row, difference_text, p_text
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.differences import LEVEL, MARGIN, NO_VERDICT, TRANSLATES, Difference, paired, verdict
from transformer.report.tables.notes import CHANCE_NOTE, PERPLEXITY_NOTE, gaps, provenance, tests_note
from transformer.report.tables.probegrids import measurements
from transformer.report.tables.render import Grid, Note, Table
from transformer.report.tables.table3 import read_runs

TITLE = "Table 5: the paper's claims about its design"
EXPECTED = ("lower", "higher", "alike", "")
NOT_RUN = "not run"
PERPLEXITY = "perplexity"  # the row that compares it, where the others compare BLEU

NAMES = ("Claim", "§")
WORDS = (*NAMES, "Compared", "Expected", "Here")
BEHIND = ("Compared", "Expected", "First", "p", "Seeds")
BEHIND_NOTE = "The same rows: what is compared, what is expected, the score of the first, p, and seeds."
HOW_NOTE = (
    "Difference: BLEU, or perplexity, of the first less that of the second of what is compared, each a mean over its "
    "seeds; 95 %: where the difference may lie by the same chances that p knows, or where p is missing, by the choice "
    "of sentences alone. Expected: what the first should be if the claim holds. Rows without a section are what others "
    "claim of the paper's design."
)
HERE_NOTE = [
    f"seen here: higher or lower as expected, with p < {LEVEL}; or alike, the whole interval within {MARGIN:g} BLEU",
    f"not seen here: the opposite, with p < {LEVEL}; or an effect as large as the published one, or as {MARGIN:g} BLEU "
    f"where that is less, lies outside the interval; or not alike, with p < {LEVEL}",
    f"cannot be told: anything else, and where neither reaches {TRANSLATES:g} BLEU",
    f"{NO_VERDICT}: different trainings, and neither of the two nor base has a second seed, so that there is no test",
]
TRAINED_NOTE = (
    "The trained rows; config.yaml says in what each differs from base. How much slower additive attention is, Table 1 "
    "measures."
)


class Claim(NamedTuple):
    """A row of --paper."""

    section: str
    claim: str
    row: str  # the experiment, or the measurement, that tests it
    against: str
    expected: str
    effect: float  # the size of the published difference, in BLEU, where it is less than MARGIN; else MARGIN
    published: str
    source: str


class Comparison(NamedTuple):
    """Two systems that are compared for a claim. `difference` is None where there is none, and `verdict` says why."""

    claim: Claim
    compared: str
    difference: Difference | None
    verdict: str


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--label", required=True, metavar="TEXT", help="the dev set behind our numbers")
    for probe in probed.PROBES:
        parser.add_argument(f"--{probe}", default=[], metavar="JSON", nargs="*", help=f"files of the probe {probe}")
    parser.add_argument(
        "--probes", default=[], metavar="PROBE:RUN", nargs="*", help="all measurements that should be there"
    )
    score_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    probed.check_expected(args.probes)
    runs = read_runs(args.score)
    measured = {probe: probed.read_probes(probe, getattr(args, probe)) for probe in probed.PROBES}
    frames = probed.frames_of(measured)
    claims = with_others(read_claims(args.paper), runs)
    comparisons = [comparison for claim in claims for comparison in compare(claim, runs, frames)]
    frame = pd.DataFrame([record(comparison) for comparison in comparisons])
    frame = frame.astype(dict.fromkeys(["seeds", "seeds_against"], "Int64"))
    frame.insert(frame.columns.get_loc("p") + 1, "p_holm", holm(frame["p"]))
    missing = [*gaps(args.expected, runs), *probed.missing_files(args.probes, measured)]
    grid, further = Grid(WORDS, lines(comparisons)).split(NAMES, BEHIND)
    notes: list[Note] = [BEHIND_NOTE, further, *missing, HOW_NOTE, HERE_NOTE, CHANCE_NOTE]
    notes += [tests_note(frame["p"][frame["value"].notna()], LEVEL), PERPLEXITY_NOTE, *published(claims)]
    notes += measurements(measured, frames)
    if len(runs):
        notes += [TRAINED_NOTE, provenance(runs, {"bleu": "BLEU", "dev_perplexity": "Perplexity"})]
    return Table("table5", TITLE, caption(args.label), grid, notes), frame


def caption(label: str) -> str:
    return (
        "What the paper says, or takes for granted, of its own design, and what is seen here: one part left out or "
        f"exchanged at a time. On {label}; trained rows by their last checkpoint alone, as in Table 3; what was "
        "measured on trained models, by their averaged weights, on the sentences that the notes name."
    )


def read_claims(path: str) -> list[Claim]:
    """Return the claims. Raises InputError naming the file and what it should have."""
    claims = []
    for line in read_csv(path, list(Claim._fields))[list(Claim._fields)].to_dict("records"):
        where = f"{path}: {line['row']}"
        if line["expected"] not in EXPECTED:
            choices = "lower, higher, alike or nothing"
            raise InputError(f"{where}: expected: expected {choices}, found {line['expected']!r}")
        try:
            claims.append(Claim(**line | {"effect": float(line["effect"] or MARGIN)}))
        except ValueError:
            raise InputError(f"{where}: effect: expected a number or nothing, found {line['effect']!r}") from None
    return claims


def with_others(claims: list[Claim], runs: pd.DataFrame) -> list[Claim]:
    """Return the claims, then each experiment that was run and that no claim names, beside base for comparison."""
    named = {*TABLE_5, *(name for claim in claims for name in (claim.row, claim.against))}
    others = [name for name in runs["experiment"].unique() if name not in named]
    return claims + [Claim("", f"For comparison: `{name}`.", name, "base", "", MARGIN, "", "") for name in others]


def compare(claim: Claim, runs: pd.DataFrame, frames: dict[str, pd.DataFrame]) -> list[Comparison]:
    """Return what tests a claim: one comparison of trained runs, or several of a probe's points."""
    if claim.row in probed.COMPARED:
        pairs = probed.COMPARED[claim.row](frames)
    else:
        systems = (runs[runs["experiment"] == name] for name in (claim.row, claim.against, "base"))
        pairs = [(f"`{claim.row}` − `{claim.against}`", *systems)]
    return [compared(claim, *pair) for pair in pairs] or [Comparison(claim, "", None, NOT_RUN)]


def compared(claim: Claim, words: str, own: pd.DataFrame, other: pd.DataFrame, *alike: pd.DataFrame) -> Comparison:
    """Return the comparison of two systems, a row per seed each; `alike` as in `paired`."""
    if own.empty or other.empty:
        return Comparison(claim, words, None, NOT_RUN)
    difference = paired(own, other, *alike)
    least = 0.0 if claim.row == PERPLEXITY else TRANSLATES
    return Comparison(claim, words, difference, verdict(claim.expected, difference, claim.effect, least))


def record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison with all digits, for the CSV file."""
    claim, compared, difference, said = comparison
    values = dict.fromkeys(field.name for field in fields(Difference))
    if difference:
        values = vars(difference) | {"runs": " ".join(difference.runs)}
    names = ("section", "claim", "row", "expected")
    return {name: getattr(claim, name) for name in names} | {"compared": compared} | values | {"verdict": said}


def published(claims: list[Claim]) -> list[Note]:
    """Return what others published of the claims."""
    rows = [
        {"§": claim.section, "Claim": claim.claim, "Published": claim.published, "Source": claim.source}
        for claim in claims
        if claim.published
    ]
    return ["What was published, as it was read there:", Grid(("§", "Claim", "Published", "Source"), rows)]


def lines(comparisons: list[Comparison]) -> list[Row]:
    """Return a line per comparison; several of one claim are named by what they compare, below a line of the claim."""
    rows: list[Row] = []
    for _, same in groupby(comparisons, key=lambda comparison: comparison.claim):
        several = [cells(comparison) for comparison in same]
        if len(several) > 1:
            rows.append({heading: cell if heading in NAMES else "" for heading, cell in several[0].items()})
            several = [row | {"Claim": f"– {row['Compared']}", "§": ""} for row in several]
        rows += several
    return rows


def cells(comparison: Comparison) -> Row:
    """Return one line of the table."""
    claim, compared, difference, said = comparison
    row: Row = {"Claim": claim.claim, "§": claim.section, "Compared": compared, "Expected": claim.expected}
    if difference is None:
        return row | dict.fromkeys(("First", "Difference", "95 %", "p", "Seeds"), Cell("")) | {"Here": said}
    decimals = 2 if claim.row == PERPLEXITY else 1
    low, high = (difference_text(limit, decimals) for limit in (difference.low, difference.high))
    texts = {
        "First": f"{difference.score:.{decimals}f}",
        "Difference": difference_text(difference.value, decimals),
        "95 %": f"{low} to {high}",
        "p": p_text(difference.p),
        "Seeds": " / ".join(map(str, dict.fromkeys((difference.seeds, difference.seeds_against)))),
        "Here": said,
    }
    return row | {heading: Cell(text, difference.runs if text else ()) for heading, text in texts.items()}
