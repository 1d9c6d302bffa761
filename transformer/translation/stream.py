"""Lines as they arrive, in bulk where they come fast and at once where they come slowly."""

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO, Self

from transformer.common.files import InputError

PATIENCE = 0.05  # seconds after a line in which more are waited for
PIECE = 2**16  # bytes read at a time: as many as a pipe holds


class Arriving:
    """The lines of a file, a pipe or a terminal, each with its `\\n`. Reads no further ahead than one PIECE."""

    def __init__(self, file: BinaryIO):
        self.descriptor = file.fileno()
        self.lines: deque[bytes] = deque()
        self.begun: list[bytes] = []  # the parts of a line whose end has not come
        self.ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while not self.lines and not self.ended:
            self.read()
        if not self.lines:
            raise StopIteration
        return self.lines.popleft()

    def ready(self, deadline: float) -> bool:
        """Whether there is another line before `deadline`, by time.monotonic."""
        while not self.lines and not self.ended:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.descriptor], [], [], left)[0]:
                return False
            self.read()
        return bool(self.lines)

    def read(self) -> None:
        """Wait for more, and cut it into lines."""
        data = os.read(self.descriptor, PIECE)
        self.ended = not data
        first, *others = data.split(b"\n")
        self.begun.append(first)
        if others:
            whole = [b"".join(self.begun), *others]
            self.begun = [whole.pop()]
            self.lines.extend(line + b"\n" for line in whole)
        if self.ended and (last := b"".join(self.begun)):
            self.lines.append(last)


def chunks(lines: Iterator[str], ready: Callable[[float], bool], most: int) -> Iterator[list[str]]:
    """`lines` in order, in lists of 1 to `most`: a list ends where none is `ready` after PATIENCE.

    An error of `lines` comes after the list of those before it.
    """
    for line in lines:
        chunk, deadline = [line], time.monotonic() + PATIENCE
        try:
            while len(chunk) < most and ready(deadline):
                chunk.append(next(lines))
        except InputError:
            yield chunk
            raise
        yield chunk
