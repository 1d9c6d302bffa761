"""Write Table 2, BLEU and the FLOPs of training: the paper's systems, then ours.

    python -m transformer table2 --paper workflow/paper/table2.csv --label "Multi30k task 1, test_2016_flickr" \\
        --score results/multi30k/runs/en-*/*/*/test.json --output results/multi30k/tables/table2

Leaves OUTPUT.csv, all digits, and OUTPUT.md, the table for readers with its notes. Tasks and experiments are those of
the score files, in the order in which they are first named; runs that differ in their seed alone are averaged.
"""

import argparse

from transformer.arguments import stage_parser
from transformer.files import replacing
from transformer.table2 import read_systems, table2, table2_markdown
from transformer.tables import read_scores


def main(argv: list[str] | None = None) -> None:
    """Write both files."""
    args = parse(argv)
    runs = read_scores(args.score)
    table = table2(read_systems(args.paper), runs, args.label)
    with replacing(f"{args.output}.csv") as file:
        table.to_csv(file, index=False)
    with replacing(f"{args.output}.md") as file:
        file.write(table2_markdown(table, runs, args.label))
    print(f"{args.output}.md: {len(table)} systems, {len(runs)} runs of ours")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("table2", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
    parser.add_argument(
        "--label", required=True, metavar="TEXT", help="the data behind our rows, shown in each of them"
    )
    parser.add_argument("--score", required=True, metavar="JSON", nargs="+", help="score files, written with --run")
    parser.add_argument("--output", required=True, metavar="PATH", help="the files to write, without .csv and .md")
    return parser.parse_args(argv)
