"""Files that are whole or absent, and errors that a user can act on.

Everything the package writes is written aside and renamed, so that a reader never meets half a file.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class InputError(Exception):
    """Bad input. One line says what, where, expected and found; `python -m transformer` prints it and exits with 1."""


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO]:
    """Open a file beside `path` for writing (`mode` is "w", UTF-8 with `\\n` line ends, or "wb").

    Renamed to `path` when the block ends well, removed when it does not: `path` is old or new, never partial.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(aside, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal. Raises InputError naming the file."""
    return checksum(path, "sha256")


def checksum(path: str | Path, kind: str) -> str:
    """The sum of a file's bytes by a hash function of hashlib, as `sha256`."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, kind).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def read_json(path: str | Path) -> Any:
    """The content of a JSON file. Raises InputError naming the file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from error
