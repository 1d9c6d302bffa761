"""Fetch one file from the first of its addresses that gives the right bytes.

    python -m transformer fetch --url https://data.statmt.org/wmt14/training-parallel-nc-v9.tgz \\
        --sha256 cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485 --size 80418416 \\
        --output resources/downloads/training-parallel-nc-v9.tgz

What came before a failure stays in OUTPUT.part and is not sent again. OUTPUT appears once its size and sum are right.
Without --sha256 and --size, of an archive that its host packs anew, what is read from it later has to be asserted.
"""

import argparse

from transformer.arguments import stage_parser
from transformer.download import fetch


def main(argv: list[str] | None = None) -> None:
    """Fetch, and say so."""
    args = parse(argv)
    fetch(args.urls, args.sha256, args.size, args.output, args.mirror)
    print(
        f"{args.output}: "
        + (f"{args.size} bytes, SHA-256 as expected" if args.size else "whole, for all that is known")
    )


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("fetch", __doc__)
    parser.add_argument(
        "--url", required=True, action="append", dest="urls", metavar="URL", help="an address; repeat for others"
    )
    parser.add_argument("--sha256", metavar="SUM", help="the SHA-256 of the file, in hexadecimal")
    parser.add_argument("--size", type=int, metavar="N", help="its length in bytes")
    parser.add_argument("--mirror", metavar="DIR", help="read DIR/HOST/PATH of the addresses, never the network")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write it")
    args = parser.parse_args(argv)
    if (args.sha256 is None) != (args.size is None):
        parser.error("--sha256 and --size go together")
    return args
