"""§5.2 A thread that writes files, so that the training does not wait for the disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

from transformer.runtime.signals import say


class Writer(AbstractContextManager):
    """A thread that does one task at a time. An error in a task is raised by the next call, whichever it is."""

    def __init__(self):
        self.thread = ThreadPoolExecutor(1)
        self.task: Future | None = None

    def do(self, function: Callable, *arguments) -> None:
        """Call this in the thread, once the task before it is done."""
        self.wait()
        self.task = self.thread.submit(function, *arguments)

    def check(self) -> None:
        """Raise the last task's error, if it has ended with one."""
        if self.task is not None and self.task.done():
            self.wait()

    def wait(self) -> None:
        """Wait until no task is under way."""
        if self.task is not None:
            task, self.task = self.task, None
            task.result()

    def __exit__(self, kind: type | None, error: BaseException | None, _) -> None:
        """Wait. Where the training itself has failed, only print the task's error, so as not to hide the first."""
        self.thread.shutdown()
        try:
            self.wait()
        except Exception as own:
            if error is None:
                raise
            say(f"and {type(own).__name__}: {own}", error=True)
