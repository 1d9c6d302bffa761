r"""Write a treebank's trees as a parser should find them, one a line: under TOP, without traces, function tags (§6.3).

    python -m transformer treebank --format ptb --input /data/LDC99T42/parsed/mrg/wsj --sections 2 21 --lines 39832 \
        --output resources/corpora/wsj-train.trees

--input is, by --format: ptb, the Penn Treebank's folder wsj with a folder for each section or with all files side by
side; gum, the archive of GUM's repository as GitHub packs it; lines, a file with one tree a line, plain or .gz. Nothing
is written when there is no tree, another number than --lines, or another content than --sha256.
"""

import argparse
import hashlib
from collections.abc import Iterator

from transformer.commandline import stage_parser
from transformer.files import InputError, replacing
from transformer.parsing.treebanks import LICENCE, read_gum, read_penn, read_plain
from transformer.parsing.trees import Tree, bracketed
from transformer.text import printable


def main(argv: list[str] | None = None) -> None:
    """Write the cleaned trees and check their number and sum."""
    args = parse(argv)
    count, digest = 0, hashlib.sha256()
    with replacing(args.output) as file:
        for tree in read(args):
            line = f"{bracketed(tree)}\n"
            file.write(line)
            digest.update(line.encode())
            count += 1
        if count == 0:
            raise InputError(f"{args.input}: expected trees, found none")
        if args.lines not in (None, count):
            raise InputError(f"{args.input}: expected {args.lines} trees{of_part(args)}, found {count}")
        if args.sha256 not in (None, digest.hexdigest()):
            expected = f"trees{of_part(args)} with SHA-256 {args.sha256}"
            raise InputError(f"{args.input}: expected {expected}, found {digest.hexdigest()}")
    print(f"{args.output}: {count} trees")


def of_part(args: argparse.Namespace) -> str:
    """Name the part of a treebank that was read, and where to get the treebank."""
    if args.sections:
        return f" in sections {args.sections[0]:02} to {args.sections[1]:02} ({LICENCE})"
    return f" in {args.split}" if args.split else ""


def read(args: argparse.Namespace) -> Iterator[Tree]:
    """Read the trees that the command line asks for."""
    if args.format == "ptb":
        return read_penn(args.input, *args.sections)
    if args.format == "lines":
        return read_plain(args.input)
    trees, without = read_gum(args.input, args.split)
    if without:
        print(printable(f"{args.input}: left out {len(without)} documents without words: {', '.join(without)}"))
    return trees


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("treebank", __doc__)
    parser.add_argument("--format", required=True, choices=["ptb", "gum", "lines"], help="what the treebank is")
    parser.add_argument("--input", required=True, metavar="PATH", help="the treebank: a folder, an archive or a file")
    parser.add_argument("--sections", nargs=2, type=int, metavar=("FIRST", "LAST"), help="of the treebank, inclusive")
    parser.add_argument("--split", metavar="NAME", help="of GUM: train, dev, test or test2")
    parser.add_argument("--lines", type=int, metavar="N", help="how many trees there must be")
    parser.add_argument("--sha256", metavar="SUM", help="the SHA-256 that the output must have, in hexadecimal")
    parser.add_argument("--output", required=True, metavar="FILE", help="the trees to write")
    args = parser.parse_args(argv)
    if (args.sections is None) != (args.format != "ptb") or (args.split is None) != (args.format != "gum"):
        parser.error("expected --sections with --format ptb, --split with --format gum, and neither otherwise")
    if args.sections and not 0 <= args.sections[0] <= args.sections[1] <= 24:
        parser.error(f"expected --sections between 0 and 24, the first one first, found {args.sections}")
    return args
