"""Manners of a program at a terminal or in a pipe: how it ends on a signal, and when its output cannot be written."""

import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INPUT, OUTPUT = "standard input", "standard output"
ENDING = (signal.SIGINT, signal.SIGTERM)
CLEANING_SECONDS = 2.0


class Ended(BaseException):
    """A signal has asked this process to end. No error: what handles errors lets it pass, and files are cleaned up."""


class Standard(io.FileIO):
    """Standard input or output, whose errors say so."""

    def __init__(self, number: int):
        self.shown = (INPUT, OUTPUT)[number]
        super().__init__(number, "rw"[number], closefd=False)

    def readinto(self, buffer) -> int | None:
        with self.named():
            return super().readinto(buffer)

    def write(self, data) -> int | None:
        with self.named():
            return super().write(data)

    @contextmanager
    def named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.shown) from None


@contextmanager
def manners(program: str) -> Iterator[None]:
    """Run `program`'s main function in this context, for which the process is there alone.

    Ctrl-C and TERM end it with one line and the exit code of a shell, 130 or 143; stages may answer them otherwise. A
    reader that has left (`| head`) ends it silently, with 141. Other output that cannot be written is an error of one
    line. A character that the terminal's encoding lacks is written as an escape.
    """
    open_streams()
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` and a shell's background want it
            signal.signal(number, end)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        left = isinstance(error, BrokenPipeError) and error.filename == OUTPUT
        leave_unwritten()
        sys.exit(128 + signal.SIGPIPE if left else f"{program}: error: {error}")
    except Ended as ended:
        number = ended.args[0]
        print(f"{program}: ended by {number.name}", file=sys.stderr)
        sys.exit(128 + number)


def end(number: int, frame: FrameType | None) -> None:
    """Raise Ended. Another signal does nothing for CLEANING_SECONDS, in which files are removed, then ends the process.

    Ctrl-C reaches a job twice, from the terminal and from Snakemake.
    """
    patient = time.monotonic() + CLEANING_SECONDS

    def again(number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= patient:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for each in ENDING:
        if signal.getsignal(each) == end:
            signal.signal(each, again)
    raise Ended(signal.Signals(number))


@contextmanager
def at_once() -> Iterator[None]:
    """Let the same signals end the process at once, without a line: a long native call answers none.

    Within it nothing may be half done that would have to be cleaned up.
    """
    before = {number: handler for number in ENDING if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def open_streams() -> None:
    """Have all three standard streams open, and standard output write what its encoding lacks.

    A closed one would give its number to the next file that is opened. Input and output are opened the wrong way round,
    so that they can neither be read nor written; messages that nobody wants are written to nowhere.
    """
    for number, way in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)  # gets the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(Standard(0)), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    options = {"encoding": "utf-8"}
    if sys.stdout is not None:
        options = {name: getattr(sys.stdout, name) for name in ("encoding", "line_buffering", "write_through")}
    raw = Standard(1)
    buffer = raw if options.get("write_through") else io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(buffer, errors="backslashreplace", **options)


def leave_unwritten() -> None:
    """Let nothing that waits to be written to standard output fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
