"""Systems in processes of their own, of which one at a time is asked to work.

Libraries that share a process disturb each other: PyTorch and CTranslate2 each bring an OpenMP, whose threads wait for
work by spinning on the cores that the other needs, and each sets the other's number of threads.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import timed

# OpenMP's threads spin for milliseconds after a turn, and so into the next system's; so they sleep at once.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
system: Any = None  # of this process, where it is a worker


@dataclass(frozen=True)
class Apart:
    """A `kind` of system that is opened in a process of its own with so many `threads`, which ends with `stack`."""

    kind: type
    threads: int
    stack: ExitStack

    @property
    def name(self) -> str:
        return self.kind.name

    def __call__(self, work: Callable[[], object], folder: Path) -> "Worker":
        """Open the system with what `work` makes in the new process. Raises what `kind` raises."""
        pool = self.stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        with environment(ENVIRONMENT):
            settings = pool.submit(start, self.kind, self.threads, work, folder)
        return Worker(pool, settings.result())


@dataclass(frozen=True)
class Worker:
    """A process with a system in it, and the system's settings."""

    pool: ProcessPoolExecutor
    settings: list[str]

    def timed(self, method: str, *arguments: object) -> tuple[float, Any]:
        """Call the system's `method`; return the seconds that it took, by its own process's clock, and its value."""
        return self.pool.submit(call, method, arguments).result()


def start(kind: type, threads: int, work: Callable[[], object], folder: Path) -> list[str]:
    """Open the system in this worker, and return its settings."""
    global system
    torch.set_num_threads(threads)
    system = kind(work(), folder)
    return list(system.settings)


def call(method: str, arguments: tuple) -> tuple[float, Any]:
    """Call a method of this worker's system; return its seconds and its value."""
    return timed(lambda: getattr(system, method)(*arguments))


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables in the environment of the processes that start within the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
