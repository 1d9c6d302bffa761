"""Write a treebank's trees as a parser is to find them, one a line: under TOP, without traces and function tags (§6.3).

    python -m transformer treebank --format ptb --input /data/LDC99T42/parsed/mrg/wsj --sections 2 21 --lines 39832 \\
        --output resources/corpora/wsj-train.trees

--input is, by --format: ptb, the Penn Treebank's folder wsj with a folder for each section or with all files side by
side; gum, the archive of GUM's repository as GitHub packs it; lines, a file with one tree a line, plain or .gz. Nothing
is written when there is no tree or another number than --lines.
"""

import argparse
from collections.abc import Iterator

from transformer.arguments import stage_parser
from transformer.files import InputError, replacing
from transformer.treebanks import read_gum, read_penn, read_plain
from transformer.trees import Tree, bracketed


def main(argv: list[str] | None = None) -> None:
    """Read, clean and write, counting the trees."""
    args = parse(argv)
    count = 0
    with replacing(args.output) as file:
        for tree in read(args):
            file.write(f"{bracketed(tree)}\n")
            count += 1
        if count == 0:
            raise InputError(f"{args.input}: expected trees, found none")
        if args.lines not in (None, count):
            raise InputError(f"{args.input}: expected {args.lines} trees, found {count}")
    print(f"{args.output}: {count} trees")


def read(args: argparse.Namespace) -> Iterator[Tree]:
    """The trees asked for."""
    if args.format == "ptb":
        return read_penn(args.input, *args.sections)
    if args.format == "lines":
        return read_plain(args.input)
    trees, without = read_gum(args.input, args.split)
    if without:
        print(f"{args.input}: left out {len(without)} documents without trees: {', '.join(without)}")
    return trees


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("treebank", __doc__)
    parser.add_argument("--format", required=True, choices=["ptb", "gum", "lines"], help="what the treebank is")
    parser.add_argument("--input", required=True, metavar="PATH", help="the treebank: a folder, an archive or a file")
    parser.add_argument(
        "--sections", nargs=2, type=int, metavar=("FIRST", "LAST"), help="of the Penn Treebank, both included"
    )
    parser.add_argument("--split", metavar="NAME", help="of GUM: train, dev, test or test2")
    parser.add_argument("--lines", type=int, metavar="N", help="how many trees there must be")
    parser.add_argument("--output", required=True, metavar="FILE", help="the trees to write")
    args = parser.parse_args(argv)
    if (args.sections is None) != (args.format != "ptb") or (args.split is None) != (args.format != "gum"):
        parser.error("expected --sections with --format ptb, --split with --format gum, and neither otherwise")
    if args.sections and not 0 <= args.sections[0] <= args.sections[1] <= 24:
        parser.error(f"expected --sections between 0 and 24, the first one first, found {args.sections}")
    return args
