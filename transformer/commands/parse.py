"""The command `parse`: English constituency parsing with a trained run (§6.3)."""

import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

from cyclopts.types import File, PositiveInt

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
    """Parse English sentences. The tree of each line has exactly its words; a blank line gives a blank line.

    An invalid tree in the model's output is repaired (transformer/parsing/trees.py).

        echo "The small king sees a dog." | python -m transformer parse --run results/demo/runs/supervised/parser/1

    Args:
        run: folder of a trained parser
        weights: file of weights; default: RUN/average.safetensors
        decoding: JSON: changes to RUN/decoding.yaml
        constrained: restrict the search to trees over the words
        input: text files; default: standard input
        most: parse only this number of lines of --input, at equal distances
        tokenized: the text is already tokenised, with spaces between the words
        output: file for the trees; default: standard output
        json: file for the repairs by line, and for the score of each line
        threads: processor threads; default: all
    """
    from transformer.data.corpus import evenly
    from transformer.device import use_threads
    from transformer.parsing.parser import open_parser, penn_words

    if most and not input:
        raise InputError(f"--most {most}: expected with --input, found no --input")
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
        sys.stdout.reconfigure(encoding="utf-8")  # independent of the terminal's locale
    with replacing(output) if output else nullcontext(sys.stdout) as file:
        for number, parsed in enumerate(parser.parse_all(sentences), start=1):
            file.write((bracketed(parsed.tree) if parsed else "") + "\n")
            summary["scores"].append(parsed.score if parsed else None)
            if parsed and parsed.fault:
                summary["repaired"][str(number)] = parsed.fault
        if json:
            write_json(json, summary | {"sentences": len(summary["scores"])})
