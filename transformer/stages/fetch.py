"""Fetch one file from the first of its addresses that gives the right bytes.

    python -m transformer fetch --url http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz \\
        --sha256 cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485 --size 80418416 \\
        --output resources/downloads/training-parallel-nc-v9.tgz

--or '{"urls": ["https://..."], "sha256": "...", "size": 80462375}' names other bytes that will do as well, such as the
same members packed otherwise; it is tried after the addresses before it. What came before a failure stays beside OUTPUT
in a file whose name ends in .part, and with --size is not sent again. OUTPUT appears once its size and sum are right.
Without a sum, of an archive that its host packs anew, what is read from it later has to be asserted.
"""

import argparse
import dataclasses

from transformer.commandline import json_object, stage_parser
from transformer.data.download import Version, fetch


def main(argv: list[str] | None = None) -> None:
    """Fetch, and say so."""
    args = parse(argv)
    first = Version(args.urls, args.sha256, args.md5, args.size)
    fetch([first, *args.others], args.output, args.mirror)
    sums = first.sha256 or first.md5
    print(f"{args.output}: {'checksum as expected' if sums else 'whole, for all that is known'}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("fetch", __doc__)
    parser.add_argument(
        "--url", required=True, action="append", dest="urls", metavar="URL", help="an address; repeat for others"
    )
    parser.add_argument("--sha256", metavar="SUM", help="the SHA-256 of the file, in hexadecimal")
    parser.add_argument("--md5", metavar="SUM", help="its MD5, where no SHA-256 is known")
    parser.add_argument("--size", type=int, metavar="N", help="its length in bytes, where a sum is known")
    parser.add_argument(
        "--or",
        type=version,
        default=[],
        action="append",
        dest="others",
        metavar="JSON",
        help="other bytes: urls, sha256 or md5, and size",
    )
    parser.add_argument("--mirror", metavar="DIR", help="read DIR/HOST/PATH of the addresses, never the network")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write it")
    args = parser.parse_args(argv)
    if args.size is not None and not (args.sha256 or args.md5):
        parser.error("--size goes with --sha256 or --md5")
    return args


def version(text: str) -> Version:
    """An argument that describes bytes as JSON; their sum is not left out."""
    about = json_object(text)
    known = {field.name for field in dataclasses.fields(Version)}
    if not about.keys() <= known or "urls" not in about or not about.keys() & {"sha256", "md5"}:
        raise argparse.ArgumentTypeError(f"expected urls, sha256 or md5, and size, found {', '.join(about)}")
    return Version(**about)
