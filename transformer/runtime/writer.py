"""§5.2: files written beside the training, which does not wait for the disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from transformer.runtime.signals import say


class Writer:
    """One thread, one task at a time. What went wrong in a task is raised by the next call, whichever it is."""

    def __init__(self):
        self.thread = ThreadPoolExecutor(1)
        self.task: Future | None = None

    def do(self, function: Callable, *arguments) -> None:
        """Call this in the thread, after what it does already."""
        self.wait()
        self.task = self.thread.submit(function, *arguments)

    def check(self) -> None:
        """Raise what went wrong, if that is known."""
        if self.task is not None and self.task.done():
            self.wait()

    def wait(self) -> None:
        """Until nothing is under way."""
        if self.task is not None:
            task, self.task = self.task, None
            task.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, _) -> None:
        """Wait. What went wrong here must not hide what went wrong before: then it is said, not raised."""
        self.thread.shutdown()
        try:
            self.wait()
        except Exception as own:
            if error is None:
                raise
            say(f"and {type(own).__name__}: {own}", error=True)
