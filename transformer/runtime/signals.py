"""Signals that ask a run to end: it ends between two steps, and says so by its exit code."""

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Self

# The signals that batch systems, terminals and people send, such as Slurm's --signal=USR1@120.
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
EXIT_INTERRUPTED = os.EX_TEMPFAIL  # 75, "try again": everything is saved, the same command goes on from there


class Interrupted(Exception):
    """A run ended early because it was asked to; what it had done is saved."""


class StopSignals:
    """A context in which the signals in STOPPING end nothing: `received` names the first, for a loop to look at."""

    def __init__(self):
        self.received: str | None = None

    def __enter__(self) -> Self:
        # A signal that is ignored stays ignored: `nohup` wants that.
        watched = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
        self.before = {number: signal.signal(number, self.note) for number in watched}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, frame: FrameType | None) -> None:
        # Later ones change nothing: Ctrl-C reaches a job twice, from the terminal and from Snakemake.
        self.received = self.received or signal.Signals(number).name


def say(text: str, error: bool = False) -> None:
    """Print a line. A training outlives whoever read it: a closed terminal or pipe silences it and ends nothing."""
    stream = sys.stderr if error else sys.stdout
    try:
        print(f"{text}\n", end="", file=stream, flush=True)  # in one write: other processes print, too
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
