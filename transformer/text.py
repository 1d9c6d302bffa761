r"""Text as bytes split on `\n` alone: corpora hold bare CR, NEL and U+2028 inside their sentences."""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple

from transformer.files import InputError, open_input

SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
# Tags and texts end where the next <seg> begins: else the time could grow with the square of a line's length.
INSIDE = r"[^<]*(?:<(?!/?seg\b)[^<]*)*"
SEGMENT = re.compile(rf"<seg\b(?P<segment>[^<>]*)>(?P<text>{INSIDE})</seg>", re.IGNORECASE)
ELEMENT = re.compile(rf"{SEGMENT.pattern}|<doc\b(?P<document>[^<>]*)>", re.IGNORECASE)
BLOCK = 2**20  # bytes
BOM = "\ufeff"  # with which some programs begin a file
LONGEST_LINE = 2**20  # bytes without the line feed; the longest sentences of WMT have some 50,000
GROUP = 2**24  # characters of lines that are worked on at once, whatever their number
FULL_MEMORY = re.compile("can't allocate memory|out of memory|not enough memory|std::bad_alloc")
LONGEST_MESSAGE = 4000  # characters; a server or an archive can make names of any length


def reason(error: BaseException) -> str:
    """Return an error's message for a user: one printable line, also where memory is full and Python says nothing."""
    return printable(f"not enough memory: {error}".removesuffix(": ") if out_of_memory(error) else error)


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error says that memory is full, also where it is one of torch, a RuntimeError without a type.

    The processor's allocator says "can't allocate memory", a GPU's and C++ itself say the others.
    """
    if isinstance(error, RuntimeError):
        return bool(FULL_MEMORY.search(str(error)))
    return isinstance(error, MemoryError)


def origin(error: BaseException) -> str:
    """Return the first line of the error behind an error: compilers add pages about themselves to it."""
    while (behind := error.__cause__ or error.__context__) is not None:
        error = behind
    return printable(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def printable(message: object) -> str:
    """Return a message as one line of text, shortened if it is very long, with every control character escaped.

    A server or an archive may put them into its words: they could move the cursor, or forge other lines.
    """
    text = str(message)
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[: LONGEST_MESSAGE // 2]} ... {text[-LONGEST_MESSAGE // 2 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def read_lines(path: str | Path, start: int = 0, stop: int | None = None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their ends (`\n` or `\r\n`), in constant memory.

    start, stop: only those lines, counted from 0 as in a slice; the others are not decoded.
    Raises InputError, naming the file and the line, where the bytes are not UTF-8, a line is too long, or the file
    cannot be read.
    """
    with open_input(path) as file:
        lines = split_lines(file)
        for number, line in enumerate(islice(lines, start), start=1):
            check_length(line, path, number)
        yield from decode_lines(lines if stop is None else islice(lines, max(stop - start, 0)), path, start + 1)


def split_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a binary file, in constant memory: of one that is too long, a piece that is longer yet."""
    return iter(partial(file.readline, LONGEST_LINE + 1), b"")


def check_length(line: bytes, name: str | Path, number: int) -> None:
    """Raise InputError, naming `name` and the line's number, where it is too long."""
    if len(line) > LONGEST_LINE and (len(line) > LONGEST_LINE + 1 or not line.endswith(b"\n")):
        raise InputError(f"{name}, line {number}: expected at most {LONGEST_LINE:,} bytes, found more")


def decode_lines(lines: Iterable[bytes], name: str | Path, first: int = 1) -> Iterator[str]:
    r"""Yield the text of `lines`, which end in `\n` as those of `split_lines` do.

    first: the number of the first line. Raises InputError, naming `name` and the line, where bytes are not UTF-8 or a
    line is too long.
    """
    for number, line in enumerate(lines, start=first):
        if len(line) > LONGEST_LINE:  # asked here, too: a call for each line would take longer than all else
            check_length(line, name, number)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} (0x{line[error.start]:02x})"
            raise InputError(f"{name}, line {number}: expected UTF-8, found an invalid {where}") from error
        if number == 1:
            text = text.removeprefix(BOM)  # which says that the file is UTF-8, and is no part of its text
        yield text.removesuffix("\n").removesuffix("\r")


