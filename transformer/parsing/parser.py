"""§6.3 English constituency parsing: words to trees, by the same model and search that translate.

The paper's search may write anything; `trees.decode` repairs it. A constrained search only writes trees, unless it
reaches its limit on the length.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import EOS, POSITIONS, Decoding
from transformer.data.corpus import SPECIAL, Subwords
from transformer.model.seq2seq import Decoder, Seq2Seq
from transformer.parsing.trees import Tree, decode
from transformer.storage.files import groups
from transformer.translation.translator import opened, search

TOO_LONG = "more subwords than the model has positions for"
SENTENCES_AT_ONCE = 10_000  # sentences in memory, among which those of similar length are parsed together
_DEEPEST = 100  # brackets open at once in a constrained search; treebanks have about thirty


class Parse(NamedTuple):
    tree: Tree  # over exactly the given words
    fault: str | None  # that was repaired
    score: float | None  # log-probability over length penalty; None for a sentence that is too long


@dataclass(frozen=True)
class Parser:
    """A trained parser: the model with its vocabulary and its search."""

    model: Seq2Seq
    vocabulary: Subwords
    decoding: Decoding
    constrained: bool = False

    def parse(self, sentences: list[list[str]]) -> list[Parse]:
        """Parse sentences, none of them empty. One that is too long gets a flat tree."""
        ids = self.vocabulary.encode([" ".join(words) for words in sentences])
        short = [index for index, sentence in enumerate(ids) if len(sentence) <= POSITIONS]
        symbols = SPECIAL + len(self.vocabulary.symbols)

        def steered(decoder: Decoder, batch: list[int]) -> Decoder:
            if not self.constrained:
                return decoder
            words = torch.tensor([len(sentences[short[index]]) for index in batch], device=self.model.device)
            return TreeDecoder(decoder, words, self.vocabulary.symbols)

        outputs = search(self.model, symbols, [ids[index] for index in short], self.decoding, steered)
        parses = [Parse(decode([], words)[0], TOO_LONG, None) for words in sentences]
        for index, ((output, score),) in zip(short, outputs, strict=True):
            parses[index] = Parse(*decode(self.vocabulary.decode_symbols(output), sentences[index]), score)
        return parses

    def parse_all(self, sentences: Iterable[list[str]]) -> Iterator[Parse | None]:
        """Yield a parse for each sentence, None for one without words, in constant memory."""
        for chunk in groups(sentences, SENTENCES_AT_ONCE, lambda words: sum(map(len, words))):
            parses = iter(self.parse([words for words in chunk if words]))
            yield from (next(parses) if words else None for words in chunk)


def open_parser(run: Path, weights: Path | None, changes: dict[str, Any], constrained: bool) -> Parser:
    """Load the parser of a run; `changes` are to its decoding. Raises InputError if the run is a translator."""
    _, model, vocabulary, decoding = opened(run, weights, changes, parses=True)
    return Parser(model, vocabulary, decoding, constrained)


def penn_words(line: str) -> list[str]:
    """Split plain text into words as the Penn Treebank does, by NLTK's tokeniser; round brackets stay as they are."""
    from nltk.tokenize import TreebankWordTokenizer  # takes a second, which tokenised text need not wait for

    return TreebankWordTokenizer().tokenize(line)


class TreeDecoder:
    """A `seq2seq.Decoder` around another, whose hypotheses stay beginnings of trees over their sentences' words.

    A tag takes the next word; a closing bracket closes the innermost constituent, which must hold something; EOS
    follows when all is closed and no word is left.

    words: [B], the number of each sentence's words. symbols: the vocabulary's symbols, with their ids.
    """

    def __init__(self, decoder: Decoder, words: Tensor, symbols: dict[str, int]):
        self.decoder = decoder
        # What each id does to a tree: [V]. PAD, EOS and UNK do nothing.
        self.ids = torch.arange(max(symbols.values()) + 1, device=words.device)
        self.closing = torch.zeros_like(self.ids)  # the closing bracket of an opening one, or 0
        self.closes, self.tags = torch.zeros(2, len(self.ids), dtype=torch.bool, device=words.device)
        for symbol, token in symbols.items():
            if symbol.startswith("("):
                self.closing[token] = symbols[f"){symbol[1:]}"]
            else:
                (self.closes if symbol.startswith(")") else self.tags)[token] = True
        self.left = words[:, None]  # words without a tag yet: [B, K], like depth and empty
        self.depth = torch.zeros_like(self.left)
        self.empty = torch.zeros_like(self.left, dtype=torch.bool)  # the innermost constituent holds nothing
        self.owed = torch.zeros(len(words), 1, _DEEPEST, dtype=torch.long, device=words.device)  # closing brackets

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K]. Returns log-probabilities [B, K, V], -inf for symbols that would break the tree."""
        closing = self.closing[tokens][:, :, None]
        opens = closing > 0
        place = self.depth.clamp(max=_DEEPEST - 1)[:, :, None]
        self.owed = self.owed.scatter(2, place, torch.where(opens, closing, self.owed.gather(2, place)))
        self.left = self.left - self.tags[tokens].long()
        self.empty = opens[:, :, 0]
        depth = self.depth + self.empty.long() - self.closes[tokens].long()
        self.depth = depth.clamp(0, _DEEPEST)  # a hypothesis that could not continue may contain any symbol
        left, depth = self.left[:, :, None], self.depth[:, :, None]
        innermost = self.owed.gather(2, (depth - 1).clamp(min=0))
        allowed = (
            (left > 0) & (self.tags | (self.closing > 0) & (depth < _DEEPEST))
            | (depth > 0) & ~self.empty[:, :, None] & (self.ids == innermost)
            | (left == 0) & (depth == 0) & (self.ids == EOS)
        )
        return self.decoder.step(tokens).masked_fill(~allowed, -torch.inf)

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        self.decoder.select(sentences, parents)
        kept = tuple(torch.from_numpy(x).to(self.left.device) for x in (sentences[:, None], parents))
        states = (self.left, self.depth, self.empty, self.owed)
        self.left, self.depth, self.empty, self.owed = (state[kept] for state in states)
