"""§6.3 English constituency parsing: words to trees, by the same model and search that translate."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from nltk.tokenize import TreebankWordTokenizer

from transformer.config.experiment import Decoding
from transformer.data.subwords import SPECIAL, Subwords
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.parsing.constraint import TreeDecoder
from transformer.parsing.linearization import decode
from transformer.parsing.trees import Tree
from transformer.translation.search import Decoder
from transformer.translation.translator import search

TOO_LONG = "more subwords than the model has positions for"


class Parse(NamedTuple):
    """A tree over exactly the words that were given, what had to be repaired in it, and how sure the parser is of it.

    score: log-probability over length penalty (search.py); None where the sentence was too long to be read.
    """

    tree: Tree
    fault: str | None
    score: float | None


@dataclass(frozen=True)
class Parser:
    """A trained model with all that stands between it and sentences."""

    model: Transformer
    vocabulary: Subwords
    decoding: Decoding
    constrained: bool = False  # the search writes trees only, which the paper's did not

    def parse(self, sentences: list[list[str]]) -> list[Parse]:
        """One parse per sentence, in order; none of them may be empty. One too long to be read gets a flat tree."""
        ids = self.vocabulary.encode([" ".join(words) for words in sentences])
        short = [index for index, sentence in enumerate(ids) if len(sentence) <= POSITIONS]
        symbols = SPECIAL + len(self.vocabulary.symbols)
        read = [ids[index] for index in short]
        words = torch.tensor([len(sentences[index]) for index in short])
        found = search(self.model, symbols, read, self.decoding, partial(self.steer, words))
        parses = [Parse(decode([], words)[0], TOO_LONG, None) for words in sentences]
        for index, (output, score) in zip(short, found, strict=True):
            parses[index] = Parse(*decode(self.vocabulary.decode_symbols(output), sentences[index]), score)
        return parses

    def steer(self, words: torch.Tensor, decoder: Decoder, batch: list[int]) -> Decoder:
        """The decoder for the sentences `batch`, which have so many words; one that writes trees only, if wanted."""
        if not self.constrained:
            return decoder
        return TreeDecoder(decoder, words[batch].to(self.model.embedding.weight.device), self.vocabulary.symbols)


def penn_words(line: str) -> list[str]:
    """A sentence of plain text as the words of the Penn Treebank, by NLTK's tokeniser, with round brackets as such."""
    return TreebankWordTokenizer().tokenize(line)
