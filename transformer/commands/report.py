"""Write the page of a scale (report/page/page.py).

Name all runs, scores and samples that should be there: the page lists what is not.
"""

import argparse
from pathlib import Path
from types import SimpleNamespace

from transformer.commandline import stage_parser
from transformer.files import replacing
from transformer.report.page.page import make


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    sampled = [path for paths in args.translations + args.parses for path in paths]
    runs, scores, samples = (
        [path for path in paths if Path(path).exists()] for paths in (args.run, args.score, sampled)
    )
    input = SimpleNamespace(
        tables=args.table, figures=args.figure, runs=runs, scores=scores, samples=samples, attention=args.attention
    )
    params = SimpleNamespace(
        title=args.title,
        label=args.label,
        scale=args.scale,
        data_of_paper=args.data_of_paper,
        runs=args.run,
        scores=args.score,
        translations=args.translations,
        parses=args.parses,
        samples=args.samples,
        missing=dict(args.missing),
        prices={"core": args.core_hour, "GPU": args.gpu_hour},
        currency=args.currency,
    )
    page = make(input, params)
    with replacing(args.output) as file:
        file.write(page)
    print(f"{args.output}: {len(page.encode()) / 1e6:.1f} MB")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("report", __doc__)
    add = parser.add_argument
    add("--scale", required=True)
    add("--data-of-paper", action="store_true")
    add("--title", required=True)
    add("--label", required=True)
    for option in ("--table", "--figure", "--run", "--score"):
        add(option, default=[], nargs="*")
    add("--attention", nargs="?")
    add("--translations", default=[], nargs=3, action="append")
    add("--parses", default=[], nargs=2, action="append")
    add("--samples", required=True, type=int)
    add("--missing", default=[], nargs=2, action="append")
    add("--core-hour", type=float)
    add("--gpu-hour", type=float)
    add("--currency", default="")
    add("--output", required=True)
    return parser.parse_args(argv)
