"""Print the chain behind a table's cell, and whether anything in it has changed since.

    python -m transformer explain table2 base en-de
    python -m transformer explain table4 parser supervised --scale demo

The cell is BLEU, or F1, of an experiment on a task. The chain begins with the scores whose mean it is; then come the
text that was scored, the decoding, the weights, the run, its experiment and its data. A link that has changed since the
number was made is marked STALE, and the exit code is 1. The scale is config.yaml's if not given.
"""

import argparse
import sys
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.config import settings
from transformer.report.page.chain import SCORES, cell, chain


def main(argv: list[str] | None = None) -> None:
    """Print a line per link."""
    args = parse(argv)
    results = Path("results", args.scale or settings.read([], [])["scale"])
    first, scores = cell(results, args.table, args.experiment, args.task)
    links = [first, *(link for path in scores for link in chain(path))]
    for link in links:
        mark = f"\n{'':12}STALE: {link.stale}" if link.stale else ""
        print("\n" * (link.name == "score") + f"{link.name:12}{link.what}{mark}")  # a paragraph for each run
    if any(link.stale for link in links):
        sys.exit("STALE: run snakemake, and the table is made again from what is there")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("explain", __doc__)
    parser.add_argument("table", choices=SCORES, help="the table")
    parser.add_argument("experiment", help="the row: base, big or another experiment; parser in table4")
    parser.add_argument("task", help="the task, such as en-de, or supervised in table4")
    parser.add_argument("--scale", help="the scale")
    return parser.parse_args(argv)
