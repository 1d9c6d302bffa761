r"""Unpack one side of a corpus as plain text: UTF-8, one sentence a line.

    python -m transformer unpack --input resources/downloads/training-parallel-nc-v9.tgz \
        --member training/news-commentary-v9.de-en.de --format text --lines 201288 \
        --output resources/corpora/news-commentary-v9.de-en.de

--input is a plain file, a .gz, or an archive (.tar, .tar.gz, .tgz, .zip) of which --member is read; a member named .gz
is unpacked too. Lines end at a line feed alone. Nothing is written when the text is not UTF-8, is empty, has another
number of lines or one of more than 1 MiB. --beside FILE [MEMBER] is the other side of a test set in WMT's format, which
has to have the same <seg> of the same document at each place.
"""

import argparse
from collections.abc import Iterable, Iterator

from transformer.commandline import stage_parser
from transformer.data.archive import open_bytes
from transformer.files import InputError, replacing
from transformer.text import decode_lines, find_segments, in_order, split_lines


def main(argv: list[str] | None = None) -> None:
    """Unpack the text and check the number of its lines."""
    args = parse(argv)
    name = name_of(args.input, args.member)
    with replacing(args.output) as file:
        with open_bytes(args.input, args.member) as stream:
            lines, count = decode_lines(split_lines(stream), name), 0
            for line in sentences(lines, name, args.beside) if args.format == "sgm" else lines:
                if count == args.lines:  # an endless text must not fill the disk
                    raise InputError(f"{name}: expected {args.lines} lines, found more")
                file.write(f"{line}\n")
                count += 1
        if count == 0:
            raise InputError(f"{name}: expected text, found an empty file")
        if args.lines not in (None, count):
            raise InputError(f"{name}: expected {args.lines} lines, found {count}")
    print(f"{args.output}: {count} lines")


def sentences(lines: Iterable[str], name: str, beside: list[str]) -> Iterator[str]:
    """Yield the text of WMT's segments; with `beside`, a file and perhaps its member, check them against its order."""
    segments = find_segments(lines, name)
    if not beside:
        yield from (segment.text for segment in segments)
        return
    reference = name_of(*beside)
    with open_bytes(*beside) as stream:
        references = find_segments(decode_lines(split_lines(stream), reference), reference)
        yield from (segment.text for segment in in_order(segments, references, name, reference))


def name_of(path: str, member: str | None = None) -> str:
    """Return the name of a text in messages."""
    return f"{path}: {member}" if member else path


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("unpack", __doc__)
    parser.add_argument("--input", required=True, metavar="FILE", help="the file to read")
    parser.add_argument("--member", metavar="NAME", help="the path of the text within an archive")
    parser.add_argument("--format", required=True, choices=["text", "sgm"], help="plain lines, or WMT's <seg> elements")
    parser.add_argument("--beside", nargs="+", default=[], metavar="FILE", help="sgm: a file to compare, its member")
    parser.add_argument("--lines", type=int, metavar="N", help="how many lines there must be")
    parser.add_argument("--output", required=True, metavar="FILE", help="the text to write")
    args = parser.parse_args(argv)
    if len(args.beside) > 2 or (args.beside and args.format != "sgm"):
        parser.error("--beside takes FILE [MEMBER], with --format sgm")
    return args
