"""Write Table 2, BLEU and the FLOPs of training: the paper's systems, then ours.

    python -m transformer table2 --paper workflow/paper/table2.csv --label "Multi30k task 1, test_2016_flickr" \\
        --score results/multi30k/runs/en-*/*/*/test.json --output results/multi30k/tables/table2

Leaves OUTPUT.csv, all digits, and OUTPUT.md, .tex and .html, the table for readers with its notes. Tasks and
experiments are those of the score files, in the order in which they are first named; runs that differ in their seed
alone are averaged. A run of --expected without a score file is a gap that the notes name.
"""

import argparse

from transformer.commandline import score_arguments, stage_parser
from transformer.scoring.scorefiles import read_scores
from transformer.tables.render import write
from transformer.tables.table2 import read_systems, table2, table2_for_readers


def main(argv: list[str] | None = None) -> None:
    """Write all files."""
    args = parse(argv)
    runs = read_scores(args.score)
    table = table2(read_systems(args.paper), runs, args.label)
    write(table2_for_readers(table, runs, args.label, args.expected), args.output, table)
    print(f"{args.output}.md: {len(table)} systems, {len(runs)} runs of ours")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("table2", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
    parser.add_argument(
        "--label", required=True, metavar="TEXT", help="the data behind our rows, shown in each of them"
    )
    score_arguments(parser)
    return parser.parse_args(argv)
