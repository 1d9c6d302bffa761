"""The command `translate`: raw text, by beam search (§6.1)."""

import os
import sys
from collections.abc import Iterator
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
from transformer.translation.translator import TooLong, open_translator

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

    Takes one sentence a line and gives one a line, as they come in a pipe or at a terminal, of a text of any length.

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text

    Args:
        run: folder of a trained run, or an export
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
        translator, name, before = open_translator(run, model, changes), input or "standard input", 0
        for group in read:
            lines = list(decode_lines(group, name, before + 1))
            try:
                translations = translator.translate(lines, before)
            except TooLong as error:
                raise InputError(f"{name}: {error}") from None
            target.write("".join(line + "\n" for line in translations).encode())  # UTF-8, whatever the locale
            target.flush()
            before += len(lines)


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
