r"""Measure the layer types of Table 1: the time of a layer, and what a stack of them connects.

    python -m transformer measure --lengths 64 128 256 512 1024 2048 4096 --width 128 --widths 64 128 256 512 1024 \
        --length 256 --paths 8 16 32 64 --k 3 --r 17 --seconds 0.2 --output results/demo/layers.json

Times one layer of each type on one thread, without gradients, first over --lengths at
one --width, then over --widths at one --length. Each time is processor time, which does not run while other work has
the core: the median over as many blocks of calls as --seconds hold.
"""

import argparse
import json
from time import perf_counter, process_time

import torch
from torch import nn
from torch.utils.benchmark import Timer

from transformer import provenance
from transformer.commandline import stage_parser
from transformer.files import InputError, replacing
from transformer.report.tables.costs import COSTS, LAYER_TYPES, multiply_adds
from transformer.report.tables.layers import LAYERS
from transformer.report.tables.paths import connections

FEATURES = 4  # the width of the layers whose connections are followed, which do not depend on it
THREADS = 1


def main(argv: list[str] | None = None) -> None:
    """Measure, and write the JSON."""
    args = parse(argv)
    check(args)
    started = perf_counter()
    torch.set_num_threads(THREADS)
    sizes = [("n", n, args.width) for n in args.lengths] + [("d", args.length, d) for d in args.widths]
    times = [timed(name, *size, args) for name in COSTS for size in sizes]
    measured = {"times": times, "connections": [paths(name, n, args) for name in LAYER_TYPES for n in args.paths]}
    measured |= {
        "seconds": perf_counter() - started,
        "hardware": provenance.hardware(torch.device("cpu")),
        "threads": THREADS,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "date": provenance.now(),
    }
    with replacing(args.output) as file:
        json.dump(measured, file, indent=1)
    print(f"{args.output}: {len(measured['times'])} times, {measured['seconds']:.0f} seconds")


def check(args: argparse.Namespace) -> None:
    """Raise InputError where a number or a grid is too small to measure anything with."""
    for name, least in {"lengths": 1, "widths": 1, "paths": 2}.items():
        grid = getattr(args, name)
        if len(grid) < 3 or grid != sorted(set(grid)) or grid[0] < least:
            raise InputError(f"--{name}: expected 3 or more growing numbers from {least} on, found {grid}")
    for name, least in {"width": 1, "length": 1, "k": 2, "r": 2}.items():
        if getattr(args, name) < least:
            raise InputError(f"--{name}: expected {least} or more, found {getattr(args, name)}")
    if args.seconds <= 0:
        raise InputError(f"--seconds: expected more than 0, found {args.seconds}")


def timed(name: str, grid: str, n: int, d: int, args: argparse.Namespace) -> dict:
    """Return a processor time in seconds, the distance between its quartiles, and the number of blocks behind it.

    grid: which of n and d grows.
    """
    sizes = {"n": n, "d": d, "k": args.k, "r": args.r}
    variables = {"layer": LAYERS[name](d, args.k, args.r, 0), "x": torch.randn(n, d)}
    with torch.no_grad():
        timer = Timer("layer(x)", globals=variables, timer=process_time, num_threads=THREADS)
        blocks = timer.blocked_autorange(min_run_time=args.seconds)
    measured = {"seconds": blocks.median, "quartiles": blocks.iqr, "blocks": len(blocks.times)}
    return {"layer": name, "grid": grid, **sizes, "multiply_adds": multiply_adds(COSTS[name], sizes), **measured}


def paths(name: str, n: int, args: argparse.Namespace) -> dict:
    """Return what a stack of one type connects."""

    def layer(level: int) -> nn.Module:
        return LAYERS[name](FEATURES, args.k, args.r, level)

    return {"layer": name, "n": n, "k": args.k, "r": args.r} | connections(layer, n, FEATURES)._asdict()


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("measure", __doc__)
    sizes = {"type": int, "required": True, "metavar": "N"}
    parser.add_argument("--lengths", nargs="+", help="the sequences that are timed", **sizes)
    parser.add_argument("--width", help="of the layers that take them", **sizes)
    parser.add_argument("--widths", nargs="+", help="the layers that are timed", **sizes)
    parser.add_argument("--length", help="of the sequence that they take", **sizes)
    parser.add_argument("--paths", nargs="+", help="the sequences through which paths are followed", **sizes)
    parser.add_argument("--k", help="the kernel's width", **sizes)
    parser.add_argument("--r", help="how many neighbours restricted self-attention sees", **sizes)
    parser.add_argument("--seconds", required=True, type=float, metavar="S", help="spent on each time, at least")
    parser.add_argument("--output", required=True, metavar="JSON", help="the file to write")
    return parser.parse_args(argv)
