"""Processes that share a task's work, and end with the process that started them, however it ends.

Each has a pipe of its own. In a pipe that all share, as those of `concurrent.futures` do, one that is killed while it
writes leaves half a result, for whose other half the reader waits for ever.
"""

import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import cycle
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from transformer.common.files import InputError
from transformer.common.text import groups

CHUNK = 2000  # items that a worker takes at once: enough to hide the hand-over, little to hold in memory
LEFT = (EOFError, OSError)  # what the other end of a pipe meets when a process has ended; the second, within a message


def parallel(
    task: Callable[[list], object], items: Iterable, processes: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator:
    """Yield `task` of each chunk of `items`, in order, computed by `processes`, each of which holds one chunk at most.

    size: returns the characters of an item, so that long ones make smaller chunks. Processes are spawned: forking a
    process whose libraries run threads can deadlock. Raises what `task` raises, and InputError where a process is
    killed.
    """
    chunks = groups(items, CHUNK, size)
    if processes == 1:
        yield from map(task, chunks)
        return
    with started(task, processes) as workers:
        at_work: deque[Connection] = deque()
        for worker, chunk in zip(cycle(workers), chunks, strict=False):
            # A worker gets its next chunk before its last result is looked at, so that it never waits for that.
            results = [receive(at_work.popleft())] if len(at_work) == processes else []
            send(worker, chunk)
            at_work.append(worker)
            yield from results
        yield from map(receive, at_work)


def background(function: Callable, *arguments: object) -> Future:
    """Start a computation in a thread that nobody has to wait for: the process may end before it does."""
    promised: Future = Future()

    def run() -> None:
        try:
            promised.set_result(function(*arguments))
        except BaseException as error:
            promised.set_exception(error)  # raised again where the result is asked for

    Thread(target=run, daemon=True).start()
    return promised


@contextmanager
def started(task: Callable, processes: int) -> Iterator[list[Connection]]:
    """Start workers, and yield a pipe to each; kill them at the end: then nobody reads what they still work on.

    They are deaf to Ctrl-C, which a terminal sends to all: the parent answers it.
    """
    context = multiprocessing.get_context("spawn")
    resource_tracker.ensure_running()  # it would lift the block
    workers, pipes = [], []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes inherit it
    try:
        try:
            for _ in range(processes):
                ours, theirs = context.Pipe()
                with theirs:  # once the worker has it, this process must not hold it open
                    workers.append(context.Process(target=work, args=(task, theirs), daemon=True))
                    workers[-1].start()
                pipes.append(ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield pipes
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()


def work(task: Callable, pipe: Connection) -> None:
    """Answer each chunk with (result, None) or (None, error), until the parent has ended or wants no more."""
    try:
        while True:
            chunk = pipe.recv()
            try:
                answer = (task(chunk), None)
            except Exception as error:
                error.add_note(f"In a worker process:\n{traceback.format_exc()}")
                answer = (None, error)
            pipe.send(answer)
    except LEFT:
        pass


def send(worker: Connection, chunk: list) -> None:
    """Give a chunk to a worker that waits for one."""
    try:
        worker.send(chunk)
    except LEFT:
        raise killed() from None


def receive(worker: Connection) -> object:
    """Return a worker's result. Raises what the task raised."""
    try:
        result, error = worker.recv()
    except LEFT:
        raise killed() from None
    if error is not None:
        raise error
    return result


def killed() -> InputError:
    return InputError("a worker process was killed, as the system does where memory runs out")
