r"""Parse English sentences (§6.3).

    echo "The cat sleeps." | python -m transformer parse --run results/demo/runs/supervised/parser/1
    python -m transformer parse --run RUN --input DATA/test.source.tok --tokenized --output RUN/test.trees \
        --json RUN/test.parses.json

Takes one sentence a line, plain text, or with --tokenized words with spaces between them; gives one tree a line, over
exactly these words, and a blank line for a blank one. Where the model's output is no tree, it is repaired
(linearization.py), and --json lists these lines and their faults, beside the score of each line. Needs
RUN/experiment.yaml, decoding.yaml, vocabulary.model and average.safetensors.
"""

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import torch
from msgspec.structs import asdict

from transformer.commandline import json_object, positive, stage_parser
from transformer.config.experiment import Decoding, load
from transformer.data.subwords import Subwords, evenly, noting_spaces
from transformer.files import InputError, replacing
from transformer.model.weights import load_model
from transformer.parsing.parser import Parse, Parser, penn_words
from transformer.parsing.repairs import Repairs
from transformer.parsing.trees import bracketed, from_brackets
from transformer.runtime.device import best_device
from transformer.text import decode_lines, read_lines, split_lines

CHUNK = 10_000  # lines in memory: enough to find sentences of similar length, which are parsed together


def main(argv: list[str] | None = None) -> None:
    """Parse --input or standard input."""
    parser = stage_parser("parse", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained parser")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument("--decoding", type=json_object, default={}, help="JSON: what differs from RUN/decoding.yaml")
    parser.add_argument("--constrained", action="store_true", help="search for trees over the words only")
    parser.add_argument("--input", nargs="+", type=Path, help="text; standard input if not given")
    parser.add_argument("--most", type=int, help="parse only so many lines of --input, drawn evenly")
    parser.add_argument("--tokenized", action="store_true", help="the text is words with spaces between them")
    parser.add_argument("--output", type=Path, help="where to write trees; standard output if not given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write repairs and scores")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all if not given")
    args = parser.parse_args(argv)
    if args.most is not None and (args.most < 1 or args.input is None):
        parser.error(f"--most: expected 1 at least, and --input, found {args.most}")
    torch.set_num_threads(args.threads)
    lines = evenly(args.input, args.most) if args.most else read(args.input)
    sentences = (list(map(from_brackets, line.split())) if args.tokenized else penn_words(line) for line in lines)
    parses = parse(open_parser(args.run, args.weights, args.decoding, args.constrained), sentences)
    with ExitStack() as stack:
        if args.output is None:
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the terminal's locale
        summary = write(parses, stack.enter_context(replacing(args.output)) if args.output else sys.stdout)
        if args.json:
            json.dump(summary, stack.enter_context(replacing(args.json)))


def read(paths: list[Path] | None) -> Iterator[str]:
    """Yield the lines of all files, or of standard input."""
    if paths is None:
        lines = decode_lines(split_lines(sys.stdin.buffer), "standard input")
        return noting_spaces(lines, "standard input")
    return itertools.chain.from_iterable(noting_spaces(read_lines(path), path) for path in paths)


def open_parser(run: Path, weights: Path | None, changes: dict, constrained: bool) -> Parser:
    """Return the parser in a run folder, with `changes` to its decoding. Raises InputError where it is a translator."""
    experiment = load(run / "experiment.yaml")
    decoding = asdict(load(run / "decoding.yaml", Decoding)) | changes
    vocabulary = Subwords(run / "vocabulary.model").fitting(experiment.model.embedding_rows)
    if not vocabulary.symbols:
        raise InputError(
            f"{run}: expected a parser, found a translator from {experiment.source} to {experiment.target}"
        )
    return Parser(
        model=load_model(weights or run / "average.safetensors", experiment.model).to(best_device()),
        vocabulary=vocabulary,
        decoding=Decoding.read(decoding, "decoding"),
        constrained=constrained,
    )


def parse(parser: Parser, sentences: Iterable[list[str]]) -> Iterator[Parse | None]:
    """Yield a parse for each sentence, None for one without words."""
    sentences = iter(sentences)
    while chunk := list(itertools.islice(sentences, CHUNK)):
        parses = iter(parser.parse([words for words in chunk if words]))
        yield from (next(parses) if words else None for words in chunk)


def write(parses: Iterable[Parse | None], file: IO[str]) -> Repairs:
    """Write a line for each parse. Returns the repairs, by line, and all scores."""
    repaired, scores = {}, []
    for number, parsed in enumerate(parses, start=1):
        file.write((bracketed(parsed.tree) if parsed else "") + "\n")
        scores.append(parsed.score if parsed else None)
        if parsed and parsed.fault:
            repaired[str(number)] = parsed.fault
    return Repairs(sentences=len(scores), repaired=repaired, scores=scores)
