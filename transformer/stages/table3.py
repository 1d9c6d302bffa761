"""Write Table 3, variations on the base model: the paper's perplexities, BLEU and parameters, and ours.

    python -m transformer table3 --paper workflow/paper/table3.csv --label "demo: grammar-dev" --width 8 --depth 2 \\
        --score results/demo/runs/en-de/*/*/dev.last.json --output results/demo/tables/table3

Leaves OUTPUT.csv, all digits, and OUTPUT.md, .tex and .html, the table for readers with its notes. Runs that differ in
their seed alone are averaged. A run of --expected without a score file is a gap that the notes name.
"""

import argparse

from transformer.commandline import score_arguments, stage_parser
from transformer.tables.render import write
from transformer.tables.table3 import read_runs, read_variations, table3, table3_for_readers


def main(argv: list[str] | None = None) -> None:
    """Write all files."""
    args = parse(argv)
    runs = read_runs(args.score)
    table = table3(read_variations(args.paper), runs)
    shrunk = (args.width, args.depth)
    write(table3_for_readers(table, runs, args.label, shrunk, args.expected), args.output, table)
    print(f"{args.output}.md: {len(table)} experiments, {len(runs)} runs of ours")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("table3", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
    parser.add_argument("--label", required=True, metavar="TEXT", help="the dev set behind our numbers")
    parser.add_argument("--width", required=True, type=int, help="what d_model, d_ff, d_k and d_v were divided by")
    parser.add_argument("--depth", required=True, type=int, help="what N was divided by")
    score_arguments(parser)
    return parser.parse_args(argv)
