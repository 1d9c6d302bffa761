"""Why is my BLEU not 27.3? What each choice in scoring, averaging, decoding and training is worth.

--score and all translations of the test set are those of the base model, a file per seed, in the same order. --expected
names the base model's runs and those of Table 3 that differ in training. The table names what was not run.
"""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

import pandas as pd

from transformer.commandline import json_object, score_arguments
from transformer.config.experiment import Decoding, load
from transformer.data.subwords import Subwords
from transformer.data.tokenization import Moses
from transformer.evaluation.bleu import PAPER
from transformer.evaluation.records import WithSubsets, read_translated
from transformer.evaluation.scorefiles import read_scores, require_one
from transformer.files import InputError, sha256
from transformer.report.tables.cells import Cell, Row, difference_text, p_text
from transformer.report.tables.choices import (
    COLUMNS,
    MEASURE_NAMES,
    PAPER_NAME,
    Base,
    of_own_text,
    row,
    scoring,
    seeds,
    training,
    translating,
)
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.notes import CHANCE_NOTE, gaps, provenance
from transformer.report.tables.render import Grid, Table
from transformer.report.tables.table2 import system_name
from transformer.report.tables.table3 import against_base, from_base, read_runs
from transformer.text import read_lines, read_pairs

TITLE = "What each choice is worth"
WORDS = ("Kind", "Choice")

