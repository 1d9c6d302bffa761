"""A search that writes trees and nothing else: what would break the tree cannot follow.

Not in the paper, whose parser may write anything. A tag takes the next word; a closing bracket closes the innermost
constituent, which must hold something; the end comes when all is closed and no word is left. Only the search's limit on
the length can break a tree off.
"""

import torch
from torch import Tensor

from transformer.config.experiment import EOS
from transformer.translation.search import Decoder

DEEPEST = 100  # brackets open at once; treebanks have some thirty


class TreeDecoder:
    """A `search.Decoder` over another, whose hypotheses stay beginnings of trees over their sentences' words.

    words: [B], how many words each sentence has. symbols: those of the vocabulary, with their ids.
    """

    def __init__(self, decoder: Decoder, words: Tensor, symbols: dict[str, int]):
        self.decoder = decoder
        self.kinds = Kinds(symbols, words.device)
        self.left = words[:, None]  # words without a tag: [B, K], as depth and empty
        self.depth = torch.zeros_like(self.left)
        self.empty = torch.zeros_like(self.left, dtype=torch.bool)  # the innermost constituent holds nothing
        self.owed = torch.zeros(len(words), 1, DEEPEST, dtype=torch.long, device=words.device)  # closing brackets

    def step(self, tokens: Tensor) -> Tensor:
        """tokens: [B, K]. Returns log-probabilities [B, K, V], -inf for what would break the tree."""
        self.follow(tokens)
        return self.decoder.step(tokens).masked_fill(~self.allowed(), -torch.inf)

    def follow(self, tokens: Tensor) -> None:
        """What each hypothesis is like after one symbol more."""
        closing = self.kinds.closing[tokens]
        opens = closing > 0
        place = self.depth.clamp(max=DEEPEST - 1)[:, :, None]
        self.owed = self.owed.scatter(
            2, place, torch.where(opens[:, :, None], closing[:, :, None], self.owed.gather(2, place))
        )
        self.left = self.left - self.kinds.tags[tokens].long()
        depth = self.depth + opens.long() - self.kinds.closes[tokens].long()
        self.depth = depth.clamp(0, DEEPEST)  # a hypothesis that is dead, as all its continuations were, says anything
        self.empty = opens

    def allowed(self) -> Tensor:
        """What may follow: [B, K, V]."""
        kinds, left, depth = self.kinds, self.left[:, :, None], self.depth[:, :, None]
        innermost = self.owed.gather(2, (depth - 1).clamp(min=0))
        return (
            (left > 0) & (kinds.tags | (kinds.closing > 0) & (depth < DEEPEST))
            | (depth > 0) & ~self.empty[:, :, None] & (kinds.ids == innermost)
            | (left == 0) & (depth == 0) & (kinds.ids == EOS)
        )

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep these sentences and hypotheses: [b] and [b, K]."""
        self.decoder.select(sentences, parents)
        states = (self.left, self.depth, self.empty)
        self.left, self.depth, self.empty = (state[sentences].gather(1, parents) for state in states)
        self.owed = self.owed[sentences].gather(1, parents[:, :, None].expand(-1, -1, DEEPEST))


class Kinds:
    """What each id of a parser's vocabulary does to a tree: tensors [V]. PAD, EOS and UNK do nothing."""

    def __init__(self, symbols: dict[str, int], device: torch.device):
        size = max(symbols.values()) + 1
        self.ids = torch.arange(size, device=device)
        self.closing = torch.zeros(size, dtype=torch.long, device=device)  # of an opening bracket the closing one, or 0
        self.closes = torch.zeros(size, dtype=torch.bool, device=device)
        self.tags = torch.zeros(size, dtype=torch.bool, device=device)
        for symbol, number in symbols.items():
            if symbol.startswith("("):
                self.closing[number] = symbols[f"){symbol[1:]}"]
            elif symbol.startswith(")"):
                self.closes[number] = True
            else:
                self.tags[number] = True
