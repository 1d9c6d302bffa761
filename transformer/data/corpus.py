"""§5.1: raw text files to clean tokenised text, and tokenised text to token arrays on disk.

Text is streamed in chunks of lines to worker processes; memory does not grow with the corpus.
"""

import itertools
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from transformer.config.experiment import Preparation
from transformer.data.parts import WHOLE, Part, join, part_range, read_part
from transformer.data.subwords import Subwords, noting_spaces
from transformer.files import InputError, readable, replacing
from transformer.runtime.workers import parallel
from transformer.text import count_lines, read_lines

SIDES = ("source", "target")
TOKEN = np.dtype("<u2")  # a vocabulary has at most 65,535 rows
OFFSET = np.dtype("<i8")
BLOCK = 2**20  # offsets that are gathered at once


def keep(source: str, target: str, preparation: Preparation) -> bool:
    """Return whether a tokenised training pair is clean: no side empty or too long, and their lengths similar."""
    short, long = sorted((len(source.split()), len(target.split())))
    return short > 0 and long <= preparation.max_words and long <= short * preparation.max_ratio


def write_tokenized(
    corpora: list[tuple[Path, Path]],
    outputs: tuple[Path, Path],
    languages: tuple[str, str],
    preparation: Preparation,
    clean: bool,
    processes: int,
    part: Part = WHOLE,
) -> dict[str, int]:
    """Tokenise the (source, target) files of `corpora`, or a part of them, end to end into the two `outputs`.

    `clean` drops the pairs that `keep` refuses. Returns how many pairs were read and kept, as "read" and "kept".
    """
    counts = {"read": 0, "kept": 0}
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in outputs]
        task, pairs = Tokenize(languages, preparation, clean), read_part(corpora, part)
        for read, kept in parallel(task, pairs, processes, lambda pair: sum(map(len, pair))):
            counts["read"] += read
            counts["kept"] += len(kept)
            for side, file in enumerate(files):
                file.writelines(pair[side] + "\n" for pair in kept)
        if part == WHOLE:
            check_kept(counts, corpora)
    return counts


def check_kept(counts: dict[str, int], corpora: list[tuple[Path, Path]]) -> None:
    """Raise InputError where cleaning has left no pair."""
    if not counts["kept"]:
        raise InputError(f"{corpora[0][0]}: no pair of {counts['read']} is left after cleaning")


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
        self.subwords, self.symbols = Subwords(vocabulary), symbols

    def __call__(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids end to end and the sentences' lengths: arrays, as processes exchange lists far more slowly."""
        sentences = self.subwords.encode_symbols(lines) if self.symbols else self.subwords.encode(lines)
        ids = np.fromiter(itertools.chain.from_iterable(sentences), TOKEN)
        return ids, np.fromiter(map(len, sentences), OFFSET)


def write_tokens(
    text: Path,
    vocabulary: Path,
    ids: Path,
    offsets: Path,
    processes: int,
    symbols: bool = False,
    part: Part = WHOLE,
) -> int:
    """Encode a tokenised text file, or a part of it, into the files of a `TokenArray`. Returns the number of tokens.

    symbols: whether the lines are linearised trees.
    """
    end = 0
    lines = noting_spaces(read_lines(text, *part_range(count_lines(text), part)), text)
    with replacing(ids, "wb") as id_file, replacing(offsets, "wb") as offset_file:
        offset_file.write(np.zeros(1, OFFSET).tobytes())
        for chunk, lengths in parallel(Encode(vocabulary, symbols), lines, processes, len):
            id_file.write(chunk.tobytes())
            ends = end + np.cumsum(lengths)
            offset_file.write(ends.tobytes())
            end = int(ends[-1])
    return end


def gather_tokens(parts: list[tuple[Path, Path]], ids: Path, offsets: Path) -> int:
    """Write the (ids, offsets) files of `parts` end to end as those of the whole. Returns the number of tokens."""
    end = 0
    with replacing(offsets, "wb") as file:
        file.write(np.zeros(1, OFFSET).tobytes())
        for _, path in parts:
            ends = read_offsets(path)
            for start in range(1, len(ends), BLOCK):
                file.write((end + ends[start : start + BLOCK]).tobytes())
            end += int(ends[-1])
    join([path for path, _ in parts], ids)
    return end


def read_offsets(path: str | Path) -> np.ndarray:
    """Map where sentences begin, and the end of the last, into memory. Raises InputError where they do not grow."""
    try:
        offsets = np.memmap(readable(path), OFFSET, mode="r")
    except (OSError, ValueError) as error:  # missing, empty, or cut within a number
        raise InputError(f"{path}: no offsets of a token array: {error}") from error
    if offsets[0] != 0:
        raise InputError(f"{path}: expected offsets from 0, found them from {offsets[0]}")
    for start in range(0, len(offsets) - 1, BLOCK):
        part = offsets[start : start + BLOCK + 1]
        if (short := np.flatnonzero(part[1:] <= part[:-1])).size:
            number = start + int(short[0])
            found = f"{offsets[number + 1]} after {offsets[number]}"
            raise InputError(f"{path}: expected offsets that grow, found {found} at sentence {number + 1}")
    return offsets


@dataclass(frozen=True)
class TokenArray:
    """One side of a corpus, memory-mapped: all ids end to end; sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def open(cls, ids: str | Path, offsets: str | Path) -> Self:
        """Map the two files into memory. Raises InputError where they are no token array."""
        try:
            array = cls(np.memmap(readable(ids), TOKEN, mode="r"), read_offsets(offsets))
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
