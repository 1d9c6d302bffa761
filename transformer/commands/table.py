r"""Write one table: the paper's numbers and ours.

    python -m transformer table table2 --paper workflow/paper/table2.csv --label "Multi30k task 1, test_2016_flickr" \
        --score results/multi30k/runs/en-*/*/*/test.json --output results/multi30k/tables/table2

Leaves OUTPUT.csv, all digits; OUTPUT.md, .tex and .html, the table for readers with its notes; and OUTPUT.json, the
same as data, which the page shows. `transformer table NAME --help` says what a table needs. A run of --expected without
a score file is a gap that the notes name.
"""

import argparse
import sys

from transformer.commandline import named_parsers, stage_parser
from transformer.report.tables import TABLES


def main(argv: list[str] | None = None) -> None:
    """Make the table and write all files."""
    args = parse(sys.argv[1:] if argv is None else argv)
    from transformer.report.tables.render import write  # here, as pandas takes a while and --help needs none

    made, frame = args.module.make(args)
    write(made, args.output, frame)
    print(f"{args.output}.md: {len(frame)} rows")


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line: a table's name, and its options."""
    parser = stage_parser("table", __doc__)
    for table in named_parsers(parser, "transformer.report.tables", TABLES, argv):
        table.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
        table.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    return parser.parse_args(argv)