def groups(items: Iterable, most: int, size: Callable[[Any], int]) -> Iterator[list]:
    """Yield `items` in lists of at most `most`, and of fewer where their sizes, in characters, come to GROUP."""
    group, total = [], 0
    for item in items:
        group.append(item)
        total += size(item)
        if len(group) == most or total >= GROUP:
            yield group
            group, total = [], 0
    if group:
        yield group


def read_blocks(path: str | Path) -> Iterator[bytes]:
    """Yield the bytes of a file, in constant memory. Raises InputError where it cannot be read."""
    with open_input(path) as file:
        while block := file.read(BLOCK):
            yield block


def count_lines(path: str | Path) -> int:
    """Count the lines that `read_lines` yields, without decoding them."""
    lines, block = 0, b"\n"
    for block in read_blocks(path):
        lines += block.count(b"\n")
    return lines + (not block.endswith(b"\n"))


def draw(items: Iterable, total: int, most: int) -> Iterator:
    """Yield at most `most` of the `total` items, at equal distances: the same ones each time."""
    for number, item in enumerate(items):
        if number * most // total < (number + 1) * most // total:
            yield item


def read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files side by side. Raises InputError where the files are empty or of unequal length."""
    left = right = None
    for left, right in zip_longest(read_lines(source), read_lines(target)):  # each file once: it may be a pipe
        if left is None or right is None:
            break
        yield left, right
    if left is None or right is None:
        count_pairs(source, target)  # raises the error


def count_pairs(source: str | Path, target: str | Path) -> int:
    """Count the pairs that `read_pairs` yields, without decoding them. Raises the same InputError."""
    left, right = count_lines(source), count_lines(target)
    if left != right:
        raise InputError(f"expected as many lines on both sides, found: {source} has {left}, {target} has {right}")
    if not left:
        raise InputError(f"expected sentence pairs, found none: {source} and {target} are empty")
    return left


class Segment(NamedTuple):
    """A sentence of a WMT .sgm file, with its document's name and its number there; None where the file gives none."""

    document: str | None
    id: str | None
    text: str


def find_segments(lines: Iterable[str], name: str | Path) -> Iterator[Segment]:
    """Yield the `<seg>` elements of a WMT .sgm file, with entities resolved and without spaces around the text.

    Raises InputError, naming `name`, where there is none, one that does not end on its line, or an entity that is no
    character.
    """
    document, empty = None, True
    for number, line in enumerate(lines, start=1):
        if len(SEGMENT.findall(line)) != len(SEGMENT_START.findall(line)):
            raise InputError(f"{name}, line {number}: expected every <seg> to end with </seg> on its line")
        for element in ELEMENT.finditer(line):
            if element["document"] is not None:
                document = attribute(element["document"], "docid")
            else:
                empty = False
                try:
                    text = html.unescape(element["text"]).replace("\n", " ").strip()  # &#10; would break the line
                except ValueError as error:  # thousands of digits
                    raise InputError(f"{name}, line {number}: expected entities of characters: {error}") from error
                yield Segment(document, attribute(element["segment"], "id"), text)
    if empty:
        raise InputError(f"{name}: expected <seg> elements, found none")


def attribute(tag: str, key: str) -> str | None:
    """Return the value of a tag's attribute; `tag` is the text between the element's name and `>`."""
    match = re.search(rf"""\b{key}\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", tag, re.IGNORECASE)
    return html.unescape(match[1].strip("\"'")) if match else None


def in_order(
    segments: Iterable[Segment], references: Iterable[Segment], name: str | Path, reference: str | Path
) -> Iterator[Segment]:
    """Yield the segments of the file `name`, checking that the file `reference` has the same ones in the same order.

    Documents and ids are compared where both files give them. Raises InputError, naming both files, at the first
    difference.
    """
    for number, (here, there) in enumerate(zip_longest(segments, references), start=1):
        if not (
            here and there and all(None in ids or len({*ids}) == 1 for ids in zip(here[:2], there[:2], strict=True))
        ):
            expected, found = describe(there), describe(here)
            raise InputError(f"{name}, <seg> {number}: expected {expected} as in {reference}, found {found}")
        yield here


def describe(segment: Segment | None) -> str:
    """Return a segment's document and id, for a message."""
    return f"document {segment.document}, id {segment.id}" if segment else "none"
