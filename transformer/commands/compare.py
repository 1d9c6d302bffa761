"""Compare a training's early steps with those of one that went well, and say where they differ.

    python -m transformer compare results/multi30k/runs/en-de/base/1 results/record/multi30k/runs/en-de/base/1

RUN and REFERENCE are folders of runs, in training or finished, or metrics.jsonl files. REFERENCE has the same settings;
its seed may be another. Exits with 1 where RUN is off REFERENCE's trajectory. transformer/training/trajectory.py says
how far apart two good runs may be.

Where RUN is off, its curve is also shown beside those of runs with known faults, the rows of Table 5, and the nearest
is named. They are the runs that --claims names, else those that lie next to REFERENCE.
"""

import sys
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.training.resemblance import claims_beside
from transformer.training.resemblance import page as resemblance
from transformer.training.trajectory import Comparison, page, read_log


def main(argv: list[str] | None = None) -> None:
    """Print the page; exit with 1 where the run is off the trajectory."""
    parser = stage_parser("compare", __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="the training in question")
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="the one to compare it with")
    claims_help = "runs of Table 5's rows; if not given, the finished ones in REFERENCE/../../*/*"
    parser.add_argument("--claims", type=Path, metavar="FOLDER", nargs="+", help=claims_help)
    args = parser.parse_args(argv)
    comparison = Comparison(read_log(args.run), read_log(args.reference))
    print(page(comparison))
    if comparison.off is not None:
        claims = claims_beside(args.reference) if args.claims is None else args.claims
        print("\n" + resemblance(comparison, args.reference, claims))
        sys.exit(1)
