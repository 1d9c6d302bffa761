"""Worker processes: results in order, little in memory, and an end with an error or with whoever reads on no more."""

import itertools
import multiprocessing
import os
import signal
from multiprocessing import resource_tracker, util

import pytest

from transformer import text
from transformer.files import InputError
from transformer.runtime import workers
from transformer.runtime.workers import parallel


@pytest.fixture
def small_chunks(monkeypatch):
    """A worker takes three items at once, so that few items need many turns and a last one that is not full."""
    monkeypatch.setattr(workers, "CHUNK", 3)


def test_order_is_kept(small_chunks):
    chunks = parallel(tuple, range(10), 1)
    assert list(chunks) == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)]
    assert list(parallel(tuple, [], 1)) == []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 11])
def test_order_is_kept_by_several_processes(monkeypatch, count):
    """Also of fewer chunks than processes, and of one more."""
    monkeypatch.setattr(workers, "CHUNK", 1)
    assert list(parallel(tuple, range(count), 3)) == [(number,) for number in range(count)]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("processes", [1, 2])
def test_memory_does_not_grow(small_chunks, processes):
    """When the first results of an endless text come, only the few chunks that the workers hold have been read."""
    endless = itertools.count()
    chunks = parallel(tuple, endless, processes)
    assert [next(chunks) for _ in range(3)] == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    assert next(endless) <= 3 * (3 + processes + 1)
    chunks.close()
    assert not multiprocessing.active_children()


def test_long_items_make_smaller_chunks(monkeypatch):
    monkeypatch.setattr(text, "GROUP", 10)
    assert list(parallel(tuple, ["a" * 9, "b", "c" * 10, "d"], 1, len)) == [("a" * 9, "b"), ("c" * 10,), ("d",)]


def kill_itself(_: list) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_named_and_the_others_end():
    """Long items fill the pipe to the workers, in which the next ones wait."""
    with pytest.raises(InputError, match="a worker process was killed"):
        list(parallel(kill_itself, ["a" * 1000] * 20_000, 2))
    assert not multiprocessing.active_children()


def long_result(_: list) -> bytes:
    """Return more than a pipe holds, so that a worker writes for as long as nobody reads."""
    return b"x" * 1_000_000


def test_a_worker_may_be_killed_while_it_writes():
    """Half its result is in the pipe then, and the other worker lives on."""
    with workers.started(long_result, 2) as pipes:
        for pipe in pipes:
            workers.send(pipe, [])
            assert pipe.poll(timeout=60)
        multiprocessing.active_children()[0].kill()
        lengths = []
        for pipe in pipes:
            try:
                lengths.append(len(workers.receive(pipe)))
            except InputError as error:
                lengths.append(str(error).split(",")[0])
        assert sorted(lengths, key=str) == [1_000_000, "a worker process was killed"]
    assert not multiprocessing.active_children()


class LargeTask:
    """A task that does not fit into a pipe, so that it is handed over for as long as the worker does not read."""

    def __init__(self):
        self.content = b"x" * 1_000_000

    def __call__(self, chunk: list) -> int:
        return len(self.content)


def test_a_worker_may_be_killed_before_it_has_its_task(monkeypatch):
    """As soon as there is a process, long before its interpreter reads."""

    def spawn(*arguments: object) -> int:
        pid = spawned(*arguments)
        os.kill(pid, signal.SIGKILL)
        return pid

    resource_tracker.ensure_running()  # which is spawned, too
    spawned = util.spawnv_passfds
    monkeypatch.setattr(util, "spawnv_passfds", spawn)
    with pytest.raises(InputError, match="a worker process was killed"):
        list(parallel(LargeTask(), range(10), 2))
    assert not multiprocessing.active_children()


def refuse(numbers: list) -> None:
    raise InputError(f"found {numbers[0]}")


def test_what_a_task_raises_is_raised_with_where(small_chunks):
    with pytest.raises(InputError, match=r"^found 0\n") as caught:
        list(parallel(refuse, range(10), 2))
    assert "in refuse" in caught.value.__notes__[0]
    assert not multiprocessing.active_children()
