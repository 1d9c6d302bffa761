r"""Write one table: the paper's numbers and ours.

    python -m transformer table table2 --paper workflow/paper/table2.csv --label "Multi30k task 1, test_2016_flickr" \
        --score results/multi30k/runs/en-*/*/*/test.json --output results/multi30k/tables/table2

Leaves OUTPUT.csv, all digits; OUTPUT.md, .tex and .html, the table for readers with its notes; and OUTPUT.json, the
same as data, which the page shows. `transformer table NAME --help` says what a table needs. A run of --expected without
a score file is a gap that the notes name.
"""

import argparse
import sys
from importlib import import_module

from transformer.commandline import stage_parser
from transformer.tables import TABLES


def main(argv: list[str] | None = None) -> None:
    """Make the table and write all files."""
    args = parse(sys.argv[1:] if argv is None else argv)
    from transformer.tables.render import write  # here, as pandas takes a while and --help needs none

    made, frame = module(args.name).make(args)
    write(made, args.output, frame)
    print(f"{args.output}.md: {len(frame)} rows")


def module(name: str):
    """Return the table's module; that of another table is not imported, for some take seconds."""
    return import_module(f"transformer.tables.{name}")


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line: a table's name, and its options."""
    parser = stage_parser("table", __doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True, help=", ".join(TABLES))
    for name in TABLES:
        table = names.add_parser(name)
        table.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
        if argv[:1] == [name]:
            table.description = module(name).__doc__
            module(name).add_options(table)
        table.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
    return parser.parse_args(argv)
