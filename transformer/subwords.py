"""§5.1: one byte-pair vocabulary shared by source and target, learned and applied by SentencePiece."""

import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

from transformer.config import EOS, PAD, UNK
from transformer.files import InputError, replacing
from transformer.text import count_lines, read_lines


def learn(texts: list[Path], size: int, sentences: int, output: Path) -> None:
    """Learn `size` subwords (PAD, EOS and UNK among them) on the tokenised `texts`, at most `sentences` lines of them.

    The text is taken as it is (identity normalisation); the same texts give the same vocabulary. Raises InputError
    where the texts do not hold that many subwords, or need more.
    """
    model = io.BytesIO()
    try:
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
            # Words are what Moses says, as in subword-nmt: no split at a change of script or at a digit.
            split_by_unicode_script=False,
            num_threads=1,
            minloglevel=1,
        )
    except RuntimeError as error:
        raise InputError(f"{', '.join(map(str, texts))}: {refusal(str(error), size)}") from None
    with replacing(output, "wb") as file:
        file.write(model.getvalue())


def evenly(texts: list[Path], most: int) -> Iterator[str]:
    """At most `most` lines of `texts`, at equal distances (SentencePiece draws other lines in each process)."""
    total = sum(count_lines(text) for text in texts)
    for number, line in enumerate(itertools.chain.from_iterable(read_lines(text) for text in texts)):
        if number * most // total < (number + 1) * most // total:
            yield line


def refusal(error: str, size: int) -> str:
    """SentencePiece's error, in plain words where the size is at fault."""
    if limit := re.search(r"Vocabulary size too high \(\d+\).*<= (\d+)", error):
        return f"vocabulary of {size} is larger than the text allows: {limit[1]}"
    if limit := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return f"vocabulary of {size} is smaller than the text's characters need: {limit[1]}"
    return f"no vocabulary can be learned: {error}"


class Subwords:
    """A learned vocabulary. Raises InputError where its special ids are not this project's."""

    def __init__(self, path: str | Path):
        self.path = str(path)
        self.processor = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.load(self.path)
        except (OSError, RuntimeError):
            raise InputError(f"{path}: not a SentencePiece model") from None
        found = (self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id(), self.processor.bos_id())
        if found != (PAD, EOS, UNK, -1):
            raise InputError(f"{path}: expected ids pad, eos, unk, bos = {(PAD, EOS, UNK, -1)}, found {found}")

    def __len__(self) -> int:
        return self.processor.vocab_size()

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Tokenised sentences to ids, each ending in EOS."""
        return self.processor.encode(lines, add_eos=True, num_threads=1)  # whoever wants more starts processes

    def decode(self, sentences: list[list[int]]) -> list[str]:
        """Ids (with or without EOS) to tokenised sentences."""
        return self.processor.decode(sentences)
