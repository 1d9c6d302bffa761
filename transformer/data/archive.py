"""One file's bytes as a stream: the file itself, its .gz, or a member of an archive; and small members one by one.

Archives come from strangers: only the members asked for are read, and nothing is written where an archive says. How
one is packed its first bytes tell, whatever its name: the same members are to be had in several packings.
"""

import gzip
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO

from transformer.common.files import InputError

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
UNKNOWN = (".7z", ".rar", ".bz2", ".xz", ".zst")
GZIP = b"\x1f\x8b"
ZIP = (b"PK\3\4", b"PK\5\6")  # the latter of an empty one
ENCRYPTED = 0x1  # among the flags of a member of a .zip
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)
DAMAGE += (NotImplementedError,)  # by zipfile, of versions and flags that it does not know
PIECE = 1 << 20  # bytes read at a time

Members = Iterator[tuple[str, Callable[[], IO[bytes]]]]  # each with its path and what opens it, in their order


@contextmanager
def open_bytes(path: str | Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Stream the bytes of `path`, or of its `member` if it is an archive; what is named .gz is unpacked.

    Memory is constant. Leaving the block reads on to the end, where checksums are kept. Raises InputError, naming
    `path`: it cannot be read, or is packed otherwise; it is damaged or cut short; `member` is given for a plain file,
    or missing for an archive; `member` is not in the archive, is no regular file, or has a path that leads out.
    """
    is_archive = str(path).endswith(ARCHIVES)
    if is_archive and member is None:
        raise InputError(f"{path}: expected the name of one member of this archive, found none")
    if member is not None and not is_archive:
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)}) to hold the member {member}")
    if str(path).endswith(UNKNOWN):
        raise InputError(f"{path}: expected plain text, .gz or an archive ({', '.join(ARCHIVES)})")
    if is_archive:
        with open_archive(path) as members:
            content = open_member(members, path, member)
            yield from streaming(content, member)
    else:
        with naming_damage(path), open_file(path) as content:
            yield from streaming(content, path)


def streaming(content: IO[bytes], name: str | Path) -> Iterator[IO[bytes]]:
    """Yield `content`, unpacked if its name ends in .gz; then read what is left of it."""
    stream = through_gzip(content, str(name).endswith(".gz"))
    yield stream
    drain(stream)


def read_members(path: str | Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """The members of an archive of whose path `wanted` says yes, in order, each with its path and all its bytes.

    Raises InputError, naming `path`: it cannot be read or is no archive by its name; it is damaged or cut short; a
    wanted member is no regular file or has a path that leads out.
    """
    if not str(path).endswith(ARCHIVES):
        raise InputError(f"{path}: expected an archive ({', '.join(ARCHIVES)})")
    with open_archive(path) as members:
        for name, opened in members:
            if wanted(inside(name)):
                yield inside(name), opened().read()


@contextmanager
def open_archive(path: str | Path) -> Iterator[Members]:
    """The members of a .tar, plain or through gzip, or of a .zip. Leaving the block reads a .tar to its end."""
    with naming_damage(path), open_file(path) as file:
        start = file.read(4)
        file.seek(0)
        if start in ZIP:
            with zipfile.ZipFile(file) as archive:
                yield ((entry.filename, partial(open_zipped, archive, entry, path)) for entry in archive.infolist())
        else:
            stream = through_gzip(file, start.startswith(GZIP))
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield members_of_tar(archive, path)
            drain(stream)


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Turn what damage to `path` raises within the block into an InputError."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path}: damaged or cut short: {error}") from error


def open_file(path: str | Path) -> IO[bytes]:
    """Open `path` for reading."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def through_gzip(content: IO[bytes], is_gzip: bool) -> IO[bytes]:
    """`content`, unpacked if need be."""
    return gzip.open(content) if is_gzip else content


def open_member(members: Members, path: str | Path, member: str) -> IO[bytes]:
    """Wind the archive forward to `member` and open it there."""
    refuse_unsafe(member, path)
    names = []
    for name, opened in members:
        if inside(name) == inside(member):
            return opened()
        names.append(name)
    nearest = get_close_matches(member, names, n=3, cutoff=0.0)
    raise InputError(f"{path}: expected a member {member}, found none; the nearest are {', '.join(nearest) or 'none'}")


def members_of_tar(archive: tarfile.TarFile, path: str | Path) -> Members:
    """The members of a .tar, a stream: each can be opened until the next is asked for."""
    for entry in archive:
        yield entry.name, partial(open_tarred, archive, entry, path)
    expect_end(archive)


def open_tarred(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str | Path) -> IO[bytes]:
    """Open the member that the archive, a stream, has come to."""
    refuse_unsafe(entry.name, path)
    if not entry.isreg():
        raise InputError(f"{path}: expected the member {inside(entry.name)} to be a file, found a {kind(entry)}")
    return archive.extractfile(entry)


def open_zipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str | Path) -> IO[bytes]:
    """Open a member of a .zip."""
    refuse_unsafe(entry.filename, path)
    where = f"{path}: expected the member {inside(entry.filename)} to be"
    mode = entry.external_attr >> 16  # 0 where it was not packed on Unix
    if entry.is_dir() or stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise InputError(f"{where} a file, found a {'folder' if entry.is_dir() else 'link or device'}")
    if entry.flag_bits & ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{where} stored or deflated, found it encrypted or packed otherwise")
    if entry.header_offset < 0:  # seeking there would be an error of the system's, not of the file's
        raise zipfile.BadZipFile("a member before the beginning")
    return archive.open(entry)


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
