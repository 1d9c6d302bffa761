"""This process and the system: signals, standard streams, memory limits, locks of files. No torch here."""

import fcntl
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
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
EXIT_INTERRUPTED = os.EX_TEMPFAIL  # 75, "try again": everything is saved, the same command goes on from there


class _Ended(BaseException):
    """A signal has asked this process to end: no Exception, so that what handles errors lets it pass."""


class Interrupted(Exception):
    """A training ended early because it was asked to; its state is saved."""


def processors() -> int:
    """Return how many processors this process may use: all of them on macOS, which does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Handle these signals so, and after the block as before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def blocked(number: int) -> Iterator[None]:
    """Receive a signal only after the block; a process that is started in it never receives it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopSignals(ExitStack):
    """A context in which the signals in STOPPING end nothing: `received` names the first, for a loop to look at."""

    received: str | None = None

    def __enter__(self) -> Self:
        # A signal that is ignored stays ignored: `nohup` wants that.
        watched = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        self.enter_context(_handled(watched, self.note))
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        # Later ones change nothing: Ctrl-C reaches a job twice, from the terminal and from Snakemake.
        self.received = self.received or signal.Signals(number).name


@contextmanager
def manners(program: str) -> Iterator[None]:
    """Run `program`'s main function in this context.

    Ctrl-C and TERM end it with one line and a shell's exit code, 130 or 143, a reader that has left (`| head`) silently
    with 141. Other output that cannot be written is an error of one line.
    """
    # Python leaves closed streams out; the next file that is opened would get such a stream's number.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` and a shell's background want it
            signal.signal(number, _end)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What is left to write must not fail when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else f"{program}: error: {error}")
    except _Ended as ended:
        number = ended.args[0]
        print(f"{program}: ended by {signal.Signals(number).name}", file=sys.stderr)
        sys.exit(128 + number)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Raise _Ended; nothing is printed here, as the signal may come while something is."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)  # while files are removed: Ctrl-C reaches a job twice
    raise _Ended(number)


def at_once() -> AbstractContextManager[None]:
    """Let these signals end the process at once: a long native call answers none. Nothing in it needs cleaning."""
    return _handled([number for number in _ENDING if callable(signal.getsignal(number))], signal.SIG_DFL)


def memory_limits() -> list[int]:
    """Return the memory limits in bytes of this process's control group and its parents: a container's, a job's."""
    own = Path("/proc/self/cgroup")
    groups = [line.split("::")[1] for line in own.read_text().splitlines() if "::" in line] if own.exists() else []
    folders = [folder for group in groups for folder in (Path(group), *Path(group).parents)]
    files = [Path("/sys/fs/cgroup", folder.relative_to("/"), "memory.max") for folder in folders]
    limits = [file.read_text().strip() for file in files if file.exists()]
    return [int(limit) for limit in limits if limit != "max"]


def take_lock(file: IO) -> bool:
    """Try to lock a file; return whether that worked. Raises InputError on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InputError(f"{file.name}: expected a file system that can lock files, found: {error.strerror}") from error
    return True
