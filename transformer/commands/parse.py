"""The command `parse`: English constituency parsing by a trained run (§6.3)."""

import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

from cyclopts.types import File, PositiveInt

from transformer.commands import require_separate
from transformer.parsing.trees import bracketed, split_words
from transformer.storage.files import InputError, decode_lines, read_lines, replacing, split_lines
from transformer.storage.records import Parses, parse_json, write_json


def parse(
    *,
    run: Path,
    weights: Path | None = None,
    decoding: str = "{}",
    constrained: bool = False,
    input: list[Path] | None = None,
    most: PositiveInt | None = None,
    tokenized: bool = False,
    output: File | None = None,
    json: File | None = None,
    threads: PositiveInt | None = None,
) -> None:
    """Parse English sentences. Print one tree per line, with exactly the words of the line; a blank line stays blank.

    An output that is not a valid tree is repaired (transformer/parsing/trees.py).

        echo "The small king sees a dog." | python -m transformer parse --run results/demo/runs/supervised/parser/1

    Args:
        run: folder of a trained parser
        weights: weights file; default: RUN/average.safetensors
        decoding: JSON object with changes to RUN/decoding.yaml
        constrained: restrict the search to valid trees over the words
        input: text files; default: standard input
        most: maximum number of lines to parse, drawn evenly from --input
        tokenized: take the text as words separated by spaces
        output: file for the trees; default: standard output
        json: file for the repairs by line, and for the score of each line
        threads: number of CPU threads; default: all
    """
    from transformer.data.corpus import evenly
    from transformer.device import use_threads
    from transformer.parsing.parser import open_parser, penn_words

    if most and not input:
        raise InputError(f"--most {most}: expected --input FILE with this option, found none")
    require_separate({"--output": output, "--json": json}, {"--input": input or [], "--weights": [weights]}, run)
    use_threads(threads)
    if most:
        lines = evenly(input, most)
    elif input:
        lines = chain.from_iterable(map(read_lines, input))
    else:
        lines = decode_lines(split_lines(sys.stdin.buffer), "standard input")
    sentences = (split_words(line) if tokenized else penn_words(line) for line in lines)
    parser = open_parser(run, weights, parse_json(decoding, dict, "--decoding"), constrained)
    summary = Parses(sentences=0, repaired={}, scores=[])
    if output is None:
        sys.stdout.reconfigure(encoding="utf-8")  # in every locale
    with replacing(output) if output else nullcontext(sys.stdout) as file:
        for number, parsed in enumerate(parser.parse_all(sentences), start=1):
            file.write((bracketed(parsed.tree) if parsed else "") + "\n")
            summary["scores"].append(parsed.score if parsed else None)
            if parsed and parsed.fault:
                summary["repaired"][str(number)] = parsed.fault
        if json:
            write_json(json, summary | {"sentences": len(summary["scores"])})
