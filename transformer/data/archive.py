"""The lines of a file, a .gz or a member of an archive; and small members one by one.

Members are read as bytes and written under our own names, so that their paths in the archive can do no harm.
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
    """Write one side of a corpus as plain text: UTF-8, one sentence a line. Lines end at a line feed only.

    path, member: as for `read_text`. format: plain lines, or WMT's <seg> elements. lines: their expected number.
    Raises InputError, naming `path`, at another number of lines and as `read_text` does.
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
    """Yield the lines of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Reads the archive to its end, where checksums are kept. Raises InputError, naming `path`.
    """
    if str(path).endswith(_ARCHIVES) != bool(member):
        raise InputError(f"{path}: expected a member's name with an archive ({', '.join(_ARCHIVES)}), else none")
    with open_input(path) as file, _undamaged(path):
        members, names = _members(file) if member else iter([("", file)]), []
        for name, content in members:
            names.append(name)
            if not member or name == posixpath.normpath(member):
                stream = gzip.GzipFile(fileobj=content) if str(member or path).endswith(".gz") else content
                break
        else:
            nearest = ", ".join(get_close_matches(member, names, n=3, cutoff=0.0)) or "none"
            raise InputError(f"{path}: expected a member {member}, found none; the nearest are {nearest}")
        yield from decode_lines(split_lines(stream), _member_named(path, member))
        deque(members, maxlen=0)


def _member_named(path: str | Path, member: str | None = None) -> str:
    return f"{path}: {member}" if member else str(path)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Yield in order the path and all bytes of each member of an archive whose path is `wanted`."""
    with open_input(path) as file, _undamaged(path):
        yield from ((name, content.read()) for name, content in _members(file) if wanted(name))


def _members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each regular file in a .tar, plain or through gzip, or a .zip; read a .tar to its end.

    The first bytes decide, not the name: the same members may be published in several packings.
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
    """Turn the errors of the libraries that read `path` into an InputError that names it."""
    try:
        yield
    except _DAMAGED as error:
        raise InputError(f"{path}: damaged or cut short: {str(error) or type(error).__name__}") from error
    except RuntimeError as error:  # of zipfile: encrypted, or packed in a way that it does not know
        raise InputError(f"{path}: cannot be read: {error}") from error


def _find_segments(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """Yield the sentences of a WMT .sgm file. Raises InputError, naming `name`, if one does not end on its line."""
    for number, line in enumerate(lines, start=1):
        segments = _SEGMENT.findall(line)
        if len(segments) != len(re.findall(r"<seg\b", line, re.IGNORECASE)):
            raise InputError(f"{name}, line {number}: expected every <seg> to end with </seg> on its line")
        yield from (html.unescape(text).replace("\n", " ").strip() for text in segments)  # &#10; would break the line
