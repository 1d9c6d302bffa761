r"""Keep the trees that a parser is most certain of, for another parser to learn from (§6.3).

    python -m transformer silver --trees parsed.trees --parses parsed.json --keep 0.5 --most-words 80 \
        --output DATA/silver.trees

These trees take the place of the paper's corpora, which are not public. Reads what the parse stage wrote; leaves out
blank lines, trees that had to be repaired and sentences of more than --most-words words; of the others, keeps the share
--keep with the highest scores, in their order.
"""

import math
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.files import InputError, replacing
from transformer.parsing.repairs import Repairs, read_repairs
from transformer.parsing.trees import parse, words
from transformer.text import read_lines


def main(argv: list[str] | None = None) -> None:
    """Choose the trees and write them."""
    parser = stage_parser("silver", __doc__)
    parser.add_argument("--trees", type=Path, required=True, help="the parses, a tree on each line")
    parser.add_argument("--parses", type=Path, required=True, help="their repairs and scores")
    parser.add_argument("--keep", type=float, required=True, help="which share stays, over 0 and at most 1")
    parser.add_argument("--most-words", type=int, required=True, help="longer sentences are left out")
    parser.add_argument("--output", type=Path, required=True, help="where to write the trees that stay")
    args = parser.parse_args(argv)
    if not 0 < args.keep <= 1:
        parser.error(f"--keep: expected a share over 0 and at most 1, found {args.keep:g}")
    lines, parses = read_parses(args.trees, args.parses)
    whole = [index for index, line in enumerate(lines) if line and str(index + 1) not in parses["repaired"]]
    short = [index for index in whole if count_words(lines[index], args.trees) <= args.most_words]
    if not short:
        raise InputError(
            f"{args.trees}: none of {len(lines):,} parses is a tree without repair of {args.most_words} words at most"
        )
    best = sorted(short, key=lambda index: -parses["scores"][index])
    kept = sorted(best[: math.ceil(args.keep * len(short))])
    with replacing(args.output) as file:
        file.writelines(lines[index] + "\n" for index in kept)
    print(f"{args.output}: {len(kept):,} of {len(lines):,} trees; {len(lines) - len(whole):,} were blank or repaired")


def read_parses(trees: Path, parses: Path) -> tuple[list[str], Repairs]:
    """Return the lines of `trees` and the repairs and scores in `parses`. Raises InputError where they do not fit."""
    lines = list(read_lines(trees))
    content = read_repairs(parses, trees, len(lines))
    for index, line in enumerate(lines):
        if line and content["scores"][index] is None and str(index + 1) not in content["repaired"]:
            raise InputError(f"{parses}, scores[{index}]: expected a score, found None")
    return lines, content


def count_words(line: str, path: Path) -> int:
    """Count the words of the tree on a line."""
    ((_, tree),) = parse([line], path)
    return len(words(tree))
