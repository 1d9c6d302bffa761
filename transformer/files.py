"""Files that are whole or absent, and errors that a user can act on.

Everything the package writes is written to a temporary file and then renamed, so that a reader never meets half a file.
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, somebody's share of it, or a file is as large as may be


class InputError(Exception):
    """Bad input, in one line: what, where, expected and found. `python -m transformer` prints it and exits with 1."""


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO]:
    r"""Open a file to write ("w": UTF-8 with `\n` line ends, or "wb"): `path` is old or new, never partial."""
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
    """Name the file that is written in the error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            error.filename = error.filename or str(path)
        raise


def open_input(path: str | Path) -> IO[bytes]:
    """Open a file to read its bytes. Raises InputError naming the file if it cannot be read."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises InputError naming the file."""
    return checksum(path, "sha256")


def checksum(path: str | Path, algorithm: str) -> str:
    """Return a file's checksum by an algorithm of hashlib, in hexadecimal."""
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
