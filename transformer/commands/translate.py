"""The command `translate`: translation of raw text by beam search (§6.1)."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from cyclopts import Parameter
from cyclopts.types import File, NonNegativeFloat, PositiveInt

from transformer.commands import require_separate
from transformer.device import use_threads
from transformer.storage.files import LONGEST_LINE, InputError, decode_lines, groups, open_input, replacing, split_lines
from transformer.storage.records import parse_json
from transformer.translation.translator import TooLong, Translation, open_translator

logger = logging.getLogger(__name__)
TOGETHER = 2000  # lines that are sorted by length and decoded together; this number changes only the speed
PIECE = 2**18  # maximum number of bytes per read from standard input; about TOGETHER lines


def translate(
    sentence: str | None = None,
    /,
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

    Each line is a sentence. Lines from a pipe or terminal are translated as they arrive. A text may have any length.

    python -m transformer translate --run results/demo/runs/en-de/base/1 < text

    Args:
        sentence: text to translate, instead of a file
        run: folder of a trained run, or an export
        weights: weights file; default: RUN/average.safetensors
        decoding: JSON object with changes to RUN/decoding.yaml
        beam_size: number of hypotheses in the beam; default: the run's setting
        length_penalty: exponent alpha of the length penalty; default: the run's setting
        n_best: number of translations per sentence, in Moses' format: number ||| translation ||| score
        json: write one JSON line per sentence: source, and translations with text, score and tokens, best first
        input: text file; default: standard input
        output: file for the translations; default: standard output
        threads: number of CPU threads; default: all
    """
    if sentence is not None and input:
        raise InputError(f"expected a sentence or --input, found both: {sentence!r:.40} and {input}")
    if sentence is not None and not sentence.strip():
        raise InputError("expected a sentence, found a blank one")
    require_separate({"--output": output}, {"--input": [input], "--weights": [weights]}, run)
    use_threads(threads)
    translator = open_translator(run, weights, parse_json(decoding, dict[str, Any], "--decoding"))
    asked = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": n_best or 1}
    if sys.stderr.isatty():  # a terminal, not a job's log
        about = translator.experiment
        logger.info("%s, %s to %s. Data: %s.", about.name, about.source, about.target, about.label)
        logger.info("The model can translate only text like its training data.")
    given = None if sentence is None else BytesIO(sentence.encode(errors="surrogateescape"))
    reading = open_input(input) if input else nullcontext(given or sys.stdin.buffer)
    writing = replacing(output, "wb") if output else nullcontext(sys.stdout.buffer)
    with reading as source, writing as target:
        name = input or ("sentence" if given else "standard input")
        pieces = [split_lines(source)] if input or given else arriving(source)
        for before, lines in _groups(pieces, name):
            fault = None
            try:
                translations = translator.translate(lines, **asked)
            except TooLong as error:  # translate the sentences before the long sentence first
                fault = InputError(f"{name}: line {before + error.number}: {error.problem}")
                lines = lines[: error.number - 1]
                translations = translator.translate(lines, **asked)
            for number, (line, best) in enumerate(zip(lines, translations, strict=True), start=before):
                answer = _json(line, best) if json else _moses(number, best) if n_best else best.text + "\n"
                target.write(answer.encode())  # UTF-8 in every locale
            target.flush()
            if fault:
                raise fault


def _groups(pieces: Iterable[Iterable[bytes]], name: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield groups of lines, each with the number of lines before it. Raises InputError with the line number."""
    before = 0
    for piece in pieces:
        for lines in groups(decode_lines(piece, name, before + 1), TOGETHER, len):
            yield before, lines
            before += len(lines)


def _json(source: str, best: Translation) -> str:
    return json.dumps({"source": source, "translations": best.ranked()}, ensure_ascii=False) + "\n"


def _moses(number: int, best: Translation) -> str:
    """Format n-best lists like Moses: the sentence's number from 0, a translation, its score."""
    return "".join(f"{number} ||| {one.text} ||| {one.score:.4f}\n" for one in (best, *best.others))


def arriving(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a pipe or a terminal as they arrive. Stop at a line that is too long."""
    begun = b""
    while piece := file.read1(PIECE):
        *lines, begun = (begun + piece).split(b"\n")
        if lines:
            yield [line + b"\n" for line in lines]
        if len(begun) > LONGEST_LINE:
            break  # decode_lines rejects this line
    if begun:
        yield [begun]
