"""Compare a training's early steps with those of one that went well, and say where they differ.

    python -m transformer compare results/multi30k/runs/en-de/base/1 results/record/multi30k/runs/en-de/base/1

RUN and REFERENCE are folders of runs, in training or finished, or metrics.jsonl files. REFERENCE has the same settings;
its seed may be another. Exits with 1 where RUN is off REFERENCE's trajectory. transformer/training/trajectory.py says
how far apart two good runs may be, and how that was measured.
"""

import sys
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.training.trajectory import Comparison, page, read_log


def main(argv: list[str] | None = None) -> None:
    """Print the page; exit with 1 where the run is off the trajectory."""
    parser = stage_parser("compare", __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="the training in question")
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="the one to compare it with")
    args = parser.parse_args(argv)
    comparison = Comparison(read_log(args.run), read_log(args.reference))
    print(page(comparison))
    if comparison.off is not None:
        sys.exit(1)
