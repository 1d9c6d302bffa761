"""Processes that share a task's work. However the process that started them ends, they end after their chunk.

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

from transformer.files import InputError
from transformer.text import groups

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
    with started(task, processes) as pipes:
        at_work: deque[Connection] = deque()
        for pipe, chunk in zip(cycle(pipes), chunks, strict=False):
            # A worker gets its next chunk before its last result is looked at, so that it never waits for that.
            results = [receive(at_work.popleft())] if len(at_work) == processes else []
            send(pipe, chunk)
            at_work.append(pipe)
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
    # Processes inherit the block; and no signal comes between a worker's start and its place on the list.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        try:
            for _ in range(processes):
                ours, theirs = context.Pipe()
                with theirs:  # once the worker has it, this process must not hold it open
                    worker = context.Process(target=work, args=(theirs,), daemon=True)
                    worker.start()
                workers.append(worker)
                pipes.append(ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Not among the arguments: `start` would wait for ever for a worker that is killed before it has read them all.
        for pipe in pipes:
            send(pipe, task)
        yield pipes
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()


def work(pipe: Connection) -> None:
    """Read the task, then answer each chunk with (result, None) or (None, error), until the parent wants no more."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        task = pipe.recv()
    except EOFError:  # the parent has ended
        return
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
        pass  # the parent has ended: there is nobody left to tell


def send(pipe: Connection, message: object) -> None:
    """Give the task, or a chunk, to a worker that waits for it. Raises InputError where the worker was killed."""
    try:
        pipe.send(message)
    except LEFT:
        raise killed() from None


def receive(pipe: Connection) -> object:
    """Return a worker's result. Raises what the task raised, and InputError where the worker was killed."""
    try:
        result, error = pipe.recv()
    except LEFT:
        raise killed() from None
    if error is not None:
        raise error
    return result


def killed() -> InputError:
    """Return the error of a worker that has ended by itself."""
    return InputError("a worker process was killed, as the system does where memory runs out")
