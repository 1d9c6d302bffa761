"""Options and results that the command lines of several stages have in common."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from transformer.files import replacing

PRINT = "-"  # the --json that is no file


def stage_parser(stage: str, manual: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m transformer STAGE`, whose --help begins with the module's docstring."""
    return argparse.ArgumentParser(
        prog=f"transformer {stage}", description=manual, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def named_parsers(
    parser: argparse.ArgumentParser, package: str, names: Iterable[str], argv: list[str]
) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser for each module of `package` that is named, to which the caller adds what all have in common.

    The one that `argv` begins with then gets the module's manual and its `add_options`, and parses to a namespace with
    this `module`; others are not imported, for some take seconds.
    """
    choices = parser.add_subparsers(dest="name", metavar="NAME", required=True, help=", ".join(names))
    for name in names:
        own = choices.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        yield own
        if argv[:1] == [name]:
            module = import_module(f"{package}.{name}")
            own.description = module.__doc__
            module.add_options(own)
            own.set_defaults(module=module)


def positive(text: str) -> int:
    """Return an argument that is a whole number above zero."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text}")
    return int(text)


def part_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a stage whose work many jobs may share."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--part", nargs=2, type=positive, default=(1, 1), metavar=("K", "N"), help="do the K-th of N parts alone"
    )
    which.add_argument("--parts", type=positive, default=1, metavar="N", help="put N parts together")


def json_object(text: str) -> dict:
    """Return an argument that is a JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, found {text}")
    return value


def scoring_arguments(parser: argparse.ArgumentParser, made: str) -> None:
    """Add the options of a stage that scores; `made` is what the run did with its weights."""
    parser.add_argument("--run", type=Path, metavar="DIR", help=f"the folder of the run that {made}")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help=f"what it {made} with; RUN/average.safetensors if not given"
    )
    parser.add_argument(
        "--untaken", action="store_true", help="the weights were not taken with the run: they are not read"
    )
    parser.add_argument(
        "--json", nargs="?", const=PRINT, metavar="FILE", help="the score file to write; print it if not given"
    )


def score_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a table of scores."""
    parser.add_argument("--score", required=True, metavar="JSON", nargs="*", help="score files, written with --run")
    parser.add_argument("--expected", default=[], metavar="RUN", nargs="*", help="all runs, as task/experiment/seed")


def compared_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a table of scores that the paper has, too."""
    score_arguments(parser)
    parser.add_argument(
        "--data-of-paper",
        action="store_true",
        help="ours are of the paper's data: show how far they are from its scores",
    )


def print_score(score: dict, listing: str, file: str | None) -> None:
    """Print the `listing`, and write the score to `file` if there is one; if that is PRINT, print the score instead."""
    if file == PRINT:
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the terminal's locale
    print(as_json(score) if file == PRINT else listing)
    if file not in (None, PRINT):
        with replacing(file) as written:
            written.write(as_json(score) + "\n")


def as_json(score: dict) -> str:
    """Return indented JSON, with the draws, if there are any, in one line at the end."""
    text = json.dumps({key: score[key] for key in score if key != "draws"}, indent=2, ensure_ascii=False)
    return f'{text[:-2]},\n  "draws": {json.dumps(score["draws"])}\n}}' if "draws" in score else text
