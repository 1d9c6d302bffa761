"""Turn trees into what a parser reads and writes (§6.3).

    python -m transformer linearize --trees resources/corpora/wsj-dev.trees --output results/paper/data/supervised/dev
    python -m transformer linearize --trees A.trees --repeat 2 --silver S.trees --output DATA/train

Writes OUTPUT.source.tok, the words, and OUTPUT.target.tok, brackets and tags, one sentence a line, as linearization.py
says, and OUTPUT.json with the counts. With --silver, trees that no person made, the others come --repeat times.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from transformer.arguments import stage_parser
from transformer.corpus import SIDES
from transformer.files import InputError, replacing
from transformer.linearization import encode
from transformer.trees import Tree, clean, read_trees


def main(argv: list[str] | None = None) -> None:
    """Write both sides and the counts."""
    parser = stage_parser("linearize", __doc__)
    parser.add_argument("--trees", nargs="+", type=Path, required=True, help="treebanks, a tree on each line")
    parser.add_argument("--repeat", type=int, default=1, help="how often they are written; 1 if not given")
    parser.add_argument("--silver", type=Path, help="more trees, which are written once")
    parser.add_argument("--output", required=True, help="path without ending")
    args = parser.parse_args(argv)
    trees = [tree for path in args.trees for tree in read_clean(path)]
    silver = list(read_clean(args.silver)) if args.silver else []
    write(trees * args.repeat + silver, args.output)
    counts = {"kept": len(trees) * args.repeat + len(silver), "trees": len(trees), "repeat": args.repeat}
    with replacing(f"{args.output}.json") as file:
        json.dump(counts | {"silver": len(silver)}, file)
    print(f"{args.output}: {len(trees):,} trees, {args.repeat} times, and {len(silver):,} silver trees")


def read_clean(path: Path) -> Iterator[Tree]:
    """The trees of a file. Raises InputError where one holds no word, or there is none."""
    number = 0
    for number, tree in enumerate(read_trees(path), start=1):
        if not (cleaned := clean(tree)):
            raise InputError(f"{path}, line {number}: expected a tree with words, found traces alone")
        yield cleaned
    if number == 0:
        raise InputError(f"{path}: expected trees, found none")


def write(trees: list[Tree], output: str) -> None:
    """A line on either side for each tree."""
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(f"{output}.{side}.tok")) for side in SIDES]
        for tree in trees:
            for file, side in zip(files, encode(tree), strict=True):
                file.write(" ".join(side) + "\n")
