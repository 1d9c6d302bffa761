"""§6.3 English constituency parsing: words to trees, by the same model and search that translate."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

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
    """A tree over exactly the given words, what had to be repaired in it, and its score.

    score: log-probability over length penalty (translation/search.py); None where the sentence was too long to be read.
    """

    tree: Tree
    fault: str | None
    score: float | None


@dataclass(frozen=True)
class Parser:
    """A trained parser: the model with its vocabulary and its search."""

    model: Transformer
    vocabulary: Subwords
    decoding: Decoding
    constrained: bool = False  # whether the search can write nothing but trees, unlike the paper's

    def parse(self, sentences: list[list[str]]) -> list[Parse]:
        """Return a parse for each sentence, in order; none may be empty. One too long to be read gets a flat tree."""
        ids = self.vocabulary.encode([" ".join(words) for words in sentences])
        short = [index for index, sentence in enumerate(ids) if len(sentence) <= POSITIONS]
        symbols = SPECIAL + len(self.vocabulary.symbols)
        sources = [ids[index] for index in short]
        lengths = torch.tensor([len(sentences[index]) for index in short])
        outputs = search(self.model, symbols, sources, self.decoding, partial(self.steer, lengths))
        parses = [Parse(decode([], words)[0], TOO_LONG, None) for words in sentences]
        for index, (output, score) in zip(short, outputs, strict=True):
            parses[index] = Parse(*decode(self.vocabulary.decode_symbols(output), sentences[index]), score)
        return parses

    def steer(self, lengths: torch.Tensor, decoder: Decoder, batch: list[int]) -> Decoder:
        """Return the decoder for the sentences `batch`, which have `lengths` words; if constrained, one for trees."""
        if not self.constrained:
            return decoder
        return TreeDecoder(decoder, lengths[batch].to(self.model.embedding.weight.device), self.vocabulary.symbols)


def penn_words(line: str) -> list[str]:
    """Split plain text into the words of the Penn Treebank, by NLTK's tokeniser; round brackets stay what they are."""
    from nltk.tokenize import TreebankWordTokenizer  # takes a second, which tokenised text need not wait for

    return TreebankWordTokenizer().tokenize(line)
