"""Clean and tokenise one split of a task (§5.1).

    python -m transformer tokenize --source A.en B.en --target A.de B.de --languages en de --clean \\
        --preparation '{"normalize_punctuation": true, ...}' --processes 2 --output results/demo/data/en-de/train

Writes OUTPUT.source.tok and OUTPUT.target.tok, one sentence a line, and OUTPUT.json with the counts.
"""

import json
from pathlib import Path

from transformer.arguments import json_object, stage_parser
from transformer.config import Preparation
from transformer.corpus import SIDES, write_tokenized
from transformer.files import InputError, replacing
from transformer.text import read_pairs


def main(argv: list[str] | None = None) -> None:
    """Tokenise, then count what was written."""
    parser = stage_parser("tokenize", __doc__)
    parser.add_argument("--source", nargs="+", type=Path, required=True, help="source sides of the corpora")
    parser.add_argument("--target", nargs="+", type=Path, required=True, help="target sides, in the same order")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--preparation", type=json_object, required=True, help="JSON: config.yaml's preparation")
    parser.add_argument("--clean", action="store_true", help="drop empty, long and unequal pairs (training data)")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--output", required=True, help="path without ending")
    args = parser.parse_args(argv)
    if len(args.source) != len(args.target):
        raise InputError(f"{len(args.source)} source files, but {len(args.target)} target files")
    corpora = list(zip(args.source, args.target, strict=True))
    outputs = tuple(Path(f"{args.output}.{side}.tok") for side in SIDES)
    preparation = Preparation.read(args.preparation, "preparation")
    counts = write_tokenized(corpora, outputs, tuple(args.languages), preparation, args.clean, args.processes)
    check(outputs, counts["kept"])
    with replacing(f"{args.output}.json") as file:
        json.dump(counts, file)
    print(f"{args.output}: kept {counts['kept']:,} of {counts['read']:,} pairs")


def check(outputs: tuple[Path, Path], expected: int) -> None:
    """Both sides hold the expected number of lines, none of which the tokeniser broke."""
    found = sum(1 for _ in read_pairs(*outputs))
    if found != expected:
        raise InputError(f"{outputs[0]}: expected {expected} lines, found {found}")
