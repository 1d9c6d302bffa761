"""A table of cases for cleaning, text processing by any number of workers, and token arrays written and read."""

import itertools
import multiprocessing
import os
import signal

import pytest
from msgspec.structs import replace

from transformer.data import corpus
from transformer.data.corpus import evenly, parallel
from transformer.data.tokenization import write_tokenized
from transformer.storage.files import InputError, read_lines

LANGUAGES = ("en", "de")
PAIRS = [(f"It's dog {n}!", f"Das ist Hund {n}!") for n in range(25)]


@pytest.fixture
def small_chunks(monkeypatch):
    """A worker takes three lines at once, so that a small text needs many turns and an incomplete last turn."""
    monkeypatch.setattr(corpus, "CHUNK_SIZE", 3)


def write_text(path, lines):  # workers import this module, and support.toy's write_text would make them load torch
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def sides(folder, name, pairs):
    columns = zip(LANGUAGES, zip(*pairs, strict=True), strict=True)
    return tuple(write_text(folder / f"{name}.{language}", lines) for language, lines in columns)


def test_a_pipe_that_would_be_empty_the_second_time_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: expected a regular file, because it is read twice"):
        list(evenly([tmp_path / "pipe"], 5))


@pytest.mark.parametrize("processes", [1, 2])
def test_memory_does_not_grow(small_chunks, processes):
    """When the first results of an endless text arrive, only the workers' few chunks have been read."""
    endless = itertools.count()
    chunks = parallel(tuple, endless, processes)
    assert [next(chunks) for _ in range(2)] == [(0, 1, 2), (3, 4, 5)]
    assert next(endless) <= 3 * (2 + 2 * processes + 1)
    chunks.close()
    assert not multiprocessing.active_children()


def kill_itself(_: list) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(numbers: list) -> None:
    raise InputError(f"found {numbers[0]}")


@pytest.mark.parametrize(("task", "message"), [(kill_itself, "a worker process was killed"), (refuse, "found aaa")])
def test_an_error_ends_all_processes(task, message):
    """Long items fill the pipe to the workers, so the next items wait in it."""
    with pytest.raises(InputError, match=message):
        list(parallel(task, ["a" * 1000] * 20_000, 2))
    assert not multiprocessing.active_children()


def tokenized(folder, corpora, preprocessing, clean, processes=1):
    outputs = (folder / "train.source.tok", folder / "train.target.tok")
    counts = write_tokenized(corpora, outputs, LANGUAGES, preprocessing, clean, processes)
    return counts, *map(list, map(read_lines, outputs))


COUNTED = {"read": 5, "kept": 2, "blank": 2, "long": 1, "unequal": 0}


def test_cleaning_counts_words_after_tokenising_and_drops_both_sides(tmp_path, experiment):
    preprocessing = replace(experiment.preprocessing, max_words=4)
    pairs = [("a b c", "x y z"), ("", "x"), ("a b c d", "x y z!"), ("a b c d!", "x"), ("a", "\u2028 \t")]
    corpora = [sides(tmp_path, "a", pairs)]
    counts, source, target = tokenized(tmp_path, corpora, preprocessing, clean=True)
    assert (counts, source, target) == (COUNTED, ["a b c", "a b c d"], ["x y z", "x y z !"])


def test_two_processes_write_the_same_as_one(tmp_path, experiment, small_chunks):
    corpora = [sides(tmp_path, "a", PAIRS), sides(tmp_path, "b", [("", "x"), *PAIRS[:4]])]
    one, two = (tokenized(tmp_path, corpora, experiment.preprocessing, True, processes) for processes in (1, 2))
    assert one == two
    assert one[0] == {"read": 30, "kept": 29, "blank": 1, "long": 0, "unequal": 0}
    assert one[1] == [f"It &apos;s dog {n} !" for n in [*range(25), *range(4)]]


def test_no_pair_left_is_an_error_that_leaves_the_old_output(tmp_path, experiment):
    files = sides(tmp_path, "a", [("", "x"), ("a", "")])
    old = write_text(tmp_path / "train.source.tok", ["old"])
    with pytest.raises(InputError, match=rf"{files[0]}: no pair of 2 is left after cleaning: 2 with a blank side, 0 "):
        tokenized(tmp_path, [files], experiment.preprocessing, clean=True)
    assert old.read_text() == "old\n"
