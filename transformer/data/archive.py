"""Readers of text files, .gz files and members of archives.

Members are read as bytes and written under our own names, so that malicious paths in an archive do no harm.
"""

import gzip
import html
import logging
import lzma
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Literal

from transformer.storage.files import InputError, decode_lines, open_input, replacing, split_lines

_logger = logging.getLogger(__name__)
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)
_SEGMENT = re.compile(r"<seg\b[^<>]*>(.*?)</seg>", re.IGNORECASE)


def unpack(
    path: str | Path,
    output: str | Path,
    format: Literal["text", "sgm"],
    member: str | None = None,
    lines: int | None = None,
) -> None:
    """Write one side of a corpus as plain text: UTF-8, one sentence per line. Only a line feed ends a line.

    path, member: see `read_text`. format: plain lines, or WMT's <seg> elements. lines: expected number of lines.
    Raises InputError, naming `path`, if the number of lines differs or `read_text` raises it.
    """
    name, text, count = _member_named(path, member), read_text(path, member), 0
    if format == "sgm":
        text = _find_segments(text, name)
    with replacing(output) as file:
        for count, line in enumerate(text, start=1):
            if lines and count > lines:  # an endless text must not fill the disk
                raise InputError(f"{name}: expected {lines} lines, found more")
            file.write(f"{line}\n")
        if count != (lines or count or None):
            raise InputError(f"{name}: expected {lines or 'some'} lines, found {count}")
    _logger.info("%s: %s lines", output, count)


def read_text(path: str | Path, member: str | None = None) -> Iterator[str]:
    """Yield the lines of `path`, or of its `member` if it is an archive. Files and members named .gz are unpacked.

    Reads the archive to its end, because its checksums are there. Raises InputError, naming `path`.
    """
    if str(path).endswith(_ARCHIVES) != bool(member):
        raise InputError(f"{path}: expected a member's name for an archive ({', '.join(_ARCHIVES)}), else no member")
    with open_input(path) as file, _undamaged(path):
        members, names = _members(file) if member else iter([("", file)]), []
        for name, content in members:
            names.append(name)
            if not member or name == posixpath.normpath(member):
                stream = gzip.GzipFile(fileobj=content) if str(member or path).endswith(".gz") else content
                break
        else:
            nearest = ", ".join(get_close_matches(member, names, n=3, cutoff=0.0)) or "none"
            raise InputError(f"{path}: expected a member {member}, found none; the most similar are {nearest}")
        yield from decode_lines(split_lines(stream), _member_named(path, member))
        deque(members, maxlen=0)


def _member_named(path: str | Path, member: str | None = None) -> str:
    return f"{path}: {member}" if member else str(path)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each member of an archive with a `wanted` path, in order."""
    with open_input(path) as file, _undamaged(path):
        yield from ((name, content.read()) for name, content in _members(file) if wanted(name))


def _members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each regular file in a .tar, .tar.gz or .zip. A .tar is read to its end.

    The first bytes determine the format, because equal members may be published in archives of several formats.
    """
    start = file.read(2)
    file.seek(0)
    if start == b"PK":
        archive = zipfile.ZipFile(file)
        for entry in archive.infolist():
            if not entry.is_dir():
                yield posixpath.normpath(entry.filename), archive.open(entry)
        return
    stream = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
    archive = tarfile.TarFile(fileobj=stream)
    for entry in archive:
        if entry.isreg():
            yield posixpath.normpath(entry.name), archive.extractfile(entry)
    while stream.read(1 << 20):
        pass


@contextmanager
def _undamaged(path: str | Path) -> Iterator[None]:
    """Convert the errors of libraries that read `path` to an InputError that names `path`."""
    try:
        yield
    except _DAMAGED as error:
        raise InputError(f"{path}: damaged or truncated: {str(error) or type(error).__name__}") from error
    except RuntimeError as error:  # zipfile raises it on encryption and on unsupported compression
        raise InputError(f"{path}: cannot be read: {error}") from error


def _find_segments(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """Yield the sentences of a WMT .sgm file. Raises InputError, naming `name`, if a sentence spans two lines."""
    for number, line in enumerate(lines, start=1):
        segments = _SEGMENT.findall(line)
        if len(segments) != len(re.findall(r"<seg\b", line, re.IGNORECASE)):
            raise InputError(f"{name}, line {number}: expected </seg> on the line of its <seg>, found none")
        yield from (html.unescape(text).replace("\n", " ").strip() for text in segments)  # &#10; would break the line
