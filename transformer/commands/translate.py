"""Translate raw text by beam search (§6.1).

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text
    python -m transformer translate --run RUN --input resources/corpora/grammar-test.en --output RUN/test.hyp

Takes one sentence a line and gives one a line: tokenised, cut into subwords, translated, and joined to plain text
again, all as the run was trained. Lines are answered as they come, in a pipe or at a terminal, and a text may be of any
length. Needs RUN/experiment.yaml, decoding.yaml, vocabulary.model and average.safetensors; with --weights
RUN/last.safetensors the last checkpoint instead of the average. With --engine ctranslate2, CTranslate2 translates, on
the processor: RUN is then what `export --format ctranslate2` made.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import torch

from transformer.commandline import json_object, positive, stage_parser
from transformer.config.experiment import load
from transformer.data.subwords import SPACE, note_spaces
from transformer.files import InputError, open_input, replacing
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.runtime.device import best_device
from transformer.text import LONGEST_LINE, decode_lines, groups, split_lines
from transformer.translation.ctranslate2 import CTranslate2, open_ctranslate2
from transformer.translation.translator import TooLong, Translator, open_translator

TOGETHER = 2000  # lines of a file that are sorted by length and decoded together; changes speed only
PIECE = 2**18  # bytes read at once from standard input: about as many lines


def main(argv: list[str] | None = None) -> None:
    """Translate --input or standard input."""
    parser = stage_parser("translate", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained run")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument("--engine", choices=("torch", "ctranslate2"), default="torch", help="torch if not given")
    parser.add_argument("--compute-type", metavar="TYPE", help="CTranslate2's: int8, int16, ...; float32 if not given")
    parser.add_argument("--decoding", type=json_object, default={}, help="JSON: what differs from RUN/decoding.yaml")
    parser.add_argument("--input", type=Path, help="text; standard input if not given")
    parser.add_argument("--output", type=Path, help="where to write; standard output if not given")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all if not given")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    reading = open_input(args.input) if args.input else nullcontext(sys.stdin.buffer)
    writing = replacing(args.output, "wb") if args.output else nullcontext(sys.stdout.buffer)
    with reading as file, writing as output:
        read = groups(split_lines(file), TOGETHER, len) if args.input else arriving(file)
        translator = open_translator(args.run, open_model(args), args.decoding)
        for translation in translations(translator, read, args.input or "standard input"):
            output.write(translation)
            output.flush()


def arriving(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a pipe or a terminal as they arrive, all that are there, up to one that is too long."""
    begun = b""
    while piece := file.read1(PIECE):
        *lines, begun = (begun + piece).split(b"\n")
        if lines:
            yield [line + b"\n" for line in lines]
        if len(begun) > LONGEST_LINE:
            break  # decode_lines refuses it
    if begun:
        yield [begun]


def translations(translator: Translator, read: Iterable[list[bytes]], name: str | Path) -> Iterator[bytes]:
    """Yield the translations of each group of lines. Raises InputError at a bad line, after those before it.

    At the end, however it comes, says on standard error how many lines hold SPACE.
    """
    before = spaces = 0
    try:
        for group in read:
            lines, problem = [], None
            try:
                for line in decode_lines(group, name, before + 1):
                    lines.append(line)
            except InputError as error:
                problem = error
            spaces += sum(SPACE in line for line in lines)
            try:
                yield encoded(translator.translate(lines, before))
            except TooLong as error:
                yield encoded(translator.translate(lines[: error.index]))
                raise InputError(f"{name}: {error}") from None
            if problem:
                raise problem
            before += len(lines)
    finally:
        note_spaces(spaces, name)


def encoded(lines: list[str]) -> bytes:
    """Return the lines in UTF-8, whatever the terminal's locale."""
    return "".join(line + "\n" for line in lines).encode()


def open_model(args: argparse.Namespace) -> Transformer | CTranslate2:
    """Return the run's model in the engine that the command line names. Raises InputError on options that conflict."""
    if args.engine == "ctranslate2":
        if args.weights:
            raise InputError("--weights: CTranslate2 takes those that were exported")
        return open_ctranslate2(args.run, args.compute_type or "float32", args.threads)
    if args.compute_type:
        raise InputError("--compute-type: expected with --engine ctranslate2 only")
    weights = args.weights or args.run / "average.safetensors"
    return load_model(weights, load(args.run / "experiment.yaml").model).to(best_device())
