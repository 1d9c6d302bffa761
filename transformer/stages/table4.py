"""Write Table 4, F1 of English constituency parsing: the paper's parsers, then ours.

    python -m transformer table4 --paper workflow/paper/table4.csv \\
        --task '{"supervised": {"training": "GUM only", "label": "GUM, test split", "silver": false}}' \\
        --score results/multi30k/runs/*/parser/*/test.json \\
        --constrained results/multi30k/runs/*/parser/*/test.constrained.json --output results/multi30k/tables/table4

Leaves OUTPUT.csv, all digits, and OUTPUT.md, .tex and .html, the table for readers with its notes. Runs that differ in
their seed alone are averaged. --constrained takes the same runs' scores where the search wrote trees only, and
--elsewhere those of such a search on other trees, which --elsewhere-label names. A run of --expected without a score
file is a gap that the notes name.
"""

import argparse

from transformer.commandline import json_object, score_arguments, stage_parser
from transformer.common.files import InputError
from transformer.tables.render import write
from transformer.tables.table4 import Task, read_parsers, read_parses, table4, table4_for_readers


def main(argv: list[str] | None = None) -> None:
    """Write all files."""
    args = parse(argv)
    runs = read_parses(args.score)
    others = {"constrained": read_parses(args.constrained)}
    if args.elsewhere:
        others["elsewhere"] = read_parses(args.elsewhere)
    tasks = {name: Task(**about) for name, about in args.task.items()}
    for task in runs["task"]:
        if task not in tasks:
            raise InputError(f"expected scores of {', '.join(tasks)}, found one of {task}")
    table = table4(read_parsers(args.paper), runs, others, tasks)
    readers = table4_for_readers(table, runs, args.elsewhere_label, tasks, args.expected)
    write(readers, args.output, table)
    print(f"{args.output}.md: {len(table)} parsers, {len(runs)} runs of ours")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = stage_parser("table4", __doc__)
    parser.add_argument("--paper", required=True, metavar="CSV", help="what the paper printed")
    parser.add_argument("--task", required=True, type=json_object, help="JSON: training and label of each task of ours")
    parser.add_argument("--constrained", required=True, metavar="JSON", nargs="*", help="theirs, by constrained search")
    parser.add_argument("--elsewhere", metavar="JSON", nargs="*", help="score files of the same runs on other trees")
    parser.add_argument("--elsewhere-label", metavar="TEXT", help="names those trees")
    score_arguments(parser)
    args = parser.parse_args(argv)
    if (not args.elsewhere) != (args.elsewhere_label is None):
        parser.error("--elsewhere and --elsewhere-label go together")
    return args
