"""Keep the trees that a parser is surest of, for another to learn from (§6.3, with a parser's own trees in place of the
paper's corpora, which are not public).

    python -m transformer silver --trees parsed.trees --parses parsed.json --keep 0.5 --most-words 80 \\
        --output DATA/silver.trees

Reads what the parse stage wrote. Left out are blank lines, trees that had to be repaired and sentences of over
--most-words words; of the others, the share --keep with the highest scores stays, in their order.
"""

import math
from pathlib import Path

from transformer.commandline import stage_parser
from transformer.common.files import InputError, read_json, replacing
from transformer.common.text import read_lines
from transformer.parsing.trees import parse, words


def main(argv: list[str] | None = None) -> None:
    """Choose, and write."""
    parser = stage_parser("silver", __doc__)
    parser.add_argument("--trees", type=Path, required=True, help="the parses, a tree on each line")
    parser.add_argument("--parses", type=Path, required=True, help="their repairs and scores")
    parser.add_argument("--keep", type=float, required=True, help="which share stays, over 0 and at most 1")
    parser.add_argument("--most-words", type=int, required=True, help="longer sentences are left out")
    parser.add_argument("--output", type=Path, required=True, help="where to write the trees that stay")
    args = parser.parse_args(argv)
    if not 0 < args.keep <= 1:
        parser.error(f"--keep: expected a share over 0 and at most 1, found {args.keep:g}")
    about = read_json(args.parses)
    if not isinstance(about, dict) or not {"sentences", "repaired", "scores"} <= about.keys():
        raise InputError(f"{args.parses}: expected what the parse stage writes: sentences, repaired and scores")
    lines = list(read_lines(args.trees))
    if len(lines) != about["sentences"]:
        raise InputError(
            f"{args.trees}: expected {about['sentences']} trees, as {args.parses} says, found {len(lines)}"
        )
    whole = [index for index, line in enumerate(lines) if line and str(index + 1) not in about["repaired"]]
    short = [index for index in whole if count_words(lines[index], args.trees) <= args.most_words]
    if not short:
        raise InputError(
            f"{args.trees}: none of {len(lines):,} parses is a tree without repair of {args.most_words} words at most"
        )
    kept = surest(short, about["scores"], math.ceil(args.keep * len(short)))
    with replacing(args.output) as file:
        file.writelines(lines[index] + "\n" for index in kept)
    print(f"{args.output}: {len(kept):,} of {len(lines):,} trees; {len(lines) - len(whole):,} were blank or repaired")


def count_words(line: str, path: Path) -> int:
    """How many words the tree has."""
    ((_, tree),) = parse([line], path)
    return len(words(tree))


def surest(indices: list[int], scores: list[float], count: int) -> list[int]:
    """The `count` of these that have the highest scores, in ascending order."""
    return sorted(sorted(indices, key=lambda index: -scores[index])[:count])
