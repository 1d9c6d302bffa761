r"""Fetch one file from the first of its addresses that gives the right bytes.

    python -m transformer fetch --url http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz \
        --sha256 cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485 --size 80418416 \
        --output resources/downloads/training-parallel-nc-v9.tgz

--or '{"urls": ["https://..."], "sha256": "...", "size": 80462375}' names other bytes that serve as well, such as the
same members packed differently; it is tried after the addresses before it. Bytes that came before a failure stay beside
OUTPUT in a file whose name ends in .part, and with --size are not sent again. OUTPUT appears once its size and sum are
right. An archive that its host packs again at each request has no sum: check what is read from it later.
"""

import argparse
import dataclasses

from transformer.commandline import json_object, stage_parser
from transformer.data.download import Version, fetch


def main(argv: list[str] | None = None) -> None:
    """Fetch the file and print how it was checked."""
    args = parse(argv)
    first = Version(args.url, args.sha256, args.md5, args.size)
    fetch([first, *args.others], args.output, args.mirror)
    checked = "checksum as expected" if first.sha256 or first.md5 else "whole, for all that is known"
    print(f"{args.output}: {checked}")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("fetch", __doc__)
    parser.add_argument("--url", required=True, action="append", help="an address; repeat for others")
    parser.add_argument("--sha256", metavar="SUM", help="the SHA-256 of the file, in hexadecimal")
    parser.add_argument("--md5", metavar="SUM", help="its MD5, where no SHA-256 is known")
    parser.add_argument("--size", type=int, metavar="N", help="its length in bytes, where a sum is known")
    others = "JSON: the urls, sha256 or md5, and size of other bytes"
    parser.add_argument("--or", type=version, default=[], action="append", dest="others", metavar="JSON", help=others)
    parser.add_argument("--mirror", metavar="DIR", help="read DIR/HOST/PATH of the addresses, never the network")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write it")
    args = parser.parse_args(argv)
    if args.size is not None and not (args.sha256 or args.md5):
        parser.error("--size goes with --sha256 or --md5")
    return args


def version(text: str) -> Version:
    """Read an argument that describes bytes as JSON. Raises ArgumentTypeError where it has no address or no sum."""
    description = json_object(text)
    known = {field.name for field in dataclasses.fields(Version)}
    if not description.keys() <= known or "urls" not in description or not description.keys() & {"sha256", "md5"}:
        raise argparse.ArgumentTypeError(f"expected urls, sha256 or md5, and size, found {', '.join(description)}")
    return Version(**description)
