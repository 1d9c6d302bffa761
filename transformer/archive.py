"""One file's bytes as a stream: the file itself, its .gz, or a member of a .tar or .tgz; and small members one by one.

Archives come from strangers: only the members asked for are read, and nothing is written where an archive says.
"""

import gzip
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from transformer.files import InputError

ARCHIVES = (".tar", ".tar.gz", ".tgz")
UNKNOWN = (".zip", ".7z", ".rar", ".bz2", ".xz", ".zst")
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError)
PIECE = 1 << 20  # bytes read at a time


@contextmanager
def open_bytes(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Stream the bytes of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Memory is constant. Leaving the block reads the file to its end, where gzip keeps its checksum. Raises InputError,
    naming `path`: it cannot be read, or is packed otherwise; it is damaged or cut short; `member` is given for a plain
    file, or missing for an archive; `member` is not in the archive, is no regular file, or has a path that leads out.
    """
    is_archive = str(path).endswith(ARCHIVES)
    if is_archive and member is None:
        raise InputError(f"{path}: expected the name of one member of this archive, found none")
    if member is not None and not is_archive:
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)}) to hold the member {member}")
    if str(path).endswith(UNKNOWN):
        raise InputError(f"{path}: expected plain text, .gz or an archive ({', '.join(ARCHIVES)})")
    with naming_damage(path), open_file(path) as stream:
        if is_archive:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield open_member(archive, path, member)
        else:
            yield stream
        drain(stream)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """The members of an archive of whose path `wanted` says yes, in order, each with its path and all its bytes.

    Raises InputError, naming `path`: it cannot be read or is no archive by its name; it is damaged or cut short; a
    wanted member is no regular file or has a path that leads out.
    """
    if not str(path).endswith(ARCHIVES):
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)})")
    with naming_damage(path), open_file(path) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                if wanted(inside(entry.name)):
                    yield inside(entry.name), open_entry(archive, entry, path).read()
            expect_end(archive)
        drain(stream)


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Turn what damage to `path` raises within the block into an InputError."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path}: damaged or cut short: {error}") from error


def open_file(path: str | Path) -> IO[bytes]:
    """Open `path` for reading, through gzip if its name says so."""
    try:
        return gzip.open(path) if str(path).endswith((".gz", ".tgz")) else open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def open_member(archive: tarfile.TarFile, path: str | Path, member: str) -> IO[bytes]:
    """Wind the archive, a stream, forward to `member` and open it there."""
    refuse_unsafe(member, path)
    names = []
    for entry in archive:
        if inside(entry.name) == inside(member):
            content = open_entry(archive, entry, path)
            return gzip.open(content) if member.endswith(".gz") else content
        names.append(entry.name)
    expect_end(archive)
    nearest = get_close_matches(member, names, n=3, cutoff=0.0)
    raise InputError(f"{path}: expected a member {member}, found none; the nearest are {', '.join(nearest) or 'none'}")


def open_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str | Path) -> IO[bytes]:
    """Open the member that the archive, a stream, has come to."""
    refuse_unsafe(entry.name, path)
    if not entry.isreg():
        raise InputError(f"{path}: expected the member {inside(entry.name)} to be a file, found a {kind(entry)}")
    return archive.extractfile(entry)


def expect_end(archive: tarfile.TarFile) -> None:
    """Raise ReadError unless the archive, whose members are all read, is whole.

    tarfile also ends in silence where the file does, or at a damaged header. The true end is two blocks of zeros, of
    which it has read the first.
    """
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end mark")


def refuse_unsafe(name: str, path: str | Path) -> None:
    """Raise InputError if a member's name leads out of the folder that it would be unpacked in."""
    if name.startswith("/") or ".." in name.split("/"):
        raise InputError(f"{path}: expected a member's path within its folder, found {name}")


def inside(name: str) -> str:
    """A member's path without `./`, `..` and a leading `/`, so that every spelling of one place is equal."""
    return posixpath.normpath(f"/{name}").lstrip("/")


def kind(entry: tarfile.TarInfo) -> str:
    """What an entry that is no regular file is."""
    if entry.issym() or entry.islnk():
        return f"link to {entry.linkname}"
    return "folder" if entry.isdir() else "device"


def drain(stream: IO[bytes]) -> None:
    """Read to the end."""
    while stream.read(PIECE):
        pass
