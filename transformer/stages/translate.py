"""Translate raw text by beam search (§6.1).

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text
    python -m transformer translate --run RUN --input resources/corpora/grammar-test.en --output RUN/test.hyp

Takes one sentence a line and gives one a line: tokenised, cut into subwords, translated, and joined to plain text
again, all as the run was trained. Needs RUN/experiment.yaml, decoding.yaml, vocabulary.model and average.safetensors;
with --weights RUN/last.safetensors the last checkpoint instead of the average.
"""

import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from transformer.arguments import json_object, stage_parser
from transformer.checkpoints import load_model
from transformer.config import Decoding, load
from transformer.files import InputError, replacing
from transformer.model import best_device
from transformer.subwords import Subwords
from transformer.text import decode_lines, read_lines
from transformer.tokenization import Moses
from transformer.translation import Translator


def main(argv: list[str] | None = None) -> None:
    """Translate --input or standard input."""
    parser = stage_parser("translate", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained run")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="what to translate with; RUN/average.safetensors if not given"
    )
    parser.add_argument("--decoding", type=json_object, default={}, help="JSON: what differs from RUN/decoding.yaml")
    parser.add_argument("--input", type=Path, help="text; standard input if not given")
    parser.add_argument("--output", type=Path, help="where to write; standard output if not given")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="processor threads; all if not given")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    name = args.input or "standard input"
    lines = list(read_lines(args.input) if args.input else decode_lines(sys.stdin.buffer, name))
    translator = open_translator(args.run, args.weights or args.run / "average.safetensors", args.decoding)
    try:
        translations = translator.translate(lines)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if len(translations) != len(lines):
        raise InputError(f"{name}: {len(lines)} lines, but {len(translations)} translations")
    text = "".join(line + "\n" for line in translations)
    if args.output is None:
        sys.stdout.buffer.write(text.encode())  # UTF-8, whatever the terminal's locale
        return
    with replacing(args.output) as file:
        file.write(text)


def open_translator(run: Path, weights: Path, changes: dict) -> Translator:
    """Everything that a run folder holds for translating, with its model at `weights` and `changes` to its decoding."""
    experiment = load(run / "experiment.yaml")
    decoding = asdict(load(run / "decoding.yaml", Decoding)) | changes
    vocabulary = Subwords(run / "vocabulary.model")
    if vocabulary.symbols:
        raise InputError(f"{run}: expected a translator, found a parser")
    return Translator(
        model=load_model(weights, experiment.model).to(best_device()),
        vocabulary=vocabulary,
        source=Moses(experiment.source, experiment.preparation),
        target=Moses(experiment.target, experiment.preparation),
        decoding=Decoding.read(decoding, "decoding"),
    )
