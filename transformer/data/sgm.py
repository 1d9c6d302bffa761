"""WMT's test sets: sentences as `<seg>` elements, numbered within documents."""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer.files import InputError

START = re.compile(r"<seg\b", re.IGNORECASE)
ELEMENT = re.compile(r"<seg\b(?P<tag>[^<>]*)>(?P<text>.*?)</seg>|<doc\b(?P<document>[^<>]*)>", re.IGNORECASE)


class Segment(NamedTuple):
    """A sentence of a WMT .sgm file, with its document's name and its number there; None where the file gives none."""

    document: str | None
    id: str | None
    text: str


def find_segments(lines: Iterable[str], name: str | Path) -> Iterator[Segment]:
    """Yield the `<seg>` elements of a WMT .sgm file, with entities resolved and without spaces around the text.

    Raises InputError, naming `name`, if there is none, or one that does not end on its line.
    """
    document, empty = None, True
    for number, line in enumerate(lines, start=1):
        elements = list(ELEMENT.finditer(line))
        if sum(element["text"] is not None for element in elements) != len(START.findall(line)):
            raise InputError(f"{name}, line {number}: expected every <seg> to end with </seg> on its line")
        for element in elements:
            if element["text"] is None:
                document = attribute(element["document"], "docid")
            else:
                empty = False
                text = html.unescape(element["text"]).replace("\n", " ").strip()  # &#10; would break the line
                yield Segment(document, attribute(element["tag"], "id"), text)
    if empty:
        raise InputError(f"{name}: expected <seg> elements, found none")


def attribute(tag: str, key: str) -> str | None:
    match = re.search(rf"""\b{key}\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", tag, re.IGNORECASE)
    return html.unescape(match[1].strip("\"'")) if match else None


def in_order(
    segments: Iterable[Segment], references: Iterable[Segment], name: str | Path, reference: str | Path
) -> Iterator[Segment]:
    """Yield the segments of the file `name`. Raises InputError if they are not those of the file `reference`.

    Documents and ids are compared if both files give them.
    """
    for number, (here, there) in enumerate(zip_longest(segments, references), start=1):
        ids = zip(here[:2], there[:2], strict=True) if here and there else [("one", "none")]
        if any(None not in pair and pair[0] != pair[1] for pair in ids):
            expected, found = (f"document {it.document}, id {it.id}" if it else "none" for it in (there, here))
            raise InputError(f"{name}, <seg> {number}: expected {expected} as in {reference}, found {found}")
        yield here
