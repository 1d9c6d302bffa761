"""The file beside a parser's trees, which tells what was repaired and how sure the parser was of each tree."""

import re
from pathlib import Path
from typing import TypedDict

from transformer.files import InputError
from transformer.records import Count, read_json, short


class Repairs(TypedDict):
    """The content of the file that `python -m transformer parse --json` writes."""

    sentences: Count
    repaired: dict[str, str]  # what was wrong, by the number of the line
    scores: list[float | None]  # of each line; none of a blank one


def read_repairs(path: str | Path, trees: str | Path, lines: int) -> Repairs:
    """Return what tells of the `lines` of a file of trees. Raises InputError where the two do not fit."""
    content = read_json(path, Repairs)
    for key, number in {"sentences": content["sentences"], "scores": len(content["scores"])}.items():
        if number != lines:
            raise InputError(f"{path}, {key}: expected {lines}, the lines of {trees}, found {number}")
    if others := [key for key in content["repaired"] if not is_line(key, lines)]:
        raise InputError(f"{path}, repaired: expected lines from 1 to {lines}, found {short(min(others))}")
    return content


def is_line(key: str, lines: int) -> bool:
    """Return whether `key` is the number of one of so many lines, as `str` writes it."""
    return len(key) <= len(str(lines)) and re.fullmatch("[1-9][0-9]*", key) is not None and int(key) <= lines
