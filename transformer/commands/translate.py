"""The command `translate`: raw text, by beam search (§6.1)."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import torch
from cyclopts.types import PositiveInt

from transformer.config.experiment import load
from transformer.device import best_device
from transformer.files import LONGEST_LINE, InputError, decode_lines, groups, open_input, replacing, split_lines
from transformer.layout import Run
from transformer.model.weights import load_model
from transformer.records import parse_json
from transformer.translation.translator import TooLong, Translator, open_translator

TOGETHER = 2000  # lines of a file that are sorted by length and decoded together; changes speed only
PIECE = 2**18  # bytes read at once from standard input: about as many lines


def translate(
    *,
    run: Path,
    weights: Path | None = None,
    decoding: str = "{}",
    input: Path | None = None,
    output: Path | None = None,
    threads: PositiveInt | None = None,
) -> None:
    """Translate raw text by beam search (§6.1).

    Takes one sentence a line and gives one a line: tokenised, cut into subwords, translated, and joined to plain text
    again, all as the run was trained. Lines are answered as they come, in a pipe or at a terminal, and a text may be of
    any length. RUN is the folder of a run or of an export.

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text

    Args:
        run: folder of a trained run
        weights: RUN/average.safetensors if not given
        decoding: JSON: changes to RUN/decoding.yaml
        input: text; standard input if not given
        output: file of the translations; standard output if not given
        threads: processor threads; all if not given
    """
    torch.set_num_threads(threads or os.cpu_count())
    changes, files = parse_json(decoding, dict[str, Any], "--decoding"), Run(run)
    reading = open_input(input) if input else nullcontext(sys.stdin.buffer)
    writing = replacing(output, "wb") if output else nullcontext(sys.stdout.buffer)
    with reading as source, writing as target:
        read = groups(split_lines(source), TOGETHER, len) if input else arriving(source)
        model = load_model(weights or files.average, load(files.experiment).model).to(best_device())
        for lines in _translations(open_translator(run, model, changes), read, input or "standard input"):
            target.write("".join(line + "\n" for line in lines).encode())  # in UTF-8, whatever the terminal's locale
            target.flush()


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


def _translations(translator: Translator, read: Iterable[list[bytes]], name: str | Path) -> Iterator[list[str]]:
    """Yield the translations of each group of lines; at a bad line, InputError comes after those before it."""
    before = 0
    for group in read:
        lines, problem = [], None
        try:
            lines.extend(decode_lines(group, name, before + 1))  # up to the bad line
        except InputError as error:
            problem = error
        try:
            yield translator.translate(lines, before)
        except TooLong as error:
            yield translator.translate(lines[: error.index])
            raise InputError(f"{name}: {error}") from None
        if problem:
            raise problem
        before += len(lines)
