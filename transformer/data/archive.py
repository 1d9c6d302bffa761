"""A file's bytes as a stream: the file itself, its .gz, or a member of an archive; and small members one by one.

Members are read as bytes and written under names of our own, so their paths in the archive can do no harm. The first
bytes tell how an archive is packed, whatever its name: the same members may be published in several packings.
"""

import gzip
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO

from transformer.common.files import InputError, open_input

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
UNKNOWN = (".7z", ".rar", ".bz2", ".xz", ".zst")
GZIP = b"\x1f\x8b"
ZIP = (b"PK\3\4", b"PK\5\6")  # the second starts an empty .zip
ENCRYPTED = 0x1  # a flag of a member of a .zip
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)
DAMAGE += (NotImplementedError,)  # raised by zipfile for versions and flags that it does not know
PIECE = 1 << 20  # bytes read at a time

Members = Iterator[tuple[str, Callable[[], IO[bytes]]]]  # each member's path and a function that opens it, in order


@contextmanager
def open_bytes(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Stream the bytes of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Memory is constant. Leaving the block reads on to the end, where checksums are kept. Raises InputError, naming
    `path`: it cannot be read, or is packed otherwise; it is damaged or cut short; `member` is given for a plain file,
    or missing for an archive; the archive has no such file.
    """
    is_archive = str(path).endswith(ARCHIVES)
    if is_archive and member is None:
        raise InputError(f"{path}: expected the name of one member of this archive, found none")
    if member is not None and not is_archive:
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)}) to hold the member {member}")
    if str(path).endswith(UNKNOWN):
        raise InputError(f"{path}: expected plain text, .gz or an archive ({', '.join(ARCHIVES)})")
    with open_member(path, member) if is_archive else opened(path) as content:
        stream = gzip.GzipFile(fileobj=content) if str(member or path).endswith(".gz") else content
        yield stream
        drain(stream)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and all bytes of each member of an archive for whose path `wanted` returns true, in order.

    Raises InputError, naming `path`: it cannot be read or is no archive by its name; it is damaged or cut short.
    """
    if not str(path).endswith(ARCHIVES):
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)})")
    with open_archive(path) as members:
        for name, open_it in members:
            if wanted(name):
                yield name, open_it().read()


@contextmanager
def open_archive(path: str | Path) -> Iterator[Members]:
    """Open a .tar, plain or through gzip, or a .zip, for its members. Leaving the block reads a .tar to its end."""
    with opened(path) as file:
        start = file.read(4)
        file.seek(0)
        if start in ZIP:
            with zipfile.ZipFile(file) as archive:
                opening = partial(open_zipped, archive, path)
                yield ((posixpath.normpath(entry.filename), partial(opening, entry)) for entry in archive.infolist())
        else:
            stream = gzip.GzipFile(fileobj=file) if start.startswith(GZIP) else file
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield members_of_tar(archive)
            drain(stream)


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """Open `path` for reading. Raises InputError where it cannot be read or, in the block, turns out to be damaged."""
    with open_input(path) as file:
        try:
            yield file
        except DAMAGE as error:
            raise InputError(f"{path}: damaged or cut short: {error}") from error


@contextmanager
def open_member(path: str | Path, member: str) -> Iterator[IO[bytes]]:
    """Open `member` of an archive. Raises InputError naming the nearest ones if there is none."""
    names = []
    with open_archive(path) as members:
        for name, open_it in members:
            if name == posixpath.normpath(member):
                yield open_it()
                return
            names.append(name)
    nearest = ", ".join(get_close_matches(member, names, n=3, cutoff=0.0)) or "none"
    raise InputError(f"{path}: expected a member {member}, found none; the nearest are {nearest}")


def members_of_tar(archive: tarfile.TarFile) -> Members:
    """Yield the regular files of a .tar, a stream: each can be opened until the next is asked for.

    Raises ReadError at the end unless the archive is whole: tarfile also stops silently where the file ends early or
    a header is damaged. The true end is two blocks of zeros, of which it has read the first.
    """
    for entry in archive:
        if entry.isreg():
            yield posixpath.normpath(entry.name), partial(archive.extractfile, entry)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end mark")


def open_zipped(archive: zipfile.ZipFile, path: str | Path, entry: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member of a .zip. Raises InputError where it is encrypted or needs another library to unpack."""
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = "to be stored or deflated, found it encrypted or packed otherwise"
        raise InputError(f"{path}: expected the member {entry.filename} {problem}")
    if entry.header_offset < 0:  # zipfile would seek there, which raises an OSError without the file's name
        raise zipfile.BadZipFile("a member before the beginning")
    return archive.open(entry)


def drain(stream: IO[bytes]) -> None:
    """Read to the end."""
    while stream.read(PIECE):
        pass
