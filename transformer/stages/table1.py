"""Write Table 1: complexity, sequential operations and path lengths, the paper's and measured.

    python -m transformer table1 --paper workflow/paper/table1.csv --measured results/demo/layers.json \\
        --output results/demo/tables/table1

Leaves OUTPUT.csv, all digits, and OUTPUT.md, .tex and .html, the table for readers with its notes.
"""

import argparse

from transformer.commandline import stage_parser
from transformer.tables.render import write
from transformer.tables.table1 import read_layers, read_measured, table1, table1_for_readers


def main(argv: list[str] | None = None) -> None:
    """Write all files."""
    args = parse(argv)
    measured = read_measured(args.measured)
    table = table1(read_layers(args.paper), measured)
    write(table1_for_readers(table, measured), args.output, table)
    print(f"{args.output}.md: {len(table)} layer types")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("table1", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
    parser.add_argument("--measured", required=True, metavar="JSON", help="what the measure stage wrote")
    parser.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    return parser.parse_args(argv)
