"""§6.3 English constituency parsing: words to trees, with the model and the search of translation.

The paper's search may output any symbols; `trees.decode` repairs them. A constrained search only outputs trees, except
if it reaches its maximum length.
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
SENTENCES_AT_ONCE = 10_000  # sentences in memory; sentences of similar length are parsed together
_DEEPEST = 100  # maximum number of open brackets in a constrained search; treebanks have about thirty


class Parse(NamedTuple):
    tree: Tree  # a tree over exactly the given words
    fault: str | None  # the repaired fault
    score: float | None  # log-probability divided by length penalty; None for a sentence that is too long


@dataclass(frozen=True)
class Parser:
    """A trained parser: a model, its vocabulary and its search."""

    model: Seq2Seq
    vocabulary: Subwords
    decoding: Decoding
    constrained: bool = False

    def parse(self, sentences: list[list[str]]) -> list[Parse]:
        """Parse non-empty sentences. A sentence that is too long gets a flat tree."""
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
        """Yield a parse for each sentence, or None for a sentence without words, in constant memory."""
        for chunk in groups(sentences, SENTENCES_AT_ONCE, lambda words: sum(map(len, words))):
            parses = iter(self.parse([words for words in chunk if words]))
            yield from (next(parses) if words else None for words in chunk)


def open_parser(run: Path, weights: Path | None, changes: dict[str, Any], constrained: bool) -> Parser:
    """Load the parser of a run. `changes` replace settings of its decoding. Raises InputError on a translation run."""
    _, model, vocabulary, decoding = opened(run, weights, changes, parses=True)
    return Parser(model, vocabulary, decoding, constrained)


def penn_words(line: str) -> list[str]:
    """Split plain text into words like the Penn Treebank, with NLTK's tokeniser. Round brackets stay unchanged."""
    from nltk.tokenize import TreebankWordTokenizer  # local, because it takes a second to load

    return TreebankWordTokenizer().tokenize(line)


class TreeDecoder:
    """A wrapper of a `seq2seq.Decoder` that allows only beginnings of trees over the sentence's words.

    A tag consumes the next word. A closing bracket closes the innermost constituent, which must not be empty. EOS
    follows when all brackets are closed and no word is left.

    words: [B] number of words of each sentence. symbols: the vocabulary's symbols and their ids.
    """

    def __init__(self, decoder: Decoder, words: Tensor, symbols: dict[str, int]):
        self.decoder = decoder
        # The effect of each id on a tree: [V]. PAD, EOS and UNK have no effect.
        self.ids = torch.arange(max(symbols.values()) + 1, device=words.device)
        self.closing = torch.zeros_like(self.ids)  # the closing bracket of each opening bracket, else 0
        self.closes, self.tags = torch.zeros(2, len(self.ids), dtype=torch.bool, device=words.device)
        for symbol, token in symbols.items():
            if symbol.startswith("("):
                self.closing[token] = symbols[f"){symbol[1:]}"]
            else:
                (self.closes if symbol.startswith(")") else self.tags)[token] = True
        self.left = words[:, None]  # number of words without a tag: [B, K], like depth and empty
        self.depth = torch.zeros_like(self.left)
        self.empty = torch.zeros_like(self.left, dtype=torch.bool)  # whether the innermost constituent is empty
        self.pending = torch.zeros(len(words), 1, _DEEPEST, dtype=torch.long, device=words.device)  # closing brackets

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K]. Return log-probabilities [B, K, V], -inf for symbols that would break the tree."""
        closing = self.closing[tokens][:, :, None]
        opens = closing > 0
        top = self.depth.clamp(max=_DEEPEST - 1)[:, :, None]
        self.pending = self.pending.scatter(2, top, torch.where(opens, closing, self.pending.gather(2, top)))
        self.left = self.left - self.tags[tokens].long()
        self.empty = opens[:, :, 0]
        depth = self.depth + self.empty.long() - self.closes[tokens].long()
        self.depth = depth.clamp(0, _DEEPEST)  # a dead hypothesis may contain any symbol
        left, depth = self.left[:, :, None], self.depth[:, :, None]
        innermost = self.pending.gather(2, (depth - 1).clamp(min=0))
        allowed = (
            (left > 0) & (self.tags | (self.closing > 0) & (depth < _DEEPEST))
            | (depth > 0) & ~self.empty[:, :, None] & (self.ids == innermost)
            | (left == 0) & (depth == 0) & (self.ids == EOS)
        )
        return self.decoder.step(tokens).masked_fill(~allowed, -torch.inf)

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        self.decoder.select(sentences, parents)
        selected = tuple(torch.from_numpy(x).to(self.left.device) for x in (sentences[:, None], parents))
        states = (self.left, self.depth, self.empty, self.pending)
        self.left, self.depth, self.empty, self.pending = (state[selected] for state in states)