SYSTEM, COLUMN = system_name("base"), "en-de_bleu"  # whose printed BLEU the question is about
NOT_RUN = "not run at this scale"
NOT_MEASURED = (
    "No row measures, though often asked about: smaller batches, another ε of Adam, 16-bit numbers, other training "
    "text. Table 5 has layer normalisation before the sub-layer, and averaging on the dev set."
)
P_NOTE = (
    "Rows of Table 3 are different trainings, and have its p. Scored otherwise, the same translations have no p: the "
    "difference is what the measure does, not chance."
)
OF_OTHERS = "scoring of "  # what the kind of their rows begins with
OTHERS_NOTE = (
    "Kind “{kind}”: one real system's translations of newstest2014, from the table `measures`. These differences are "
    "from the paper's measure of the same translations."
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--label", required=True, metavar="TEXT", help="the test set")
    parser.add_argument("--hyp", required=True, metavar="FILE", nargs="*", help="what each score is of, in their order")
    parser.add_argument("--ref", required=True, metavar="FILE", help="the references of them all")
    parser.add_argument(
        "--run", required=True, type=Path, metavar="DIR", help="a folder of the base model, for its vocabulary"
    )
    parser.add_argument("--last", default=[], metavar="FILE", nargs="*", help="the same by the last checkpoint alone")
    parser.add_argument(
        "--otherwise",
        default=[],
        action="append",
        metavar=("JSON", "FILE"),
        nargs="+",
        help="the same by another search, of which JSON says what differs; repeat",
    )
    parser.add_argument(
        "--measures",
        default=[],
        metavar="CSV",
        nargs="*",
        help="the table `measures`, whose first system scoring is shown on",
    )
    parser.add_argument("--dev-label", required=True, metavar="TEXT", help="Table 3's dev set")
    parser.add_argument("--dev-score", required=True, metavar="JSON", nargs="*", help="score files of Table 3")
    score_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    runs, dev = read_scores(args.score), read_runs(args.dev_score)
    rows = [row for path in args.measures for row in of_others(path)]
    rows += of_test(args, runs) if len(runs) else []
    experiments = dict.fromkeys(name.split("/")[1] for name in args.expected)
    rows += training(dev, against_base(from_base(dev)), list(experiments))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    both = pd.concat([scores for scores in (runs, dev) if len(scores)] or [runs], ignore_index=True)
    return for_readers(frame, both, printed_bleu(args.paper), (args.label, args.dev_label), args.expected), frame


def of_test(args: Namespace, runs: pd.DataFrame) -> list[dict]:
    """Return the rows that are measured on the test set."""
    base, decoding = read_base(args, runs), runs["decoding"].iloc[0]
    subsets = [read_translated(path, WithSubsets)["subsets"] for path in args.score]
    experiment = load(args.run / "experiment.yaml")
    moses = Moses(experiment.target, experiment.preparation)
    averaged = f"the last checkpoint alone, not the average of {len(runs['averaged_steps'].iloc[0])}"
    rows = [base.row("configured", "as configured", base.bleu)]
    rows += (of_own_text if args.measures else scoring)(base, subsets, Subwords(args.run / "vocabulary.model"), moses)
    rows.append(translating(base, "averaging", averaged, read_all(args.last, args.ref, runs)))
    for changes, paths in map(read_otherwise, args.otherwise):
        Decoding.read(decoding | changes, "--otherwise")
        choice = "; ".join(f"{key} {value}, not {decoding[key]}" for key, value in changes.items())
        rows.append(translating(base, "decoding", choice, read_all(paths, args.ref, runs)))
    return rows + seeds(base)


def of_others(path: str) -> list[dict]:
    """Return the rows of scoring that the table `measures` has, of its first system."""
    table = read_csv(path, ["system", "test", "kind", "choice", "value"])
    first = table[(table["system"] == table["system"].iloc[0]) & table["kind"].isin(["measure", "mistake"])]
    scores = dict(zip(first["choice"], first["value"].astype(float), strict=True))
    paper, kind = scores.pop(PAPER), OF_OTHERS + first["system"].iloc[0]
    rows = [row(kind, PAPER_NAME, [paper], 0.0, math.nan, [])]
    rows += [
        row(kind, MEASURE_NAMES.get(name, name), [score], score - paper, math.nan, []) for name, score in scores.items()
    ]
    return rows


def read_otherwise(words: list[str]) -> tuple[dict, list[str]]:
    """Return what one --otherwise changes, and its translations. Raises InputError where the former is no JSON."""
    changes, *paths = words
    try:
        return json_object(changes), paths
    except ArgumentTypeError as error:
        raise InputError(f"--otherwise: {error}") from None


def read_base(args: Namespace, runs: pd.DataFrame) -> Base:
    """Return the base model's translations. Raises InputError where files are not those that were scored."""
    for key in ("task", "experiment"):
        require_one(key, runs)
    base = Base(runs, read_all(args.hyp, args.ref, runs), list(read_lines(args.ref)))
    if not base.hypotheses:
        raise InputError(f"--hyp: expected the translations that {args.score[0]} is of, found none")
    for path, expected in [(args.ref, runs["ref_sha256"].iloc[0]), *zip(args.hyp, runs["hyp_sha256"], strict=True)]:
        if sha256(path) != expected:
            raise InputError(f"{path}: expected what was scored ({', '.join(args.score)}), found another text")
    return base


def read_all(paths: list[str], reference: str, runs: pd.DataFrame) -> list[list[str]]:
    """Return the lines of each translation. Raises InputError where there are neither as many as runs, nor none."""
    if paths and len(paths) != len(runs):
        raise InputError(f"{paths[0]}: expected a translation for each of {len(runs)} scores, found {len(paths)}")
    return [[line for line, _ in read_pairs(path, reference)] for path in paths]


def printed_bleu(path: str) -> str:
    """Return what the paper printed for its base model. Raises InputError where the file has no such row."""
    table = read_csv(path, ["model", COLUMN])
    printed = table.loc[table["model"] == SYSTEM, COLUMN]
    if printed.empty:
        raise InputError(f"{path}: expected a row {SYSTEM!r}, found {', '.join(table['model'])}")
    return printed.iloc[0]


def for_readers(
    frame: pd.DataFrame, runs: pd.DataFrame, printed: str, labels: tuple[str, str], expected: list[str]
) -> Table:
    """Return the table, with notes on what it is made from.

    frame: of COLUMNS. runs: the base model's scores on the test set, then Table 3's. printed: the paper's BLEU. labels:
    of the test and the dev set behind ours. expected: all runs that should be there, by name.
    """
    test, dev = labels
    caption = (
        f"Why is my BLEU not {printed}? What each choice is worth in BLEU, one changed at a time. {printed} is "
        "what the paper prints for the base model, English to German, on newstest2014. Ours is the base model on "
        f"{test}; there a choice can be worth more or less. What differs in training is from Table 3, on {dev}."
    )
    others = frame["kind"][frame["kind"].str.startswith(OF_OTHERS)].unique()
    notes = [*gaps(expected, runs), CHANCE_NOTE, P_NOTE, NOT_MEASURED]
    notes += [OTHERS_NOTE.format(kind=kind) for kind in others]
    if len(runs):
        notes += [configured_note(runs.iloc[0]), "Where ours come from:", provenance(runs)]
    return Table("why", TITLE, caption, Grid(WORDS, [cells(row) for row in frame.to_dict("records")]), notes)


def configured_note(run: pd.Series) -> str:
    """Return what the differences are from."""
    signature = run["variants"][run["paper"]]["signature"]
    return (
        f"As configured: scored as the authors did, {run['paper']}, `{signature}`. Differences are from that; those in "
        "training from Table 3's base, by the last checkpoints alone."
    )


def cells(row: dict) -> Row:
    shown = {
        "BLEU": NOT_RUN if pd.isna(row["bleu"]) else f"{row['bleu']:.2f}",
        "Difference": difference_text(row["difference"], 2),
        "p": p_text(row["p"]),
    }
    ours = {name: Cell(text, tuple(row["runs"].split()) if text else ()) for name, text in shown.items()}
    return {"Kind": row["kind"], "Choice": row["choice"]} | ours
