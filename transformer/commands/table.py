r"""Write one table: the paper's numbers and ours.

    python -m transformer table table2 --paper workflow/paper/table2.csv --label "Multi30k task 1, test_2016_flickr" \
        --score results/multi30k/runs/en-*/*/*/test.json --output results/multi30k/tables/table2

Leaves OUTPUT.csv, all digits; OUTPUT.md, .tex and .html, the table for readers with its notes; and OUTPUT.json, the
same as data, which the page shows. The module of a table says what it needs (transformer/report/tables).
"""

import json
import sys
from importlib import import_module

from transformer.commandline import stage_parser
from transformer.report.tables import TABLES

FILES = ("score", "constrained", "elsewhere", "averaging", "heads", "lengths", "smoothing", "hyp", "last", "dev_score")
TEXTS = ("paper", "measured", "measures", "ref", "label", "dev_label", "elsewhere_label", "run", "output")


def main(argv: list[str] | None = None) -> None:
    """Make the table and write all files."""
    parser = stage_parser("table", __doc__)
    parser.add_argument("name", choices=TABLES)
    for name in (*FILES, "expected", "probes"):
        parser.add_argument(f"--{name.replace('_', '-')}", default=[], nargs="*")
    for name in TEXTS:
        parser.add_argument(f"--{name.replace('_', '-')}")
    parser.add_argument("--width", type=int)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--own", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--task", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--otherwise", default=[], action="append", metavar=("JSON", "FILE"), nargs="+")
    parser.add_argument("--data-of-paper", action="store_true")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    args.otherwise = [(json.loads(changes), paths) for changes, *paths in args.otherwise]
    from transformer.report.tables.render import write  # here, as pandas takes a while and --help needs none

    made, frame = getattr(import_module(f"transformer.report.tables.{args.name}"), args.name)(args, args)
    write(made, args.output, frame)
    print(f"{args.output}.md: {len(frame)} rows")
