"""Processes that share a task's work, and end with the process that started them, however it ends."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from threading import Thread
from typing import Any

from transformer.common.files import InputError
from transformer.common.text import groups

CHUNK = 2000  # items that a worker takes at once: enough to hide the hand-over, little to hold in memory


def parallel(
    task: Callable[[list], object], items: Iterable, processes: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator:
    """Yield `task` of each chunk of `items`, in order, computed by `processes`; few chunks are in flight at any time.

    size: returns the characters of an item, so that long ones make smaller chunks. Processes are spawned: forking a
    process whose libraries run threads can deadlock. Raises InputError where one of them is killed.
    """
    chunks = groups(items, CHUNK, size)
    if processes == 1:
        yield from map(task, chunks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=begin, initargs=(task,)) as pool:
        start(pool, processes)
        try:
            yield from results_in_order(pool, chunks, 2 * processes)
        except BrokenProcessPool:
            raise InputError("a worker process was killed, as the system does where memory runs out") from None
        except BaseException:  # an error, Ctrl-C, or nobody reads on: nothing is worth waiting for
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


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


def start(pool: ProcessPoolExecutor, processes: int) -> None:
    """Start all workers, deaf to Ctrl-C, which a terminal sends to all: the parent answers it."""
    resource_tracker.ensure_running()  # it would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes inherit it
    try:
        for _ in range(processes):
            pool.submit(int)  # each task starts another, as long as none is idle
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def results_in_order(pool: ProcessPoolExecutor, chunks: Iterable[list], ahead: int) -> Iterator:
    """Yield the result of each chunk, `ahead` of which wait or are worked on meanwhile."""
    pending: deque = deque()
    for chunk in chunks:
        pending.append(pool.submit(run_task, chunk))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def begin(task: Callable) -> None:
    """Set the task that `run_task` runs in this worker, and have the worker end with its parent."""
    global _task
    _task = task
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the end of the process that started this one; the system closes its end of a pipe, however it ends.

    The pool itself does not see that: each worker holds the pipe by which all are told to end.
    """
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def run_task(chunk: list) -> object:
    return _task(chunk)
