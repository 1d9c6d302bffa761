"""Text as bytes split on `\\n` alone: corpora hold bare CR, NEL and U+2028 inside their sentences."""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from transformer.files import InputError

SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends (`\\n` or `\\r\\n`), in constant memory.

    Raises InputError, naming the file and the line, where the bytes are not UTF-8 or the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            yield from decode_lines(file, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def decode_lines(lines: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """The text of `lines`, each cut at `\\n` as binary files do. Raises InputError naming `name` and the line."""
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} (0x{line[error.start]:02x})"
            raise InputError(f"{name}, line {number}: expected UTF-8, found an invalid {where}") from error
        yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path: str | Path) -> int:
    """How many lines `read_lines` gives."""
    return sum(1 for _ in read_lines(path))


def draw(items: Iterable, total: int, most: int) -> Iterator:
    """At most `most` of the `total` items, at equal distances: the same ones each time."""
    for number, item in enumerate(items):
        if number * most // total < (number + 1) * most // total:
            yield item


def read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side. Raises InputError when they are empty or of unequal length."""
    empty = True
    for left, right in zip_longest(read_lines(source), read_lines(target)):
        if left is None or right is None:
            found = f"{source} has {count_lines(source)}, {target} has {count_lines(target)}"
            raise InputError(f"expected as many lines on both sides, found: {found}")
        empty = False
        yield left, right
    if empty:
        raise InputError(f"expected sentence pairs, found none: {source} and {target} are empty")


def find_segments(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """The sentences of a WMT .sgm file: the text of its `<seg>` elements in order, entities resolved, stripped.

    Raises InputError, naming `name`, when there is none, or one that does not end on its line.
    """
    found = False
    for number, line in enumerate(lines, start=1):
        segments = SEGMENT.findall(line)
        if len(segments) != len(SEGMENT_START.findall(line)):
            raise InputError(f"{name}, line {number}: expected every <seg> to end with </seg> on its line")
        for segment in segments:
            found = True
            yield html.unescape(segment).replace("\n", " ").strip()  # &#10; would break the line
    if not found:
        raise InputError(f"{name}: expected <seg> elements, found none")
