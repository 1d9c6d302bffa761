"""Bounds for gzip, tarfile and zipfile, which believe the sizes that a file gives them."""

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from transformer.files import InputError

PIECE = 1 << 20  # bytes read at a time
BUFFER = 1 << 16  # bytes of a stream that are held ready
# An archive may unpack to so many times its size, or to so many bytes if that is more: text packs 3 to 30 times.
RATIO, AT_LEAST = 100, 1 << 30
# Bytes of one member's headers in a .tar: two paths of the longest kind, and room. tarfile may take the square of their
# length, half a second here, to read them.
HEADERS = 1 << 14
DIGITS = re.compile(rb"\d+")
MOST_DIGITS = 200  # tarfile's search for numbers in a header takes the square of their length
DIRECTORY = 1 << 24  # bytes of a .zip's list of members: some 200,000 of them


class Unbounded(Exception):
    """A file, perhaps undamaged, goes beyond a bound of this project; the message says which."""


@contextmanager
def blamed(path: str | Path) -> Iterator[None]:
    """Turn any error of the library that reads `path` into an InputError that names it.

    On damaged files, its parsers raise whatever their arithmetic runs into: struct.error, IndexError, RecursionError.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Unbounded as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:
        raise InputError(f"{path}: damaged or cut short: {str(error) or type(error).__name__}") from error


class Checked(io.RawIOBase):
    """The stream `source`, which a library makes of the file `path`: of bounded length, with errors as InputError."""

    def __init__(self, source: IO[bytes], path: str | Path):
        self.source, self.path = source, path
        self.left = self.most = max(AT_LEAST, RATIO * Path(path).stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        with blamed(self.path):
            count = self.source.readinto(buffer)
        self.left -= count
        if self.left < 0:
            raise InputError(f"{self.path}: expected to unpack to at most {self.most:,} bytes, found more")
        return count


def checked(source: IO[bytes], path: str | Path) -> io.BufferedReader:
    """Return `source`, made of the file `path`, as a stream whose every read may raise InputError."""
    return io.BufferedReader(Checked(source, path), BUFFER)


class Forward:
    """A stream that tarfile reads, forward only. While it reads a member's headers, they may have HEADERS bytes."""

    def __init__(self, source: IO[bytes]):
        self.source, self.position = source, 0
        self.left: int | None = HEADERS  # None within a member

    @contextmanager
    def header(self) -> Iterator[None]:
        """Bound what is read in the block."""
        self.left = HEADERS
        yield
        self.left = None

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        """Skip to a later position. Raises StreamError at an earlier one."""
        if position < self.position:
            raise tarfile.StreamError("a member before the one before it")
        while self.position < position and self.take(min(PIECE, position - self.position)):
            pass

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes. Raises Unbounded where headers are longer than they may be."""
        if self.left is None:
            return self.take(size)
        self.left -= size
        if size < 0 or self.left < 0:
            raise Unbounded(f"expected headers of at most {HEADERS:,} bytes, found more")
        data = self.take(size)
        if size > tarfile.BLOCKSIZE and max(map(len, DIGITS.findall(data)), default=0) > MOST_DIGITS:
            raise Unbounded(f"expected numbers of at most {MOST_DIGITS} digits in a header, found more")
        return data

    def take(self, size: int) -> bytes:
        data = self.source.read(size)
        self.position += len(data)
        return data


class Directory:
    """A file that zipfile reads in pieces of at most DIRECTORY bytes: the list of members is one."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, or all of the file's last ones. Raises Unbounded where they are too many."""
        most = PIECE if size < 0 else DIRECTORY  # the last ones are an archive's comment, at most 64 KiB
        data = self.file.read(most + 1 if size < 0 else min(size, most + 1))
        if len(data) > most:
            raise Unbounded(f"expected at most {most:,} bytes in its list of members, found more")
        return data
