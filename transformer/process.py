"""This process and the system: signals, standard streams, memory limits, file locks. Imports no PyTorch.

Systems other than Unix can also import this module, because translation works there too.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, Self

from transformer.storage.files import InputError

_ENDING = (signal.SIGINT, signal.SIGTERM)
# The signals that batch systems, terminals and people send to a training, such as Slurm's --signal=USR1@120.
_STOPPING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")
STOPPING = tuple(signal.Signals[name] for name in _STOPPING if hasattr(signal, name))
EXIT_INTERRUPTED = 75  # the system's EX_TEMPFAIL: the state is saved, and the same command resumes the training


class Interrupted(Exception):
    """The end of a training after a stop signal. Its state is saved."""


def processors() -> int:
    """Return the number of processors that this process may use. On macOS, this is the number of all processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Handle these signals with `handler` inside the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def blocked(number: int) -> Iterator[None]:
    """Delay a signal until the end of the block. A process that starts inside the block never receives it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopSignals(ExitStack):
    """A context in which the signals in STOPPING end nothing. A loop reads the first signal's name from `received`."""

    received: str | None = None

    def __enter__(self) -> Self:
        # An ignored signal stays ignored, so that `nohup` works.
        watched = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        self.enter_context(_handled(watched, self._note))
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Later signals change nothing, because a job gets Ctrl-C twice: from the terminal and from Snakemake.
        self.received = self.received or signal.Signals(number).name


@contextmanager
def clean_exit(program: str) -> Iterator[None]:
    """Run a program's main function. It ends with a shell's exit code and without a traceback.

    Ctrl-C exits with 130 and TERM with 143, after one line. A closed pipe (`| head`) exits silently with 141. Any other
    failure to write output is an error with one line.
    """
    # Python replaces closed streams by None. Without these lines, the next opened file would get the stream's number.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # `nohup` and a shell's background jobs ignore Ctrl-C
            signal.signal(number, _interrupt)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes standard output again at its end. This flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else f"{program}: error: {error}")
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        print(f"{program}: ended by {signal.Signals(number).name}", file=sys.stderr)
        sys.exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raise Python's KeyboardInterrupt for both TERM and Ctrl-C."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)  # a job gets Ctrl-C twice; the second must not interrupt the clean-up
    raise KeyboardInterrupt(number)


def at_once() -> AbstractContextManager[None]:
    """Let Ctrl-C and TERM end the process at once. This is for long native calls without clean-up."""
    return _handled([number for number in _ENDING if callable(signal.getsignal(number))], signal.SIG_DFL)


def memory_limits() -> list[int]:
    """Return the memory limits in bytes of this process's control group and its parents (for example a container)."""
    own = Path("/proc/self/cgroup")
    groups = [line.split("::")[1] for line in own.read_text().splitlines() if "::" in line] if own.exists() else []
    folders = [folder for group in groups for folder in (Path(group), *Path(group).parents)]
    files = [Path("/sys/fs/cgroup", folder.relative_to("/"), "memory.max") for folder in folders]
    limits = [file.read_text().strip() for file in files if file.exists()]
    return [int(limit) for limit in limits if limit != "max"]


def take_lock(file: IO) -> bool:
    """Try to lock a file and return whether it succeeded. Raises InputError on a file system without locks."""
    import fcntl  # Unix only

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(f"{file.name}: expected a file system with file locks, found: {error.strerror}") from error
    return True
