r"""Analyse a trained run, for the claims of Table 5 that need no other training.

    python -m transformer probe smoothing --run results/demo/runs/en-de/base/1 --beams 1 4 20 \
        --source resources/corpora/grammar-dev.en --target resources/corpora/grammar-dev.de --sentences 200 \
        --output results/demo/runs/en-de/base/1/smoothing.json

Takes at most SENTENCES pairs of the raw dev set, at equal distances. The JSON is described in evaluation/analyses.py.
"""

import json
import os
from importlib import import_module
from pathlib import Path

from transformer.commandline import positive, stage_parser
from transformer.files import replacing

ANALYSES = {"averaging": "predictions", "smoothing": "predictions", "heads": "heads", "lengths": "lengths"}  # by module


def main(argv: list[str] | None = None) -> None:
    """Run one analysis, and write its record."""
    parser = stage_parser("probe", __doc__)
    parser.add_argument("name", choices=ANALYSES)
    for option in ("run", "source", "target", "output"):
        parser.add_argument(f"--{option}", required=True, type=Path)
    parser.add_argument("--sentences", required=True, type=positive, metavar="N", help="take at most N pairs")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all by default")
    parser.add_argument("--checkpoints", nargs="+", type=positive, metavar="K", help="averaging: sizes of averages")
    parser.add_argument("--choose", type=positive, metavar="COUNT", help="heads: sentences to choose the next head on")
    parser.add_argument("--data", type=Path, metavar="DIR", help="lengths: the encoded training text")
    parser.add_argument("--times", nargs="+", type=positive, metavar="T", help="lengths: multiples of the longest")
    parser.add_argument("--beams", nargs="+", type=positive, metavar="BEAM", help="smoothing: widths of the beam")
    args = parser.parse_args(argv)
    import torch  # takes seconds, and --help does not need it

    torch.set_num_threads(args.threads)
    content = getattr(import_module(f"transformer.evaluation.{ANALYSES[args.name]}"), args.name)(args, args)
    with replacing(args.output) as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    print(f"{args.output}: {args.name}, {content['sentences']} sentences, {args.output.stat().st_size:,} bytes")
