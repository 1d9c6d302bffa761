"""§5.1: batches of about 25,000 source and 25,000 target tokens, of sentences of about one length.

The plan is a contract: given the seed and the epoch it is one list of batches, whatever the machine.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from transformer.config.experiment import PAD, Training
from transformer.data.corpus import TokenArray
from transformer.files import InputError
from transformer.model.packed import POSITIONS, Packed, blocks, extended, fill, lay, lay_flat, put


def batch_budgets(training: Training) -> tuple[int, int]:
    """Return the most tokens that a batch may have on the source and on the target side."""
    return training.source_tokens, training.target_tokens


def plan(seed: int, epoch: int, lengths: np.ndarray, budgets: tuple[int, int]) -> list[np.ndarray]:
    """Return the batches of one epoch in the order of training: arrays of indices, each pair that fits exactly once.

    lengths: [2, sentences], tokens on the source and on the target side, EOS included. budgets: see `batch_budgets`.
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
    """Return for each pair whether the model has positions, and a batch has room, for both its sides: [sentences]."""
    return (lengths <= np.minimum(budgets, POSITIONS)[:, None]).all(axis=0)


@dataclass(frozen=True)
class Batch:
    """A batch. target: shifted right to begin with PAD. labels: [n_target] the tokens to predict, EOS last."""

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
        """Tokens of each sentence, source and target: [2, sentences]."""
        return np.stack([self.source.lengths, self.target.lengths])

    def batch(
        self, indices: np.ndarray, device: torch.device, room: tuple[int, int] | None = None, grain: int = 1
    ) -> Batch:
        """Return the pairs at `indices`, on `device`, for padded attention. PAD makes the tokens a multiple of `grain`.

        With `room`, for attention in blocks: sentences of PAD fill both sides up to `packed.sizes`, so that compiled
        code always meets the same shapes. Their labels are PAD, which no loss counts.
        """
        source, source_lengths = self.source.gather(indices)
        labels, target_lengths = self.target.gather(indices)
        target = np.roll(labels, 1)
        target[np.cumsum(target_lengths) - target_lengths] = PAD
        if room is None:
            sides = (lay(source, source_lengths, device, grain), lay(target, target_lengths, device, grain))
            return Batch(*sides, put(extended(labels, grain), device))
        lengths = np.stack([source_lengths, target_lengths])
        lengths = np.concatenate([lengths, fill(lengths, room)], axis=1)
        n_source, n_target = lengths.sum(axis=1)
        source, target, labels = (
            np.pad(ids, (0, n - len(ids)), constant_values=PAD)
            for ids, n in ((source, n_source), (target, n_target), (labels, n_target))
        )
        memory = blocks(lengths[1], lengths[0], False, device)
        source = lay_flat(source, lengths[0], device, causal=False)
        return Batch(source, lay_flat(target, lengths[1], device, causal=True, memory=memory), put(labels, device))
