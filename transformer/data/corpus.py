"""§5.1: raw text files to clean tokenised text, and tokenised text to token arrays on disk.

Text is streamed in chunks of lines to worker processes; memory does not grow with the corpus.
"""

import hashlib
import itertools
import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Self, TypedDict

import numpy as np
from msgspec import Meta

from transformer.config.experiment import Preparation
from transformer.data.subwords import Subwords, noting_spaces
from transformer.files import InputError, replacing
from transformer.records import Checksum, Count, read_json
from transformer.text import groups, read_lines, read_pairs

TOKEN = np.dtype("<u2")  # a vocabulary has at most 65,535 rows
OFFSET = np.dtype("<i8")
CHUNK = 2000  # items that a worker takes at once: enough to hide the hand-over, little to hold in memory

assigned: list[Callable[[list], object]] = []  # a worker process's task


class Counts(TypedDict):
    """The numbers of pairs of a split. That of tokenised text has "read", too, that of a treebank others."""

    kept: Count


class Manifest(TypedDict):
    """The content of data.json, by whose checksum a training knows its data."""

    files: Annotated[dict[str, Checksum], Meta(min_length=1)]  # the checksum of each, by name
    splits: dict[str, dict[str, Any]]
    sha256: Checksum


def checksum_of(files: dict[str, str]) -> str:
    """Return the checksum of data with these files."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Return the content of data.json. Raises InputError naming the file and the key, also on a wrong checksum."""
    manifest = read_json(path, Manifest)
    if manifest["sha256"] != (expected := checksum_of(manifest["files"])):
        raise InputError(f"{path}, sha256: expected {expected}, which its files make, found {manifest['sha256']}")
    return manifest


def keep(source: str, target: str, preparation: Preparation) -> bool:
    """Return whether a tokenised training pair is clean: no side empty or too long, and their lengths similar."""
    short, long = sorted((len(source.split()), len(target.split())))
    return short > 0 and long <= preparation.max_words and long <= short * preparation.max_ratio


def write_tokenized(
    corpora: list[tuple[Path, Path]],
    outputs: list[Path],
    languages: tuple[str, str],
    preparation: Preparation,
    clean: bool,
    processes: int,
) -> dict[str, int]:
    """Tokenise the (source, target) files of `corpora` end to end into the two `outputs`.

    `clean` drops the pairs that `keep` refuses. Returns how many pairs were "read" and "kept". Raises InputError if no
    pair is left.
    """
    counts = {"read": 0, "kept": 0}
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in outputs]
        pairs = itertools.chain.from_iterable(read_pairs(*paths) for paths in corpora)
        task = Tokenize(languages, preparation, clean)
        for read, kept in parallel(task, pairs, processes, lambda pair: sum(map(len, pair))):
            counts["read"] += read
            counts["kept"] += len(kept)
            for side, file in enumerate(files):
                file.writelines(pair[side] + "\n" for pair in kept)
        if not counts["kept"]:
            raise InputError(f"{corpora[0][0]}: no pair of {counts['read']} is left after cleaning")
    return counts


def parallel(
    task: Callable[[list], object], items: Iterable, processes: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator:
    """Yield `task` of each chunk of `items`, in order, computed by `processes`; at most two chunks wait for each.

    size: the characters of an item; long ones make smaller chunks. Raises InputError if a process is killed.
    """
    chunks = groups(items, CHUNK, size)
    if processes == 1:
        yield from map(task, chunks)
        return
    context = multiprocessing.get_context("spawn")  # forking a process whose libraries run threads can deadlock
    pool = ProcessPoolExecutor(processes, context, initializer=start, initargs=(task,))
    waiting: deque[Future] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        yield from (future.result() for future in waiting)
    except BrokenProcessPool:
        raise InputError("a worker process was killed, as the system does where memory runs out") from None
    finally:
        pool.shutdown(cancel_futures=True)


def start(task: Callable[[list], object]) -> None:
    """Prepare a worker: it leaves Ctrl-C, which a terminal sends to all, to its parent, and exits when that does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=exit_with_parent, daemon=True).start()
    assigned.append(task)


def exit_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def work(chunk: list) -> object:
    return assigned[0](chunk)


class Tokenize:
    """A worker's task: turn pairs of raw lines into their number and the tokenised pairs that stay."""

    def __init__(self, languages: tuple[str, str], preparation: Preparation, clean: bool):
        from transformer.data.tokenization import Moses  # loads sacremoses, which only tokenising needs

        self.moses = [Moses(language, preparation) for language in languages]
        self.preparation, self.clean = preparation, clean

    def __call__(self, pairs: list[tuple[str, str]]) -> tuple[int, list[tuple[str, str]]]:
        source, target = self.moses
        tokenized = [(source.tokenize(left), target.tokenize(right)) for left, right in pairs]
        return len(pairs), [pair for pair in tokenized if not self.clean or keep(*pair, self.preparation)]


class Encode:
    """A worker's task: turn lines of text, or of a parser's symbols, into token ids with EOS at the end of each."""

    def __init__(self, vocabulary: Path, symbols: bool):
        subwords = Subwords(vocabulary)
        self.encode = subwords.encode_symbols if symbols else subwords.encode

    def __call__(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids end to end and the sentences' lengths: arrays, as processes exchange lists far more slowly."""
        sentences = self.encode(lines)
        ids = np.fromiter(itertools.chain.from_iterable(sentences), TOKEN)
        return ids, np.fromiter(map(len, sentences), OFFSET)


def write_tokens(text: Path, vocabulary: Path, ids: Path, offsets: Path, processes: int, symbols: bool = False) -> None:
    """Encode a tokenised text file into the files of a `TokenArray`. symbols: the lines are linearised trees."""
    end = 0
    lines = noting_spaces(read_lines(text), text)
    with replacing(ids, "wb") as id_file, replacing(offsets, "wb") as offset_file:
        offset_file.write(np.zeros(1, OFFSET).tobytes())
        for chunk, lengths in parallel(Encode(vocabulary, symbols), lines, processes, len):
            id_file.write(chunk.tobytes())
            ends = end + np.cumsum(lengths)
            offset_file.write(ends.tobytes())
            end = int(ends[-1])


@dataclass(frozen=True)
class TokenArray:
    """One side of a corpus, memory-mapped: all ids end to end; sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def open(cls, ids: str | Path, offsets: str | Path) -> Self:
        """Map the two files into memory. Raises InputError if they are no token array."""
        try:
            array = cls(np.memmap(ids, TOKEN, mode="r"), np.memmap(offsets, OFFSET, mode="r"))
        except (OSError, ValueError) as error:  # missing, empty, or cut within a number
            raise InputError(f"{ids} and {offsets}: not a token array: {error}") from error
        if len(array.ids) != array.offsets[-1]:
            raise InputError(f"{ids}: expected {array.offsets[-1]} tokens, as {offsets} says, found {len(array.ids)}")
        return array

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sentences at `indices` end to end, as int64, and their lengths."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return self.ids[shifts + np.arange(len(shifts))].astype(np.int64), lengths
