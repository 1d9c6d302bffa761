"""What the stages' command lines have in common."""

import argparse
import json


def stage_parser(stage: str, manual: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m transformer STAGE`, whose --help begins with the module's docstring."""
    return argparse.ArgumentParser(
        prog=f"transformer {stage}", description=manual, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def json_object(text: str) -> dict:
    """An argument that is a JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, found {text}")
    return value


def score_arguments(parser: argparse.ArgumentParser) -> None:
    """What every table of scores takes."""
    parser.add_argument("--score", required=True, metavar="JSON", nargs="*", help="score files, written with --run")
    parser.add_argument("--expected", default=[], metavar="RUN", nargs="*", help="all runs, as task/experiment/seed")
    parser.add_argument("--output", required=True, metavar="PATH", help="the files to write, without their endings")
