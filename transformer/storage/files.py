r"""Atomic writes, lines of text that end only at `\n`, and errors for users.

The package writes each file under a temporary name and then renames it, so that a reader never finds a partial file.
Only `\n` ends a line, because sentences in corpora contain bare CR, NEL and U+2028.
"""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}  # never reopened, because that would truncate or overwrite a file
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk is full, or a quota or the maximum file size is reached


class InputError(Exception):
    """Bad input, with one line: where, expected, found. `python -m transformer` prints this line and exits with 1."""


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO]:
    r"""Open a file to write ("w": UTF-8 with `\n` line ends, or "wb"). `path` is old or new, never partial.

    Devices, pipes and /dev/stdout are written directly. Raises IsADirectoryError before the block runs.
    """
    path = Path(path)
    if path.is_dir():  # also "" and "."
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and (str(path) in _STREAMS or not path.is_file()):
        stream = _STREAMS.get(str(path))
        with naming(path), open(path if stream is None else os.dup(stream), mode, **text) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # random, so that nobody can put a link
    try:
        with naming(path, temporary), open(temporary, mode.replace("w", "x"), **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write(path: str | Path, content: str | bytes) -> None:
    """Write a file with `replacing`."""
    with replacing(path, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder next to `path`. Rename it to `path` if the block succeeds, else remove it."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        yield new
        old = Path(temporary) / "old"
        if path.exists():
            path.rename(old)
        try:
            new.rename(path)
        finally:
            if old.exists() and not path.exists():
                old.rename(path)


@contextmanager
def naming(path: str | Path, temporary: str | Path = "") -> Iterator[None]:
    """Name the written file in the error of a full disk, and in an error that would name its temporary file."""
    try:
        yield
    except OSError as error:
        if str(error.filename) == str(temporary) or (error.errno in _FULL and not error.filename):
            error.filename = str(path)
        raise


def require_file(path: str | Path) -> None:
    """Raise InputError if the path is a pipe, because a pipe cannot be read twice."""
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: expected a regular file, because it is read twice")


def open_input(path: str | Path) -> IO[bytes]:
    """Open a binary file for reading. Raises InputError naming the file."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def checksum(path: str | Path, algorithm: str) -> str:
    """Return a file's hexadecimal checksum by an algorithm of hashlib. Raises InputError naming the file."""
    with open_input(path) as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


sha256 = partial(checksum, algorithm="sha256")


def write_columns(rows: Iterable[Iterable[str]], paths: Iterable[str | Path]) -> int:
    """Write item k of each row as a line of file k, and return the number of rows. All files appear at the end."""
    count, rows = 0, iter(rows)
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        while some := list(islice(rows, 100)):  # single rows take three times as long
            count += len(some)
            for file, lines in zip(files, zip(*some, strict=True), strict=True):
                file.write("\n".join((*lines, "")))
    return count


LONGEST_LINE = 2**20  # bytes without the line feed; the longest sentences of WMT have about 50,000
GROUP = 2**24  # maximum number of characters in a group of lines
_GZIP = b"\x1f\x8b"  # the first bytes of a gzip file; the second byte is invalid UTF-8
_FULL_MEMORY = re.compile("can't allocate memory|out of memory|not enough memory|std::bad_alloc")


def reason(error: BaseException) -> str:
    """Return an error's message for a user: one printable line, also if memory is full and Python has no message."""
    return printable(f"not enough memory: {error}".removesuffix(": ") if out_of_memory(error) else error)


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error means that memory is full. Errors of torch and C++ have no specific type."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_FULL_MEMORY.search(str(error))))


def origin(error: BaseException) -> str:
    """Return the first line of an error's original cause. Further lines of compilers are long and do not help."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return printable(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def printable(message: object) -> str:
    """Return a message as one line of text, with all control characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(message))


def read_lines(path: str | Path, digest: "hashlib._Hash | None" = None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their ends (`\n` or `\r\n`), in constant memory. Raises InputError.

    digest: also gets the bytes, because a pipe cannot be read twice.
    """
    with open_input(path) as file:
        yield from decode_lines(split_lines(file, digest), path)


def split_lines(file: IO[bytes], digest: "hashlib._Hash | None" = None) -> Iterator[bytes]:
    """Yield the lines of a binary file in constant memory. Too long lines come in pieces of LONGEST_LINE + 1 bytes."""
    for line in iter(partial(file.readline, LONGEST_LINE + 1), b""):
        if digest:
            digest.update(line)
        yield line


def decode_lines(lines: Iterable[bytes], name: str | Path, first: int = 1) -> Iterator[str]:
    """Yield the text of `lines`. first: number of the first line. Raises InputError naming the line."""
    for number, line in enumerate(lines, start=first):
        if len(line) > LONGEST_LINE and len(line.removesuffix(b"\n")) > LONGEST_LINE:
            raise InputError(f"{name}, line {number}: expected up to {LONGEST_LINE:,} bytes, found more")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"an invalid byte {error.start + 1} (0x{line[error.start]:02x})"
            if number == 1 and line.startswith(_GZIP):
                found = "gzip: unpack it first"
            raise InputError(f"{name}, line {number}: expected UTF-8, found {found}") from error
        if number == 1:
            text = text.removeprefix("\ufeff")  # some programs write this mark at the beginning of a UTF-8 file
        yield text.removesuffix("\n").removesuffix("\r")


def groups(items: Iterable, most: int, size: Callable[[Any], int]) -> Iterator[list]:
    """Yield `items` in lists of up to `most` items. A list ends earlier if its size in characters reaches GROUP.

    If the input has a fault, all items before the fault are yielded before InputError is raised.
    """
    group, total, fault = [], 0, None
    try:
        for item in items:
            group.append(item)
            total += size(item)
            if len(group) == most or total >= GROUP:
                yield group
                group, total = [], 0
    except InputError as error:
        fault = error
    if group:
        yield group
    if fault:
        raise fault


def draw(items: Iterable, total: int, most: int) -> Iterator:
    """Yield up to `most` evenly spaced items of `total` items. The choice is deterministic."""
    for number, item in enumerate(items):
        if number * most // total < (number + 1) * most // total:
            yield item


def read_pairs(source: str | Path, target: str | Path, *digests: "hashlib._Hash") -> Iterator[tuple[str, str]]:
    """Yield pairs of lines of two files. Raises InputError if the files are empty or differ in length."""
    paths, number = (source, target), 0
    sides = [read_lines(*each) for each in zip_longest(paths, digests)]  # reads each file once: it may be a pipe
    for number, pair in enumerate(zip_longest(*sides), start=1):
        if None in pair:
            rest = number + sum(1 for side in sides for _ in side)  # length of the longer file; the other has ended
            counts = [number - 1 if line is None else rest for line in pair]
            found = ", ".join(f"{path} has {count}" for path, count in zip(paths, counts, strict=True))
            raise InputError(f"expected equal numbers of lines, found: {found}")
        yield pair
    if not number:
        raise InputError(f"expected sentence pairs, found none: {source} and {target} are empty")
