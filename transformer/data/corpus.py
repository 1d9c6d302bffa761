"""§5.1: tokenised text to token arrays on disk, with one byte-pair vocabulary for source and target.

Memory use does not grow with the corpus. A parser's brackets and tags (§6.3) are symbols. Their ids are between the
special ids and the subwords, so that the softmax covers only the first rows.
"""

import html
import io
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Thread
from typing import Any, NotRequired, Self, TypedDict

import numpy as np
import sentencepiece

from transformer.config.experiment import EOS, PAD, UNK
from transformer.process import at_once, blocked
from transformer.storage.files import (
    LONGEST_LINE,
    InputError,
    draw,
    groups,
    open_input,
    read_lines,
    replacing,
    require_file,
    write,
)
from transformer.storage.records import Checksum, Count

logger = logging.getLogger(__name__)
TOKEN = np.dtype("<u2")  # a vocabulary has up to 65,535 rows
_OFFSET = np.dtype("<i8")
CHUNK_SIZE = 2000  # items per task of a worker: enough to hide the transfer, small enough for memory

SPECIAL = 3  # PAD, EOS and UNK
_SYMBOL_NAME = "symbol "  # prefix of a symbol's name; no subword contains a space
UNUSED = "unused {}"  # the symbol of an unused row; no real symbol contains a space
CONTINUED = "@@"  # suffix of a subword's name if its word continues
_SKIPPED = 4192  # bytes: SentencePiece skips longer lines and lines with _RESERVED
_RESERVED = "\u2585"
_TOKEN_NAMES = {EOS: "<EOS>", PAD: "<start>"}  # the decoder starts from PAD
_SPACE = "\u2581"  # SentencePiece's space, the first character of a subword at the beginning of a word

_assigned: list[Callable[[list], object]] = []  # a worker process's task


class Counts(TypedDict):  # of a split; tokenised text and treebanks have further counts
    kept: Count  # number of pairs
    files: NotRequired[dict[str, Checksum]]  # checksums of the text files by name


def learn(
    texts: list[Path],
    size: int,
    sentences: int,
    output: Path,
    symbols: Sequence[str] = (),
    longest: int | None = None,
    by_script: bool = False,
) -> None:
    """Learn `size` subwords, including PAD, EOS, UNK and `symbols`, on up to `sentences` lines of `texts`.

    longest: maximum number of characters in a subword. The default is SentencePiece's 16, which splits long German
    words. by_script: no subword mixes scripts, digits and punctuation, for raw text. Moses has already split its
    text into words, so there a subword may span a whole word, as in subword-nmt.
    Equal texts give equal vocabularies. Raises InputError if the texts have fewer subwords, or need more.
    """
    model, long, reserved = io.BytesIO(), False, 0
    characters = {_SPACE}
    for line in evenly(texts, sentences):
        characters.update(line)
        long |= len(line.encode()) > _SKIPPED  # the model's file contains the limit: it is raised only if needed
        reserved += _RESERVED in line
    if reserved:
        logger.warning("%s lines contain U+2585, which SentencePiece reserves: a space replaces it", reserved)
    names, fixed = ", ".join(map(str, texts)), 3 + len(symbols)  # PAD, EOS and UNK
    if not (characters := characters - set(f" {_RESERVED}")) - {_SPACE}:
        raise InputError(f"{names}: expected text, found no words")
    if size < (needed := fixed + len(characters)):
        parts = f"{fixed} special symbols and {len(characters)} characters"
        raise InputError(f"{names}: expected a vocabulary of {needed} or more for {parts}, found {size}")
    try:
        with at_once():
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(line.replace(_RESERVED, " ") for line in evenly(texts, sentences)),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                pad_id=PAD,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                normalization_rule_name="identity",
                character_coverage=1.0,
                split_by_unicode_script=by_script,
                control_symbols=[_SYMBOL_NAME + symbol for symbol in symbols],
                num_threads=1,
                **({"max_sentencepiece_length": longest} if longest else {}),
                **({"max_sentence_length": LONGEST_LINE} if long else {}),
                minloglevel=2,  # errors only; otherwise it warns of a million lines
            )
    except RuntimeError as error:
        problem = str(error).rpartition("] ")[2] or error  # without the line of SentencePiece's code
        raise InputError(f"{names}: cannot learn {size} subwords: {problem}") from None
    write(output, model.getvalue())


