"""Scores of one and the same translation by every measure.

The translations are those of systems of others, each beside the score that its makers published and ours, of the same
file. --system describes one as JSON: name, label, language, test, sentences, form (text or tokens), a note
or null, and the paths of its files: source and target of the whole test set, input, output and perhaps published.
"""

from argparse import ArgumentParser, Namespace

import pandas as pd

from transformer.commandline import json_object
from transformer.evaluation.bleu import PAPER
from transformer.evaluation.misleading import marks, warnings
from transformer.provenance import versions
from transformer.report.tables.cells import Row, difference_text
from transformer.report.tables.choices import MEASURE_NAMES, PAPER_NAME
from transformer.report.tables.render import Grid, Note, Table
from transformer.report.tables.systems import System, read_system
from transformer.report.tables.systemscores import COLUMNS, RECIPE, quote_rows, rows_of
from transformer.report.tables.why import printed_bleu
from transformer.text import read_lines

TITLE = "One translation by every measure"
# Measures of bleu.py in the first grid, of which some languages lack one.
SHOWN = {"sacrebleu": "sacreBLEU", "tokenized": "Tokenised", "compound_split": "Split", PAPER: "Paper's"}
SHOWN |= {"intl": "International"}
MEASURES_NOTE = (
    "Published: what the makers published. Ours: sacreBLEU of the output as they have it. Where they published a "
    "signature, it says that theirs is sacreBLEU, too; where they published a score alone, that is our inference from "
    "the agreement of the two. The other columns are of the output's text: sacreBLEU; multi-bleu.perl on Moses tokens "
    "(Tokenised), with German compounds split at hyphens as well (Split), and with the reference's quotation marks "
    "made plain as well (Paper's); and sacreBLEU with international tokens. The paper's authors counted German as "
    "under Paper's, by one account (`docs/bleu.md`). How they counted French is not known: there Paper's is the same "
    "without compounds."
)
TOKENS_NOTE = (
    "{names}: the makers scored tokens with compounds split (`##AT##-##AT##`), against the reference tokenised and "
    "split in the same way. sacreBLEU splits each `##AT##` further, into tokens that are easily right. For the other "
    "columns the splits were undone and the text detokenised."
)
TWICE_NOTE = (
    "`{name}`: sentences whose source the test set has more than once, with different references: {count}; the first "
    "was taken."
)
WARNINGS_NOTE = "Where measures mislead, as the stage `score` warns:"
CHOICES_NOTE = "What each choice is worth: the difference from the paper's measure of the same translation."
QUOTES_NOTE = (
    "Why the paper's measure is above or below sacreBLEU, step by step: the tokeniser, the compounds, and the plain "
    "quotation marks in the reference. The last step gains where the reference has Unicode marks and the output plain "
    "ones. It costs where the output has Unicode ones, too, as the measure takes plain ones for granted. Double marks "
    "are counted: first in whole references, then in the sentences that were scored."
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--system", required=True, action="append", type=json_object, metavar="JSON", help="what a system made; repeat"
    )
    parser.add_argument(
        "--quotes",
        default=[],
        nargs=2,
        action="append",
        metavar=("NAME", "FILE"),
        help="references in which quotation marks are counted; repeat",
    )


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    systems = [read_system(entry) for entry in args.system]
    rows = [row for system in systems for row in rows_of(system)]
    for name, path in args.quotes:
        lines = list(read_lines(path))
        rows += quote_rows({"system": "", "label": "", "test": name, "sentences": len(lines)}, "reference", lines)
    frame = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(["tokens", "reference_tokens"], "Int64"))
    return for_readers(frame, systems, printed_bleu(args.paper)), frame


def for_readers(frame: pd.DataFrame, systems: list[System], printed: str) -> Table:
    """Return the table, with what each choice is worth, the reasons, and the origin of each file in notes.

    printed: the paper's BLEU for its base model.
    """
    caption = (
        "One and the same translation by every measure. Each row is the output of a system of others, beside the score "
        f"that its makers published. The paper's {printed} is by its own measure, on all 3,003 sentences of "
        "newstest2014: no German row of fewer sentences compares with it."
    )
    values = {system.name: by_choice(frame[frame["system"] == system.name]) for system in systems}
    rows = [first_row(system, values[system.name]) for system in systems]
    notes = [MEASURES_NOTE, *about_outputs(systems)]
    notes += [CHOICES_NOTE, choice_grid(frame, systems)]
    notes += [QUOTES_NOTE, quotes_grid(frame, values)]
    return Table("measures", TITLE, caption, Grid(("System",), rows), notes + provenance(systems, frame))


