"""Unpack one side of a corpus as plain text: UTF-8, one sentence a line.

    python -m transformer unpack --input resources/downloads/training-parallel-nc-v9.tgz \\
        --member training/news-commentary-v9.de-en.de --format text --lines 201288 \\
        --output resources/corpora/news-commentary-v9.de-en.de

--input is a plain file, a .gz, or an archive (.tar, .tar.gz, .tgz) of which --member is read; a member named .gz is
unpacked too. Lines end at a line feed alone. Nothing is written when the text is not UTF-8, empty or of another length.
"""

import argparse
from collections.abc import Iterable
from typing import IO

from transformer.archive import open_bytes
from transformer.arguments import stage_parser
from transformer.files import InputError, replacing
from transformer.text import decode_lines, find_segments


def main(argv: list[str] | None = None) -> None:
    """Unpack, counting the lines."""
    args = parse(argv)
    name = f"{args.input}: {args.member}" if args.member else args.input
    with replacing(args.output) as file:
        with open_bytes(args.input, args.member) as stream:
            lines = decode_lines(stream, name)
            count = write_lines(find_segments(lines, name) if args.format == "sgm" else lines, file)
        if count == 0:
            raise InputError(f"{name}: expected text, found an empty file")
        if args.lines not in (None, count):
            raise InputError(f"{name}: expected {args.lines} lines, found {count}")
    print(f"{args.output}: {count} lines")


def write_lines(lines: Iterable[str], file: IO[str]) -> int:
    """Write the lines; returns how many they are."""
    count = 0
    for line in lines:
        file.write(f"{line}\n")
        count += 1
    return count


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("unpack", __doc__)
    parser.add_argument("--input", required=True, metavar="FILE", help="the file to read")
    parser.add_argument("--member", metavar="NAME", help="the path of the text within an archive")
    parser.add_argument("--format", required=True, choices=["text", "sgm"], help="plain lines, or WMT's <seg> elements")
    parser.add_argument("--lines", type=int, metavar="N", help="how many lines there must be")
    parser.add_argument("--output", required=True, metavar="FILE", help="the text to write")
    return parser.parse_args(argv)
