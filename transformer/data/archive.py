"""A file's bytes as a stream: the file itself, its .gz, or a member of an archive; and small members one by one.

Members are read as bytes and written under names of our own, so their paths in the archive can do no harm. The first
bytes tell how an archive is packed, whatever its name: the same members may be published in several packings.
"""

import gzip
import html
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple

from transformer.files import InputError, decode_lines, open_input, split_lines

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, NotImplementedError)
_ARCHIVE_PIECE = 1 << 20  # bytes read at a time
START = re.compile(r"<seg\b", re.IGNORECASE)
_ELEMENT = re.compile(r"<seg\b(?P<tag>[^<>]*)>(?P<text>.*?)</seg>|<doc\b(?P<document>[^<>]*)>", re.IGNORECASE)


@contextmanager
def open_bytes(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Stream the bytes of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Leaving the block reads on to the end, where checksums are kept. Raises InputError, naming `path`.
    """
    if str(path).endswith(ARCHIVES) != bool(member):
        expected = f"an archive ({', '.join(ARCHIVES)}) to hold the member {member}" if member else "a member's name"
        raise InputError(f"{path}: expected {expected}")
    with _open_member(path, member) if member else open_input(path) as content, _undamaged(path):
        stream = gzip.GzipFile(fileobj=content) if str(member or path).endswith(".gz") else content
        yield stream
        drain(stream)


def read_text(path: str | Path, member: str | None = None) -> Iterator[str]:
    """Yield the lines of a text, as of `open_bytes`."""
    with open_bytes(path, member) as stream:
        yield from decode_lines(split_lines(stream), member_named(path, member))


def member_named(path: str | Path, member: str | None = None) -> str:
    return f"{path}: {member}" if member else str(path)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and all bytes of each member of an archive for whose path `wanted` returns true, in order."""
    with _open_archive(path) as members:
        yield from ((name, open_it().read()) for name, open_it in members if wanted(name))


@contextmanager
def _open_member(path: str | Path, member: str) -> Iterator[IO[bytes]]:
    """Open `member` of an archive. Raises InputError naming the nearest ones if there is none."""
    names = []
    with _open_archive(path) as members:
        for name, open_it in members:
            if name == posixpath.normpath(member):
                yield open_it()
                return
            names.append(name)
    nearest = ", ".join(get_close_matches(member, names, n=3, cutoff=0.0)) or "none"
    raise InputError(f"{path}: expected a member {member}, found none; the nearest are {nearest}")


@contextmanager
def _open_archive(path: str | Path) -> Iterator[Iterator[tuple[str, Callable[[], IO[bytes]]]]]:
    """Open a .tar, plain or through gzip, or a .zip: each regular file's path, and a function that opens it.

    Leaving the block reads a .tar to its end. Raises InputError, naming `path`.
    """
    with open_input(path) as file, _undamaged(path):
        start = file.read(2)
        file.seek(0)
        if start == b"PK":
            archive = zipfile.ZipFile(file)
            files = (entry for entry in archive.infolist() if not entry.is_dir())
            yield ((posixpath.normpath(entry.filename), partial(archive.open, entry)) for entry in files)
        else:
            stream = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
            archive = tarfile.TarFile(fileobj=stream)
            files = (entry for entry in archive if entry.isreg())
            yield ((posixpath.normpath(entry.name), partial(archive.extractfile, entry)) for entry in files)
            drain(stream)


@contextmanager
def _undamaged(path: str | Path) -> Iterator[None]:
    """Turn the errors of the libraries that read `path` into an InputError that names it."""
    try:
        yield
    except DAMAGED as error:
        raise InputError(f"{path}: damaged or cut short: {str(error) or type(error).__name__}") from error


def drain(stream: IO[bytes]) -> None:
    while stream.read(_ARCHIVE_PIECE):
        pass


# WMT's test sets: sentences as `<seg>` elements, numbered within documents.


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
        elements = list(_ELEMENT.finditer(line))
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