def find_symbols(text: Path, rows: int) -> list[str]:
    """Return the sorted symbols of linearised trees, then unused symbols up to `rows` (with PAD, EOS and UNK)."""
    symbols = sorted({symbol for line in read_lines(text) for symbol in line.split()})
    unused = rows - SPECIAL - len(symbols)
    if unused < 0:
        raise InputError(f"{text}: expected up to {rows - SPECIAL} different symbols, found {len(symbols)}")
    return [*symbols, *map(UNUSED.format, range(unused))]


def blank(line: str) -> bool:
    """Return whether a line has only spaces, control and format characters, and SentencePiece's space."""
    return all(char == _SPACE or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp") for char in line)


def evenly(texts: list[Path], most: int) -> Iterator[str]:
    """Yield up to `most` evenly spaced lines of `texts`. SentencePiece's own sample differs in each process."""
    for text in texts:
        require_file(text)
    # All lines are decoded first, because SentencePiece would lose the message of an InputError.
    total = sum(1 for text in texts for _ in read_lines(text))
    return draw(itertools.chain.from_iterable(map(read_lines, texts)), total, most)


class Subwords:
    """A learned vocabulary. Raises InputError if its special ids differ from this project's."""

    def __init__(self, path: str | Path):
        self.path = str(path)
        self.processor = sentencepiece.SentencePieceProcessor()
        with open_input(path) as file:
            model = file.read()
        try:
            self.processor.load_from_serialized_proto(model)  # SentencePiece rejects a path that is not UTF-8
            self.pieces = [self.processor.id_to_piece(token) for token in range(len(self))]
        except (OSError, RuntimeError, UnicodeDecodeError):
            raise InputError(f"{path}: not a SentencePiece model") from None
        ids = (self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id(), self.processor.bos_id())
        if ids != (PAD, EOS, UNK, -1):
            raise InputError(f"{path}: expected ids pad, eos, unk, bos = {(PAD, EOS, UNK, -1)}, found {ids}")

    def fitting(self, rows: int) -> Self:
        """Return this vocabulary. Raises InputError if it has more subwords than the model's `rows`."""
        if len(self) > rows:
            raise InputError(f"{self.path}: expected up to {rows} subwords (the model's rows), found {len(self)}")
        return self

    def __len__(self) -> int:
        return self.processor.vocab_size()

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Convert tokenised sentences to ids with EOS at the end."""
        try:
            return self.processor.encode(lines, add_eos=True, num_threads=1)
        except TypeError:
            raise InputError("expected text in UTF-8, found other bytes in an argument") from None

    def decode(self, sentences: list[list[int]]) -> list[str]:
        """Convert ids, with or without EOS, to tokenised sentences."""
        return self.processor.decode(sentences)

    def names(self, ids: list[int]) -> list[str]:
        """Return the tokens for display: without Moses' escapes, and with @@ at the end if the word continues."""
        named = [_TOKEN_NAMES.get(token) or html.unescape(self.pieces[token].removeprefix(_SPACE)) for token in ids]
        begins = [token in _TOKEN_NAMES or self.pieces[token].startswith(_SPACE) for token in [*ids, EOS]]
        continues = [token not in _TOKEN_NAMES and not begun for token, begun in zip(ids, begins[1:], strict=True)]
        return [name + CONTINUED * more for name, more in zip(named, continues, strict=True)]

    @cached_property
    def symbols(self) -> dict[str, int]:
        """A parser's symbols and their ids, without unused symbols. Translation vocabularies have no symbols."""
        names = {piece: token for token, piece in enumerate(self.pieces) if piece.startswith(_SYMBOL_NAME)}
        return {name.removeprefix(_SYMBOL_NAME): token for name, token in names.items() if name.count(" ") == 1}

    def new_word(self, rows: int) -> list[bool]:
        """Return for each of `rows` ids whether it begins or tags a word: PAD, EOS, subwords after a space, tags."""
        tags = {token for symbol, token in self.symbols.items() if symbol[0] not in "()"}
        begins = [token in tags or piece.startswith(_SPACE) for token, piece in enumerate(self.pieces)]
        begins[PAD] = begins[EOS] = True
        return begins + [False] * (rows - len(begins))

    def encode_symbols(self, lines: list[str]) -> list[list[int]]:
        """Convert linearised trees to ids with EOS at the end. Symbols outside the vocabulary become UNK."""
        return [[*(self.symbols.get(symbol, UNK) for symbol in line.split()), EOS] for line in lines]

    def decode_symbols(self, ids: list[int]) -> list[str]:
        """Convert ids without EOS to symbols. UNK becomes ""."""
        return ["" if token == UNK else self.pieces[token].removeprefix(_SYMBOL_NAME) for token in ids]


def parallel(
    task: Callable[[list], object], items: Iterable, processes: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator:
    """Yield the results of `task` on chunks of `items`, in order, from `processes`. Up to two chunks per process wait.

    size: characters of an item; long items make smaller chunks. Raises InputError if a process is killed.
    """
    chunks = groups(items, CHUNK_SIZE, size)
    if processes == 1:
        yield from map(task, chunks)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads can deadlock
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(task,))
    waiting: deque[Future] = deque()
    try:
        for chunk in chunks:
            # SIGINT is also blocked in new workers, because a terminal sends Ctrl-C to all processes.
            with blocked(signal.SIGINT), _no_script():
                waiting.append(pool.submit(_work, chunk))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        yield from (future.result() for future in waiting)
    except BrokenProcessPool:
        raise InputError("a worker process was killed, probably because memory ran out") from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _no_script() -> Iterator[None]:
    """Start worker processes in this context that do not run the user's script a second time."""
    main = vars(sys.modules["__main__"])
    hidden = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.update(__file__=None, __spec__=None)
    try:
        yield
    finally:
        del main["__file__"]
        main.update(hidden)


def _start(task: Callable[[list], object]) -> None:
    """Prepare a worker: store its task, and make it exit with its parent."""
    parent = multiprocessing.parent_process()
    Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    _assigned.append(task)


def _work(chunk: list) -> object:
    return _assigned[0](chunk)


def _encode(encode: Callable[[list[str]], list[list[int]]], lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the packed ids and the sentences' lengths as arrays, because processes exchange arrays fast."""
    sentences = encode(lines)
    ids = np.fromiter(itertools.chain.from_iterable(sentences), TOKEN)
    return ids, np.fromiter(map(len, sentences), _OFFSET)


def write_tokens(text: Path, vocabulary: Path, ids: Path, offsets: Path, processes: int, symbols: bool = False) -> None:
    """Encode a tokenised text file into the files of a `TokenArray`. symbols: the lines are linearised trees."""
    end, subwords = 0, Subwords(vocabulary)
    task = partial(_encode, subwords.encode_symbols if symbols else subwords.encode)
    with replacing(ids, "wb") as id_file, replacing(offsets, "wb") as offset_file:
        offset_file.write(np.zeros(1, _OFFSET).tobytes())
        for chunk, lengths in parallel(task, read_lines(text), processes, len):
            id_file.write(chunk.tobytes())
            ends = end + np.cumsum(lengths)
            offset_file.write(ends.tobytes())
            end = int(ends[-1])


def require_short(text: Path, vocabulary: Subwords, longest: int) -> None:
    """Raise InputError at the first line of tokenised text with more than `longest` tokens, including EOS."""
    sentences = map(vocabulary.encode, groups(read_lines(text), CHUNK_SIZE, len))
    for number, ids in enumerate(itertools.chain.from_iterable(sentences), start=1):
        if len(ids) > longest:
            expected = f"expected up to {longest:,} subwords (the model's positions minus decoding.extra_length)"
            raise InputError(f"{text}, line {number}: {expected}, found {len(ids):,}")


@dataclass(frozen=True)
class TokenArray:
    """One side of a corpus as memory-mapped packed ids. Sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def open(cls, ids: str | Path, offsets: str | Path) -> Self:
        """Map the two files into memory. Raises InputError if they are not a token array."""
        try:
            array = cls(np.memmap(ids, TOKEN, mode="r"), np.memmap(offsets, _OFFSET, mode="r"))
        except (OSError, ValueError) as error:  # the file is missing, empty or truncated
            raise InputError(f"{ids} and {offsets}: not a token array: {error}") from error
        if len(array.ids) != array.offsets[-1]:
            raise InputError(f"{ids}: expected {array.offsets[-1]} tokens (from {offsets}), found {len(array.ids)}")
        return array

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sentences at `indices`, packed as int64, and their lengths."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return self.ids[shifts + np.arange(len(shifts))].astype(np.int64), lengths
