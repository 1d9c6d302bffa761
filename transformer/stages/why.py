"""Write "Why is my BLEU not 27.3?": what each choice in scoring, averaging, decoding and training is worth.

    python -m transformer why --paper workflow/paper/table2.csv --label "demo: grammar-test" \\
        --score RUN/test.json --hyp RUN/test.hyp --ref resources/corpora/grammar-test.de --run RUN \\
        --last RUN/test.last.hyp --otherwise '{"beam": 1}' RUN/test.beam-1.hyp \\
        --dev-label "demo: grammar-dev" --dev-score RUNS/*/1/dev.last.json --output results/demo/tables/why

Leaves OUTPUT.csv, all digits, and OUTPUT.md, .tex and .html for readers. --score and all translations of the test set
are those of the base model, a file per seed, in the same order. --run is one of its folders, whose vocabulary cuts text
into subwords. --expected names the base model's runs and those of Table 3 that differ in training; what was not run is
a gap that the table names.
"""

import argparse
from pathlib import Path

import pandas as pd

from transformer.commandline import json_object, score_arguments, stage_parser
from transformer.common.files import InputError, read_json, sha256
from transformer.common.text import read_lines, read_pairs
from transformer.config.experiment import Decoding, load
from transformer.data.subwords import Subwords
from transformer.data.tokenization import Moses
from transformer.scoring.scorefiles import item, read_scores, read_table, require_one, system_name
from transformer.tables.render import write
from transformer.tables.table3 import against_base, read_runs
from transformer.tables.why import COLUMNS, Base, changed_text, scoring, seeds, training, translating, why_for_readers

SYSTEM, COLUMN = system_name("base"), "en-de_bleu"  # whose printed BLEU the question is about


def main(argv: list[str] | None = None) -> None:
    """Write all files."""
    args = parse(argv)
    runs, dev = read_scores(args.score), read_runs(args.dev_score)
    rows = of_test(args, runs) if len(runs) else []
    experiments = dict.fromkeys(name.split("/")[1] for name in args.expected)
    rows += training(dev, against_base(dev), list(experiments))
    table = pd.DataFrame(rows, columns=COLUMNS)
    labels = (args.label, args.dev_label)
    both = pd.concat([frame for frame in (runs, dev) if len(frame)] or [runs], ignore_index=True)
    write(why_for_readers(table, both, printed_bleu(args.paper), labels, args.expected), args.output, table)
    print(f"{args.output}.md: {len(table)} choices, {len(both)} scores of ours")


def of_test(args: argparse.Namespace, runs: pd.DataFrame) -> list[dict]:
    """What is measured on the test set."""
    base, decoding = read_base(args, runs), runs["decoding"].iloc[0]
    subsets = [item(read_json(path), "subsets", path) for path in args.score]
    experiment = load(args.run / "experiment.yaml")
    moses = Moses(experiment.target, experiment.preparation)
    averaged = f"the last checkpoint alone, not the average of {len(runs['averaged_steps'].iloc[0])}"
    rows = [base.row("configured", "as configured", base.bleu)]
    rows += scoring(base, subsets, Subwords(args.run / "vocabulary.model"), moses)
    rows.append(translating(base, "averaging", averaged, read_all(args.last, args.ref, runs)))
    for changes, paths in args.otherwise:
        Decoding.read(decoding | changes, "--otherwise")
        choice = changed_text(changes, decoding)
        rows.append(translating(base, "decoding", choice, read_all(paths, args.ref, runs)))
    return rows + seeds(base)


def read_base(args: argparse.Namespace, runs: pd.DataFrame) -> Base:
    """The base model's translations. Raises InputError where files are not those that were scored."""
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
    """The lines of each translation, of which there are as many as runs, or none. Raises InputError where not."""
    if paths and len(paths) != len(runs):
        raise InputError(f"{paths[0]}: expected a translation for each of {len(runs)} scores, found {len(paths)}")
    return [[line for line, _ in read_pairs(path, reference)] for path in paths]


def printed_bleu(path: str) -> str:
    """What the paper printed for its base model. Raises InputError where the file has no such row."""
    table = read_table(path, ["model", COLUMN])
    found = table.loc[table["model"] == SYSTEM, COLUMN]
    if found.empty:
        raise InputError(f"{path}: expected a row {SYSTEM!r}, found {', '.join(table['model'])}")
    return found.iloc[0]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("why", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed in Table 2")
    parser.add_argument("--label", required=True, metavar="TEXT", help="the test set")
    parser.add_argument("--hyp", required=True, metavar="FILE", nargs="*", help="what each score is of, in their order")
    parser.add_argument("--ref", required=True, metavar="FILE", help="the references of them all")
    parser.add_argument("--run", required=True, type=Path, metavar="DIR", help="a folder of the base model")
    parser.add_argument("--last", default=[], metavar="FILE", nargs="*", help="the same by the last checkpoint alone")
    parser.add_argument(
        "--otherwise",
        default=[],
        action="append",
        metavar=("JSON", "FILE"),
        nargs="+",
        help="the same by another search, of which JSON says what differs; repeat",
    )
    parser.add_argument("--dev-label", required=True, metavar="TEXT", help="Table 3's dev set")
    parser.add_argument("--dev-score", required=True, metavar="JSON", nargs="*", help="score files of Table 3")
    score_arguments(parser)
    args = parser.parse_args(argv)
    try:
        args.otherwise = [(json_object(changes), paths) for changes, *paths in args.otherwise]
    except argparse.ArgumentTypeError as error:
        parser.error(f"--otherwise: {error}")
    return args
