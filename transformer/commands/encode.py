"""Turn tokenised text into token arrays that training maps into memory.

    python -m transformer encode --data results/demo/data/en-de --splits train dev --processes 2

Reads DATA/{split}.{source,target}.tok and DATA/vocabulary.model; writes DATA/{split}.{side}.ids and .offsets, and then
DATA/data.json: counts, and the checksum by which a run identifies its data. Where the vocabulary has a parser's
symbols, the target side is linearised trees.

Many jobs may share the work: --splits train --part K N encodes the K-th of N parts of the lines, into the folder
DATA/parts/K-of-N, and with --parts N the first split is put together from its parts. The result is the same.
"""

import argparse
import itertools
import json
from pathlib import Path

from transformer.commandline import part_arguments, stage_parser
from transformer.data.corpus import SIDES, TokenArray, gather_tokens, write_tokens
from transformer.data.manifest import Counts, checksum_of
from transformer.data.parts import WHOLE, Part, part_path, part_paths
from transformer.data.subwords import Subwords
from transformer.files import InputError, replacing, sha256
from transformer.records import read_json


def main(argv: list[str] | None = None) -> None:
    """Encode all splits, or one part of them."""
    args = parse(argv)
    part = tuple(args.part)
    if part == WHOLE:
        encode_all(args)
        return
    for split, side in itertools.product(args.splits, SIDES):
        encode(args.data, split, side, args.processes, part)


def encode_all(args: argparse.Namespace) -> None:
    """Encode each side of each split, or gather the parts of the first; check the counts and write data.json."""
    manifest = {"files": {"vocabulary.model": sha256(args.data / "vocabulary.model")}, "splits": {}}
    for split in args.splits:
        counts = manifest["splits"][split] = read_json(args.data / f"{split}.json", Counts)
        for side in SIDES:
            files = arrays(args.data, split, side)
            if split == args.splits[0] and args.parts > 1:
                parts = list(zip(*(part_paths(path, args.parts) for path in files), strict=True))
                counts[f"{side}_tokens"] = gather_tokens(parts, *files)
            else:
                counts[f"{side}_tokens"] = encode(args.data, split, side, args.processes, WHOLE)
            if (sentences := len(TokenArray.open(*files))) != counts["kept"]:
                raise InputError(f"{files[0]}: expected {counts['kept']} sentences, found {sentences}")
            manifest["files"] |= {path.name: sha256(path) for path in files}
    manifest["sha256"] = checksum_of(manifest["files"])
    with replacing(args.data / "data.json") as file:
        json.dump(manifest, file, indent=1)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("encode", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of one task's data")
    parser.add_argument("--splits", nargs="+", required=True)
    parser.add_argument("--processes", type=int, required=True)
    part_arguments(parser)
    return parser.parse_args(argv)


def arrays(data: Path, split: str, side: str) -> tuple[Path, Path]:
    """Return the two files of a token array."""
    return data / f"{split}.{side}.ids", data / f"{split}.{side}.offsets"


def encode(data: Path, split: str, side: str, processes: int, part: Part) -> int:
    """Encode one side of a split, or a part of it. Returns the number of tokens."""
    vocabulary = data / "vocabulary.model"
    symbols = side == "target" and bool(Subwords(vocabulary).symbols)
    files = (part_path(path, part) for path in arrays(data, split, side))
    return write_tokens(data / f"{split}.{side}.tok", vocabulary, *files, processes, symbols, part)
