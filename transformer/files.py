"""Files that are whole or absent, and errors that a user can act on.

Everything the package writes is written to a temporary file and then renamed, so that a reader never meets half a file.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, somebody's share of it, or a file is as large as may be
ENDLESS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
PIPES = re.compile(
    r"/dev/(null|stdin|fd/\d+)|/proc/(self|\d+)/fd/\d+"
)  # what a shell gives in place of a file: these end


class InputError(Exception):
    """Bad input, in one line: what, where, expected and found. `python -m transformer` prints it and exits with 1."""


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO]:
    r"""Open a temporary file beside `path` for writing (`mode` is "w", UTF-8 with `\n` line ends, or "wb").

    The file is renamed to `path` when the block ends well and removed when it raises: `path` is old or new, never
    partial.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with naming(path), open(temporary, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Name the file that is written in the error of a full disk, as the system does only where one cannot be opened."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def endless(path: str | Path) -> str | None:
    """Return what is at `path` if opening or reading it might never end: a named pipe, a socket or a device."""
    if PIPES.fullmatch(str(path)) or not os.path.exists(path):
        return None
    return ENDLESS.get(stat.S_IFMT(os.stat(path).st_mode))


def readable(path: str | Path) -> str | Path:
    """Return `path` to open it. Raises InputError where that, or reading on, might never end."""
    if found := endless(path):
        raise InputError(f"{path}: expected a file, found {found}")
    return path


def open_input(path: str | Path) -> IO[bytes]:
    """Open a file to read its bytes. Raises InputError naming the file where that is not possible."""
    try:
        return open(readable(path), "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises InputError naming the file."""
    return checksum(path, "sha256")


def checksum(path: str | Path, algorithm: str) -> str:
    """Return a file's checksum by an algorithm of hashlib, in hexadecimal. Raises InputError naming the file."""
    with open_input(path) as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def write_columns(rows: Iterable[Iterable[str]], paths: Iterable[str | Path]) -> int:
    """Write item k of each row as a line of the k-th file; none gets its name before all are done. Count the rows."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        for row in rows:
            count += 1
            for file, line in zip(files, row, strict=True):
                file.write(line + "\n")
    return count
