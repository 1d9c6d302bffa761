"""Turn tokenised text into token arrays that training maps into memory.

    python -m transformer encode --data results/demo/data/en-de --splits train dev --processes 2

Reads DATA/{split}.{source,target}.tok and DATA/vocabulary.model; writes DATA/{split}.{side}.ids and .offsets, and last
DATA/data.json: counts, and the checksum by which a run names its data. Where the vocabulary has a parser's symbols, the
target side is linearised trees.
"""

import hashlib
import json
from pathlib import Path

from transformer.arguments import stage_parser
from transformer.corpus import SIDES, TokenArray, write_tokens
from transformer.files import InputError, read_json, replacing, sha256
from transformer.subwords import Subwords


def main(argv: list[str] | None = None) -> None:
    """Encode each side of each split, check the counts, write the checksum."""
    parser = stage_parser("encode", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of one task's data")
    parser.add_argument("--splits", nargs="+", required=True)
    parser.add_argument("--processes", type=int, required=True)
    args = parser.parse_args(argv)
    vocabulary = args.data / "vocabulary.model"
    about = {"files": {"vocabulary.model": sha256(vocabulary)}, "splits": {}}
    parses = bool(Subwords(vocabulary).symbols)
    for split in args.splits:
        about["splits"][split] = read_json(args.data / f"{split}.json")
        for side in SIDES:
            symbols = side == "target" and parses
            ids, offsets = (args.data / f"{split}.{side}.{kind}" for kind in ("ids", "offsets"))
            tokens = write_tokens(args.data / f"{split}.{side}.tok", vocabulary, ids, offsets, args.processes, symbols)
            check(TokenArray.open(ids, offsets), about["splits"][split]["kept"], ids)
            about["splits"][split][f"{side}_tokens"] = tokens
            about["files"] |= {path.name: sha256(path) for path in (ids, offsets)}
    about["sha256"] = hashlib.sha256(json.dumps(about["files"], sort_keys=True).encode()).hexdigest()
    with replacing(args.data / "data.json") as file:
        json.dump(about, file, indent=1)


def check(array: TokenArray, expected: int, path: Path) -> None:
    """The array holds as many sentences as the text."""
    if len(array) != expected:
        raise InputError(f"{path}: expected {expected} sentences, found {len(array)}")
