"""The command `translate`: raw text, by beam search (§6.1)."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from cyclopts import Parameter
from cyclopts.types import File, NonNegativeFloat, PositiveInt
from msgspec.structs import asdict

from transformer.commands import require_separate
from transformer.device import use_threads
from transformer.storage.files import LONGEST_LINE, InputError, decode_lines, groups, open_input, replacing, split_lines
from transformer.storage.records import parse_json, run_name
from transformer.translation.translator import TooLong, Translation, open_translator

logger = logging.getLogger(__name__)
TOGETHER = 2000  # lines of a file that are sorted by length and decoded together; changes speed only
PIECE = 2**18  # bytes read at once from standard input: about as many lines


def translate(
    *,
    run: Path,
    weights: Path | None = None,
    decoding: str = "{}",
    beam_size: Annotated[PositiveInt | None, Parameter(alias="--beam")] = None,
    length_penalty: Annotated[NonNegativeFloat | None, Parameter(alias="--alpha")] = None,
    n_best: PositiveInt | None = None,
    json: bool = False,
    input: Path | None = None,
    output: File | None = None,
    threads: PositiveInt | None = None,
) -> None:
    """Translate raw text by beam search (§6.1).

    Takes one sentence a line and gives one a line, as they come in a pipe or at a terminal, of a text of any length.

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text

    Args:
        run: folder of a trained run, or an export
        weights: RUN/average.safetensors if not given
        decoding: JSON: changes to RUN/decoding.yaml
        beam_size: hypotheses that are kept; the run's if not given
        length_penalty: exponent alpha of the length penalty; the run's if not given
        n_best: so many translations of each sentence, as lines of Moses' form: number ||| translation ||| score
        json: one line of JSON a sentence: source, and translations with text, score and tokens, the best first
        input: text; standard input if not given
        output: file of the translations; standard output if not given
        threads: processor threads; all if not given
    """
    require_separate({"--output": output}, {"--input": [input], "--weights": [weights]}, run)
    use_threads(threads)
    translator = open_translator(run, weights, parse_json(decoding, dict[str, Any], "--decoding"))
    asked = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": n_best or 1}
    if sys.stderr.isatty():  # not in a job's log
        about = translator.experiment
        logger.info("%s, %s to %s. Data: %s.", run_name(asdict(about)), about.source, about.target, about.label)
        logger.info("It knows only sentences like those that it has learned from.")
    reading = open_input(input) if input else nullcontext(sys.stdin.buffer)
    writing = replacing(output, "wb") if output else nullcontext(sys.stdout.buffer)
    with reading as source, writing as target:
        name, pieces = input or "standard input", [split_lines(source)] if input else arriving(source)
        for before, lines in _groups(pieces, name):
            fault = None
            try:
                translations = translator.translate(lines, **asked)
            except TooLong as error:  # what came before it is answered
                fault = InputError(f"{name}: line {before + error.number}: {error.problem}")
                lines = lines[: error.number - 1]
                translations = translator.translate(lines, **asked)
            for number, (line, best) in enumerate(zip(lines, translations, strict=True), start=before):
                answer = _json(line, best) if json else _moses(number, best) if n_best else best.text + "\n"
                target.write(answer.encode())  # UTF-8, whatever the locale
            target.flush()
            if fault:
                raise fault


def _groups(pieces: Iterable[Iterable[bytes]], name: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are translated together, and how many come before them. Raises InputError naming the line."""
    before = 0
    for piece in pieces:
        for lines in groups(decode_lines(piece, name, before + 1), TOGETHER, len):
            yield before, lines
            before += len(lines)


def _json(source: str, best: Translation) -> str:
    return json.dumps({"source": source, "translations": best.ranked()}, ensure_ascii=False) + "\n"


def _moses(number: int, best: Translation) -> str:
    """Write n best as Moses does: the sentence's number, from 0, the translation, its score."""
    return "".join(f"{number} ||| {one.text} ||| {one.score:.4f}\n" for one in (best, *best.others))


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
