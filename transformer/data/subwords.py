"""§5.1: one byte-pair vocabulary shared by source and target, learned and applied by SentencePiece.

A parser's brackets and tags (§6.3) are symbols, each with an id of its own: after the special ids and before the
subwords, so that the softmax needs to cover the first rows only.
"""

import io
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import sentencepiece

from transformer.config.experiment import EOS, PAD, UNK
from transformer.files import InputError, replacing
from transformer.process import at_once
from transformer.text import draw, read_lines

logger = logging.getLogger(__name__)

SPECIAL = 3  # PAD, EOS and UNK
SYMBOL = "symbol "  # the beginning of a symbol's name; no subword contains a space
SPACE = "\u2581"  # SentencePiece's space, which begins a subword that begins a word
UNUSED = "unused {}"  # the symbol of a row without a use; no real symbol contains a space


def learn(texts: list[Path], size: int, sentences: int, output: Path, symbols: Sequence[str] = ()) -> None:
    """Learn `size` subwords, PAD, EOS, UNK and `symbols` included, on at most `sentences` lines of tokenised `texts`.

    The same texts give the same vocabulary. Raises InputError if they do not hold that many subwords, or need more.
    """
    model = io.BytesIO()
    try:
        with at_once():
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=evenly(texts, sentences),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                pad_id=PAD,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                normalization_rule_name="identity",
                character_coverage=1.0,
                # Moses decides what a word is, as in subword-nmt: no split at a change of script or at a digit.
                split_by_unicode_script=False,
                control_symbols=[SYMBOL + symbol for symbol in symbols],
                num_threads=1,
                minloglevel=2,  # errors; it would warn that a million lines are many
            )
    except RuntimeError as error:
        problem = str(error).rpartition("] ")[2] or error  # without the place in SentencePiece's code
        raise InputError(f"{', '.join(map(str, texts))}: no vocabulary of {size}: {problem}") from None
    with replacing(output, "wb") as file:
        file.write(model.getvalue())


def find_symbols(text: Path, rows: int) -> list[str]:
    """Return the sorted symbols of linearised trees, then unused ones up to `rows`, PAD, EOS and UNK included."""
    symbols = sorted({symbol for line in read_lines(text) for symbol in line.split()})
    room = rows - SPECIAL - len(symbols)
    if room < 0:
        raise InputError(f"{text}: expected {rows - SPECIAL} different symbols at most, found {len(symbols)}")
    return [*symbols, *(UNUSED.format(number) for number in range(room))]


def evenly(texts: list[Path], most: int) -> Iterator[str]:
    """Yield at most `most` lines of `texts`, at equal distances (SentencePiece draws other lines in each process)."""
    # Decode all lines first: SentencePiece would lose the message of an InputError.
    total = sum(1 for text in texts for _ in read_lines(text))
    return draw(itertools.chain.from_iterable(read_lines(text) for text in texts), total, most)


def noting_spaces(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """Yield the lines. Warns how many of them hold SPACE, which SentencePiece takes for a space."""
    count = 0
    for line in lines:
        count += SPACE in line
        yield line
    note_spaces(count, name)


def note_spaces(count: int, name: str | Path) -> None:
    if count:
        lines = "1 line holds" if count == 1 else f"{count:,} lines hold"
        logger.warning("%s: %s %s (U+2581), which is read as a space", name, lines, SPACE)


class Subwords:
    """A learned vocabulary. Raises InputError where its special ids are not this project's."""

    def __init__(self, path: str | Path):
        self.path = str(path)
        self.processor = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.load(self.path)
            self.pieces = [self.processor.id_to_piece(token) for token in range(len(self))]
        except (OSError, RuntimeError, UnicodeDecodeError):
            raise InputError(f"{path}: not a SentencePiece model") from None
        ids = (self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id(), self.processor.bos_id())
        if ids != (PAD, EOS, UNK, -1):
            raise InputError(f"{path}: expected ids pad, eos, unk, bos = {(PAD, EOS, UNK, -1)}, found {ids}")

    def fitting(self, rows: int) -> Self:
        """Return these subwords. Raises InputError where a model whose embedding has so many rows lacks some."""
        if len(self) > rows:
            raise InputError(f"{self.path}: expected {rows} subwords at most, the model's rows, found {len(self)}")
        return self

    def __len__(self) -> int:
        return self.processor.vocab_size()

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Turn tokenised sentences into ids, each ending in EOS."""
        return self.processor.encode(lines, add_eos=True, num_threads=1)

    def decode(self, sentences: list[list[int]]) -> list[str]:
        """Turn ids (with or without EOS) into tokenised sentences."""
        return self.processor.decode(sentences)

    @cached_property
    def symbols(self) -> dict[str, int]:
        """A parser's symbols and their ids, the first after the special ones; empty in a translator's vocabulary."""
        names = itertools.takewhile(lambda piece: piece.startswith(SYMBOL), self.pieces[SPECIAL:])
        symbols = [name.removeprefix(SYMBOL) for name in names]
        return {symbol: SPECIAL + number for number, symbol in enumerate(symbols) if " " not in symbol}

    def new_word(self, rows: int) -> list[bool]:
        """Return for each of `rows` ids whether it begins or tags a word: PAD, EOS, subwords after a space, tags."""
        tags = {token for symbol, token in self.symbols.items() if symbol[0] not in "()"}
        begins = [token in tags or piece.startswith(SPACE) for token, piece in enumerate(self.pieces)]
        begins[PAD] = begins[EOS] = True
        return begins + [False] * (rows - len(begins))

    def encode_symbols(self, lines: list[str]) -> list[list[int]]:
        """Turn linearised trees into ids, each ending in EOS; a symbol that is not in the vocabulary is UNK."""
        return [[*(self.symbols.get(symbol, UNK) for symbol in line.split()), EOS] for line in lines]

    def decode_symbols(self, ids: list[int]) -> list[str]:
        """Turn ids without EOS into symbols; UNK, which stands for no symbol, becomes ""."""
        return ["" if token == UNK else self.processor.id_to_piece(token).removeprefix(SYMBOL) for token in ids]
