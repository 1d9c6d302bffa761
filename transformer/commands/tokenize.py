r"""Clean and tokenise one split of a task (§5.1).

    python -m transformer tokenize --source A.en B.en --target A.de B.de --languages en de --clean \
        --preparation '{"normalize_punctuation": true, ...}' --processes 2 --output results/demo/data/en-de/train

Writes OUTPUT.source.tok and OUTPUT.target.tok, one sentence a line, and OUTPUT.json with the counts.

Many jobs may share the work: the same command with --part K N tokenises the K-th of N parts of the pairs, into the
folder parts/K-of-N beside OUTPUT, and with --parts N it puts the parts together. The result is the same.
"""

import argparse
import json
from pathlib import Path

from transformer.commandline import json_object, part_arguments, stage_parser
from transformer.config.experiment import Preparation
from transformer.data.corpus import SIDES, check_kept, write_tokenized
from transformer.data.manifest import Read
from transformer.data.parts import join, part_path, part_paths
from transformer.files import InputError, replacing
from transformer.records import read_json
from transformer.text import count_lines


def main(argv: list[str] | None = None) -> None:
    """Tokenise, or gather what was tokenised, then count what was written."""
    args = parse(argv)
    if len(args.source) != len(args.target):
        raise InputError(f"{len(args.source)} source files, but {len(args.target)} target files")
    corpora = list(zip(args.source, args.target, strict=True))
    output = part_path(args.output, tuple(args.part))
    texts = tuple(output.with_name(f"{output.name}.{side}.tok") for side in SIDES)
    summary = output.with_name(f"{output.name}.json")
    if args.parts > 1:
        counts = gather(corpora, texts, summary, args.parts)
    else:
        preparation = Preparation.read(args.preparation, "preparation")
        options = (tuple(args.languages), preparation, args.clean, args.processes, tuple(args.part))
        counts = write_tokenized(corpora, texts, *options)
    for text in texts:
        if (lines := count_lines(text)) != counts["kept"]:  # as when the tokeniser breaks one
            raise InputError(f"{text}: expected {counts['kept']} lines, found {lines}")
    with replacing(summary) as file:
        json.dump(counts, file)
    print(f"{output}: kept {counts['kept']:,} of {counts['read']:,} pairs")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("tokenize", __doc__)
    parser.add_argument("--source", nargs="+", type=Path, required=True, help="source sides of the corpora")
    parser.add_argument("--target", nargs="+", type=Path, required=True, help="target sides, in the same order")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--preparation", type=json_object, required=True, help="JSON: config.yaml's preparation")
    parser.add_argument("--clean", action="store_true", help="drop empty, long and unequal pairs (training data)")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True, help="path without ending")
    part_arguments(parser)
    return parser.parse_args(argv)


def gather(corpora: list[tuple[Path, Path]], texts: tuple[Path, Path], summary: Path, parts: int) -> dict[str, int]:
    """Put the parts together. Returns how many pairs were read and kept in all of them."""
    counts_of_parts = [read_json(path, Read) for path in part_paths(summary, parts)]
    counts = {name: sum(part[name] for part in counts_of_parts) for name in ("read", "kept")}
    check_kept(counts, corpora)
    for text in texts:
        join(part_paths(text, parts), text)
    return counts