def first_row(system: System, values: dict) -> Row:
    """Return one line of the table."""
    published, paper = system.published, values["measure", PAPER]
    row = {
        "System": system.name,
        "Sentences": f"{len(system.output):,}",
        "Published": published["score"] if published else "",
        "Ours": f"{values['ours', RECIPE]:.2f}",
    }
    for name, heading in SHOWN.items():
        row[heading] = f"{values['measure', name]:.2f}" if ("measure", name) in values else ""
    return row | {"Paper's − sacreBLEU": difference_text(paper - values["measure", "sacrebleu"], 2)}


def about_outputs(systems: list[System]) -> list[Note]:
    """Return what has to be known of some outputs, or of their scores."""
    notes: list[Note] = []
    if split := [f"`{system.name}`" for system in systems if system.form == "tokens"]:
        notes.append(TOKENS_NOTE.format(names=" and ".join(split)))
    notes += [f"`{system.name}`: {system.note}." for system in systems if system.note]
    notes += [TWICE_NOTE.format(name=system.name, count=system.ambiguous) for system in systems if system.ambiguous]
    lines = [f"`{system.name}`: {warning}." for system in systems for warning in warnings_of(system)]
    return [*notes, WARNINGS_NOTE, lines] if lines else notes


def warnings_of(system: System) -> list[str]:
    """Return where a measure of the system's text misleads."""
    sides = marks(system.hypotheses), marks(system.references)
    return warnings(*sides, len(system.references), ("the output", "the reference"))


def choice_grid(frame: pd.DataFrame, systems: list[System]) -> Grid:
    """Return a row per choice and a column per system."""
    changed = frame[frame["kind"].isin(["ours", "measure", "mistake"]) & (frame["choice"] != PAPER)]
    table = changed.pivot(index="choice", columns="system", values="difference").reindex(changed["choice"].unique())
    rows = [
        {"Choice": MEASURE_NAMES.get(str(choice), str(choice))}
        | {s.name: difference_text(row[s.name], 2) for s in systems}
        for choice, row in table.iterrows()
    ]
    return Grid(("Choice",), rows)


def quotes_grid(frame: pd.DataFrame, values: dict[str, dict]) -> Grid:
    """Return a row per whole test set, then per system, with quotation marks and the steps to the paper's measure."""
    whole = frame[(frame["kind"] == "quotes") & (frame["system"] == "")]
    texts = {str(test): by_choice(of_test) for test, of_test in whole.groupby("test", sort=False)}
    rows = []
    for name, of_text in (texts | values).items():
        row = {"Text": name}
        for side in ("reference", "output"):
            for kind in ("Unicode", "plain"):
                count = of_text.get(("quotes", f"{side}, {kind}"))
                row[f"{side.capitalize()}, {kind}"] = "" if count is None else f"{count:,.0f}"
        rows.append(row | steps(of_text))
    return Grid(("Text",), rows)


def steps(of_text: dict) -> Row:
    """Return the steps from sacreBLEU to the paper's measure, of which that of compounds is taken in German alone."""
    scores = {choice: value for (kind, choice), value in of_text.items() if kind == "measure"}
    before_quotes = "compound_split" if "compound_split" in scores else "tokenized"
    ends = {"Tokeniser": ("sacrebleu", "tokenized"), "Compounds": ("tokenized", "compound_split")}
    ends |= {"Quotes": (before_quotes, PAPER), "Sum": ("sacrebleu", PAPER)}
    return {
        heading: difference_text(scores[end] - scores[start], 2) if {start, end} <= scores.keys() else ""
        for heading, (start, end) in ends.items()
    }


def by_choice(frame: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return the values of one system's rows by kind and choice."""
    return frame.set_index(["kind", "choice"])["value"].to_dict()


def provenance(systems: list[System], frame: pd.DataFrame) -> list[Note]:
    """Return where the outputs come from, what their makers published, and what ours were computed with."""
    rows = [
        {
            "System": system.name,
            "Made by": system.label,
            "Test set": system.test,
            **{f"{name.capitalize()}, SHA-256": system.sums[name][:12] for name in ("output", "input", "target")},
            "Published as": f"`{system.published['signature']}`" if (system.published or {}).get("signature") else "",
        }
        for system in systems
    ]
    measured = frame[frame["kind"] == "measure"].drop_duplicates("choice")
    names = {PAPER: PAPER_NAME} | MEASURE_NAMES
    lines = [f"{names[row.choice]}: `{row.signature}`" for row in measured.itertuples()]
    lines.append(", ".join(f"{name} {number}" for name, number in versions().items()))
    return ["Where they come from:", Grid(tuple(rows[0]), rows), "Computed with:", lines]
