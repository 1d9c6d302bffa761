"""§5.1: batches of about 25,000 source and 25,000 target tokens, of sentences of about one length.

The plan is a contract: given the seed and the epoch it is one list of batches, whatever the machine.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from transformer.config import PAD
from transformer.corpus import TokenArray
from transformer.files import InputError
from transformer.model import POSITIONS, Packed


def plan(seed: int, epoch: int, lengths: np.ndarray, budgets: tuple[int, int]) -> list[np.ndarray]:
    """The batches of one epoch, in the order of training: arrays of sentence indices, each pair that fits exactly once.

    lengths: [2, sentences], tokens on the source and on the target side, EOS included. budgets: the most tokens that a
    batch may have on either side.
    """
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(np.flatnonzero(fits(lengths, budgets)))
    # By source, then target length; which of the equals stand together is new in each epoch.
    order = shuffled[np.lexsort(lengths[::-1, shuffled])]
    ends = np.cumsum(lengths[:, order], axis=1)
    batches, start = [], 0
    while start < len(order):
        before = ends[:, start] - lengths[:, order[start]]
        stop = min(
            np.searchsorted(side, spent + budget, "right")
            for side, spent, budget in zip(ends, before, budgets, strict=True)
        )
        batches.append(order[start:stop])
        start = stop
    return [batches[index] for index in random.permutation(len(batches))]


def fits(lengths: np.ndarray, budgets: tuple[int, int]) -> np.ndarray:
    """[sentences] whether the model has positions for both sides of a pair, and a batch has room for it."""
    return (lengths <= np.minimum(budgets, POSITIONS)[:, None]).all(axis=0)


@dataclass(frozen=True)
class Batch:
    """source, and target shifted right to begin with PAD; labels: [n_target] the tokens to predict, EOS last."""

    source: Packed
    target: Packed
    labels: torch.Tensor


@dataclass(frozen=True)
class ParallelText:
    """Both sides of an encoded corpus."""

    source: TokenArray
    target: TokenArray

    def __post_init__(self):
        if len(self.source) != len(self.target):
            raise InputError(f"source has {len(self.source)} sentences, target has {len(self.target)}")

    @cached_property
    def lengths(self) -> np.ndarray:
        """[2, sentences]."""
        return np.stack([self.source.lengths, self.target.lengths])

    def batch(self, indices: np.ndarray, device: torch.device) -> Batch:
        """The sentences at `indices`, on `device`."""
        labels = [self.target[index] for index in indices]
        shifted = [np.concatenate([[PAD], sentence[:-1]]) for sentence in labels]
        return Batch(
            pack([self.source[index] for index in indices], device),
            pack(shifted, device),
            torch.from_numpy(np.concatenate(labels).astype(np.int64)).to(device),
        )


def pack(sentences: list[np.ndarray], device: torch.device) -> Packed:
    """Lay sentences of token ids end to end (see `Packed`)."""
    lengths = np.array([len(sentence) for sentence in sentences])
    B, L = len(sentences), int(lengths.max())
    grid = np.arange(L)[None, :].repeat(B, axis=0)
    real = grid < lengths[:, None]
    mask = None if real.all() else torch.from_numpy(np.where(real, 0.0, -np.inf).astype(np.float32))[:, None, None, :]
    return Packed(
        ids=torch.from_numpy(np.concatenate(sentences).astype(np.int64)).to(device),
        positions=torch.from_numpy(grid[real]).to(device),
        slots=torch.from_numpy(np.flatnonzero(real)).to(device),
        shape=(B, L),
        mask=None if mask is None else mask.to(device),
    )
