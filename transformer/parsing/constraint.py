"""A search that writes only trees: it gives symbols that would break the tree a probability of zero.

The paper's parser has no such constraint. A tag takes the next word; a closing bracket closes the innermost
constituent, which must hold something; EOS may follow when all is closed and no word is left. Only the search's limit
on the length can cut a tree short.
"""

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import EOS
from transformer.translation.search import Decoder

DEEPEST = 100  # brackets open at once; treebanks have about thirty


class TreeDecoder:
    """A `search.Decoder` around another, whose hypotheses stay beginnings of trees over their sentences' words.

    words: [B], how many words each sentence has. symbols: the vocabulary's symbols, with their ids.
    """

    def __init__(self, decoder: Decoder, words: Tensor, symbols: dict[str, int]):
        self.decoder = decoder
        self.kinds = Kinds(symbols, words.device)
        self.left = words[:, None]  # words without a tag yet: [B, K], like depth and empty
        self.depth = torch.zeros_like(self.left)
        self.empty = torch.zeros_like(self.left, dtype=torch.bool)  # the innermost constituent holds nothing
        self.owed = torch.zeros(len(words), 1, DEEPEST, dtype=torch.long, device=words.device)  # closing brackets

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K]. Returns log-probabilities [B, K, V], -inf for symbols that would break the tree."""
        self.follow(tokens)
        return self.decoder.step(tokens).masked_fill(~self.allowed(), -torch.inf)

    def follow(self, tokens: Tensor) -> None:
        """Update the state of each hypothesis with its next symbol."""
        closing = self.kinds.closing[tokens]
        opens = closing > 0
        place = self.depth.clamp(max=DEEPEST - 1)[:, :, None]
        self.owed = self.owed.scatter(
            2, place, torch.where(opens[:, :, None], closing[:, :, None], self.owed.gather(2, place))
        )
        self.left = self.left - self.kinds.tags[tokens].long()
        depth = self.depth + opens.long() - self.kinds.closes[tokens].long()
        self.depth = depth.clamp(0, DEEPEST)  # a hypothesis that could not continue may contain any symbol
        self.empty = opens

    def allowed(self) -> Tensor:
        """Return which symbols may follow: [B, K, V]."""
        kinds, left, depth = self.kinds, self.left[:, :, None], self.depth[:, :, None]
        innermost = self.owed.gather(2, (depth - 1).clamp(min=0))
        return (
            (left > 0) & (kinds.tags | (kinds.closing > 0) & (depth < DEEPEST))
            | (depth > 0) & ~self.empty[:, :, None] & (kinds.ids == innermost)
            | (left == 0) & (depth == 0) & (kinds.ids == EOS)
        )

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        """Keep these sentences and hypotheses: [b] and [b, K]."""
        self.decoder.select(sentences, parents)
        kept = tuple(torch.from_numpy(x).to(self.left.device) for x in (sentences[:, None], parents))
        states = (self.left, self.depth, self.empty, self.owed)
        self.left, self.depth, self.empty, self.owed = (state[kept] for state in states)


class Kinds:
    """The effect of each id of a parser's vocabulary on a tree: tensors [V]. PAD, EOS and UNK have none."""

    def __init__(self, symbols: dict[str, int], device: torch.device):
        size = max(symbols.values()) + 1
        self.ids = torch.arange(size, device=device)
        self.closing = torch.zeros(size, dtype=torch.long, device=device)  # the closing bracket of an opening one, or 0
        self.closes = torch.zeros(size, dtype=torch.bool, device=device)
        self.tags = torch.zeros(size, dtype=torch.bool, device=device)
        for symbol, token in symbols.items():
            if symbol.startswith("("):
                self.closing[token] = symbols[f"){symbol[1:]}"]
            elif symbol.startswith(")"):
                self.closes[token] = True
            else:
                self.tags[token] = True
