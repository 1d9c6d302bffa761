"""Turn trees into what a parser reads and writes (§6.3).

    python -m transformer linearize --trees resources/corpora/wsj-dev.trees --output results/paper/data/supervised/dev
    python -m transformer linearize --trees A.trees --phrases 20000 --repeat 2 --silver S.trees --output DATA/train

Writes OUTPUT.source.tok, the words, and OUTPUT.target.tok, brackets and tags, one sentence a line, in the form of
linearization.py, and OUTPUT.json with the counts. With --silver, trees that a parser made, the others come --repeat
times. --phrases adds constituents of the trees as if they were sentences, drawn evenly, none twice.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.files import InputError, replacing, write_columns
from transformer.layout import SIDES
from transformer.parsing.linearization import encode
from transformer.parsing.trees import Tree, clean, phrases, read_trees, words
from transformer.text import draw

SHORTEST_PHRASE = 4  # words; shorter ones have little to parse


def main(argv: list[str] | None = None) -> None:
    """Write both sides and the counts."""
    parser = stage_parser("linearize", __doc__)
    parser.add_argument("--trees", nargs="+", type=Path, required=True, help="treebanks, a tree on each line")
    parser.add_argument("--phrases", type=int, default=0, help="so many constituents at most; none if not given")
    parser.add_argument("--repeat", type=int, default=1, help="how often they are written; 1 if not given")
    parser.add_argument("--silver", type=Path, help="more trees, which are written once")
    parser.add_argument("--output", required=True, help="path without ending")
    args = parser.parse_args(argv)
    trees = [tree for path in args.trees for tree in read_clean(path)]
    drawn = draw_phrases(trees, args.phrases) if args.phrases else []
    gold = (trees + drawn) * args.repeat
    silver = read_clean(args.silver) if args.silver else iter(())  # may be millions: not held in memory
    lines = (map(" ".join, encode(tree)) for tree in chain(gold, silver))
    kept = write_columns(lines, [f"{args.output}.{side}.tok" for side in SIDES])
    counts = {"trees": len(trees), "phrases": len(drawn), "repeat": args.repeat, "silver": kept - len(gold)}
    with replacing(f"{args.output}.json") as file:
        json.dump({"kept": kept} | counts, file)
    print(f"{args.output}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def draw_phrases(trees: list[Tree], most: int) -> list[Tree]:
    """Return at most `most` constituents of `trees`, at equal distances; none has the words of one of the trees."""
    sentences = {tuple(words(tree)) for tree in trees}
    by_words = {tuple(words(phrase)): phrase for tree in trees for phrase in phrases(tree, SHORTEST_PHRASE)}
    new = [phrase for text, phrase in by_words.items() if text not in sentences]
    return list(draw(new, len(new), most))


def read_clean(path: Path) -> Iterator[Tree]:
    """Yield the trees of a file. Raises InputError where one holds no word, or there is none."""
    number = 0
    for number, tree in enumerate(read_trees(path), start=1):
        if not (cleaned := clean(tree)):
            raise InputError(f"{path}, line {number}: expected a tree with words, found traces alone")
        yield cleaned
    if number == 0:
        raise InputError(f"{path}: expected trees, found none")
