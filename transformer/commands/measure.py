r"""Measure the layer types of Table 1: the time of a layer, and what a stack of them connects.

    python -m transformer measure --lengths 64 128 256 512 1024 2048 4096 --width 128 --widths 64 128 256 512 1024 \
        --length 256 --paths 8 16 32 64 --k 3 --r 17 --seconds 0.2 --output results/demo/layers.json

Times one layer of each type over --lengths at one --width, then over --widths at one --length.
"""

import json

from transformer.commandline import stage_parser
from transformer.evaluation.layers import measure_layers
from transformer.files import replacing


def main(argv: list[str] | None = None) -> None:
    """Measure, and write the JSON."""
    parser = stage_parser("measure", __doc__)
    for name in ("lengths", "widths", "paths"):
        parser.add_argument(f"--{name}", required=True, type=int, nargs="+", metavar="N", help="growing numbers")
    for name in ("width", "length", "k", "r"):
        parser.add_argument(f"--{name}", required=True, type=int, metavar="N", help="as `table1` in config.yaml says")
    parser.add_argument("--seconds", required=True, type=float, metavar="S", help="spent on each time, at least")
    parser.add_argument("--output", required=True, metavar="JSON", help="the file to write")
    args = parser.parse_args(argv)
    measured = measure_layers(args)
    with replacing(args.output) as file:
        json.dump(measured, file, indent=1)
    print(f"{args.output}: {len(measured['times'])} times, {measured['seconds']:.0f} seconds")
