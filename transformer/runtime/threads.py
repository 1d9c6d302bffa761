"""Threads beside a training: one that writes files, one for a single computation."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Thread

logger = logging.getLogger(__name__)


def background(function: Callable, *arguments: object) -> Future:
    """Start a computation in a thread that nobody has to wait for: the process may end before it does."""
    promised: Future = Future()

    def run() -> None:
        try:
            promised.set_result(function(*arguments))
        except BaseException as error:
            promised.set_exception(error)  # raised again by `result`

    Thread(target=run, daemon=True).start()
    return promised


class Writer(AbstractContextManager):
    """A thread that writes one file at a time. The next call, whichever it is, raises the last one's error."""

    def __init__(self):
        self.thread = ThreadPoolExecutor(1)
        self.task: Future | None = None

    def do(self, function: Callable, *arguments) -> None:
        """Call this in the thread, after the task before it."""
        self.wait()
        self.task = self.thread.submit(function, *arguments)

    def check(self) -> None:
        """Raise the last task's error, if it has ended with one."""
        if self.task is not None and self.task.done():
            self.wait()

    def wait(self) -> None:
        if self.task is not None:
            task, self.task = self.task, None
            task.result()

    def __exit__(self, kind: type | None, error: BaseException | None, _) -> None:
        """Wait. If the training itself has failed, only log the task's error, so as not to hide the first."""
        self.thread.shutdown()
        try:
            self.wait()
        except Exception as own:
            if error is None:
                raise
            logger.error("and %s: %s", type(own).__name__, own)
