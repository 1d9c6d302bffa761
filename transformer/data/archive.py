"""A file's bytes as a stream: the file itself, its .gz, or a member of an archive; and small members one by one.

Members are read as bytes and written under names of our own, so their paths in the archive can do no harm. The first
bytes tell how an archive is packed, whatever its name: the same members may be published in several packings. Whatever
an archive says of itself, memory is constant, and what is damaged is an InputError that names the file.
"""

import gzip
import posixpath
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO

from transformer.data.bounds import PIECE, Directory, Forward, Unbounded, blamed, checked
from transformer.files import InputError, open_input

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
UNKNOWN = (".7z", ".rar", ".bz2", ".xz", ".zst")
GZIP = b"\x1f\x8b"
ZIP = (b"PK\3\4", b"PK\5\6")  # the second starts an empty .zip
ENCRYPTED = 0x1  # a flag of a member of a .zip
MOST_WHOLE = 1 << 26  # bytes of all members that are read whole; those of GUM have 7 MB
MOST_NAMES, LONGEST_NAME = 1000, 255  # of the members that a message may name
GLOBAL_HEADERS = 100  # of a .tar: git writes one

Members = Iterator[tuple[str, Callable[[], IO[bytes]]]]  # each member's path and a function that opens it, in order


@contextmanager
def open_bytes(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Stream the bytes of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Memory is constant. Leaving the block reads on to the end, where checksums are kept. Raises InputError, naming
    `path`: it cannot be read, or is packed otherwise; it is damaged or cut short; it unpacks to far more than text
    does; `member` is given for a plain file, or missing for an archive; the archive has no such file.
    """
    is_archive = str(path).endswith(ARCHIVES)
    if is_archive and member is None:
        raise InputError(f"{path}: expected the name of one member of this archive, found none")
    if member is not None and not is_archive:
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)}) to hold the member {member}")
    if str(path).endswith(UNKNOWN):
        raise InputError(f"{path}: expected plain text, .gz or an archive ({', '.join(ARCHIVES)})")
    with open_member(path, member) if is_archive else open_input(path) as content:
        zipped = str(member or path).endswith(".gz")
        stream = checked(gzip.GzipFile(fileobj=content), path) if zipped else content
        yield stream
        drain(stream)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and all bytes of each member of an archive for whose path `wanted` returns true, in order.

    Raises InputError, naming `path`: it cannot be read or is no archive by its name; it is damaged or cut short; these
    members are too large to be read whole.
    """
    if not str(path).endswith(ARCHIVES):
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)})")
    left = MOST_WHOLE
    with open_archive(path) as members:
        for name, open_it in members:
            if wanted(name):
                content = open_it().read(left + 1)
                left -= len(content) + len(name)  # an empty member takes memory, too
                if left < 0:
                    raise InputError(f"{path}: expected members of at most {MOST_WHOLE:,} bytes, found more at {name}")
                yield name, content


@contextmanager
def open_archive(path: str | Path) -> Iterator[Members]:
    """Open a .tar, plain or through gzip, or a .zip, for its members. Leaving the block reads a .tar to its end."""
    with open_input(path) as file:
        start = file.read(4)
        file.seek(0)
        if start in ZIP:
            yield members_of_zip(file, path)
        else:
            stream = checked(gzip.GzipFile(fileobj=file), path) if start.startswith(GZIP) else file
            yield members_of_tar(stream, path)
            drain(stream)


@contextmanager
def open_member(path: str | Path, member: str) -> Iterator[IO[bytes]]:
    """Open `member` of an archive. Raises InputError naming the nearest ones if there is none."""
    names = []
    with open_archive(path) as members:
        for name, open_it in members:
            if name == posixpath.normpath(member):
                yield open_it()
                return
            names += [name[:LONGEST_NAME]] if len(names) < MOST_NAMES else []
    nearest = ", ".join(get_close_matches(member, names, n=3, cutoff=0.0)) or "none"
    raise InputError(f"{path}: expected a member {member}, found none; the nearest are {nearest}")


def members_of_tar(file: IO[bytes], path: str | Path) -> Members:
    """Yield the regular files of a .tar, a stream: each can be opened until the next is asked for.

    Raises InputError at the end unless the archive is whole: tarfile also stops silently where the file ends early or
    a header is damaged. The true end is two blocks of zeros, of which it has read the first.
    """
    stream = Forward(file)
    with blamed(path):
        archive = tarfile.TarFile(fileobj=stream)  # reads the first header
    while entry := next_entry(archive, stream, path):
        if entry.isreg() and not entry.issparse():
            opening = partial(open_tarred, archive, path, entry)
            yield posixpath.normpath(entry.name), opening
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{path}: damaged or cut short: no end mark")


def next_entry(archive: tarfile.TarFile, stream: Forward, path: str | Path) -> tarfile.TarInfo | None:
    """Return what the next header of a .tar says, None at the end. Raises InputError, naming `path`."""
    with blamed(path), stream.header():
        entry = archive.next()
        archive.members.clear()  # else memory would grow with their number
        if len(archive.pax_headers) > GLOBAL_HEADERS:
            raise Unbounded(f"expected at most {GLOBAL_HEADERS} global headers, found more")
        if entry and entry.size < 0:
            raise tarfile.ReadError("a member's size is below zero")
    return entry


def open_tarred(archive: tarfile.TarFile, path: str | Path, entry: tarfile.TarInfo) -> IO[bytes]:
    """Open a regular file of a .tar. Raises InputError, naming `path`."""
    with blamed(path):
        return checked(archive.extractfile(entry), path)


def members_of_zip(file: IO[bytes], path: str | Path) -> Members:
    """Yield the regular files of a .zip. Raises InputError, naming `path`."""
    with blamed(path):
        archive = zipfile.ZipFile(Directory(file))
    for entry in archive.infolist():
        if not entry.is_dir() and stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG):
            yield posixpath.normpath(entry.filename), partial(open_zipped, archive, path, entry)


def open_zipped(archive: zipfile.ZipFile, path: str | Path, entry: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member of a .zip. Raises InputError where it is encrypted or needs another library to unpack."""
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = "to be stored or deflated, found it encrypted or packed otherwise"
        raise InputError(f"{path}: expected the member {entry.filename} {problem}")
    with blamed(path):
        return checked(archive.open(entry), path)


def drain(stream: IO[bytes]) -> None:
    """Read to the end."""
    while stream.read(PIECE):
        pass
