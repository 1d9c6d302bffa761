"""§5.1: batches of about 25,000 source and 25,000 target tokens in sentences of similar length.

The batches depend only on the training data, the seed and the epoch, not on the machine.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from transformer.config.experiment import PAD, POSITIONS
from transformer.data.corpus import TokenArray
from transformer.layout import SIDES, Data
from transformer.model import packed


def plan_batches(
    seed: int, epoch: int, lengths: np.ndarray, budgets: tuple[int, int], longest: int = POSITIONS
) -> list[np.ndarray]:
    """Return the batches of one epoch in the order of training: arrays of indices. Each pair that fits is in one.

    lengths: [2, sentences] with EOS. budgets: maximum source and target tokens of a batch. longest: maximum tokens of a
    sentence.
    """
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(np.flatnonzero(fits(lengths, budgets, longest)))
    # Sorted by source length, then by target length. Pairs of equal lengths have a new order in each epoch.
    order = shuffled[np.lexsort(lengths[::-1, shuffled])]
    ends = np.cumsum(lengths[:, order], axis=1)
    batches, start = [], 0
    while start < len(order):
        before = ends[:, start] - lengths[:, order[start]]
        stop = min(np.searchsorted(side, limit, "right") for side, limit in zip(ends, before + budgets, strict=True))
        batches.append(order[start:stop])
        start = stop
    return [batches[index] for index in random.permutation(len(batches))]


def fits(lengths: np.ndarray, budgets: tuple[int, int], longest: int = POSITIONS) -> np.ndarray:
    """Return for each pair whether both sides fit the maximum length and a batch's token budgets: [sentences]."""
    return (lengths <= np.minimum(budgets, longest)[:, None]).all(axis=0)


@dataclass(frozen=True)
class Batch:
    """A batch. target: decoder input, shifted right so that it begins with PAD. labels: [n_target] true next tokens."""

    source: packed.Packed
    target: packed.Packed
    labels: torch.Tensor


@dataclass(frozen=True)
class ParallelText:
    """Both sides of an encoded corpus."""

    source: TokenArray
    target: TokenArray

    @cached_property
    def lengths(self) -> np.ndarray:
        """Source and target tokens of each sentence: [2, sentences]."""
        return np.stack([self.source.lengths, self.target.lengths])

    def batch(
        self, indices: np.ndarray, device: torch.device, capacity: tuple[int, int] | None = None, multiple: int = 1
    ) -> Batch:
        """Return the pairs at `indices` on `device` for padded attention. PAD extends the tokens to a `multiple`.

        With `capacity`, return a batch for attention in blocks. Sentences of PAD, which the loss ignores, pad both
        sides to `padded_sizes`, so that compiled code always gets the same shapes.
        """
        source, source_lengths = self.source.gather(indices)
        labels, target_lengths = self.target.gather(indices)
        target = np.roll(labels, 1)
        target[np.cumsum(target_lengths) - target_lengths] = PAD
        lengths = np.stack([source_lengths, target_lengths])
        if capacity is None:
            sides = (packed.collate(ids, lengths[side], device, multiple) for side, ids in enumerate((source, target)))
            return Batch(*sides, packed.to_device(packed.extended(labels, multiple), device))
        counts = lengths.sum(axis=1).tolist()
        lengths = np.concatenate([lengths, packed.padding_lengths(lengths, capacity)], axis=1)
        sizes = lengths.sum(axis=1)[[0, 1, 1]]
        source, target, labels = (
            np.pad(ids, (0, size - len(ids)), constant_values=PAD)
            for ids, size in zip((source, target, labels), sizes, strict=True)
        )
        memory = packed.blocks_of(lengths[1], lengths[0], False, device)
        return Batch(
            packed.collate_blocks(source, lengths[0], device, causal=False, count=counts[0]),
            packed.collate_blocks(target, lengths[1], device, causal=True, memory=memory, count=counts[1]),
            packed.to_device(labels, device),
        )


def open_text(data: Data, split: str) -> ParallelText:
    return ParallelText(*(TokenArray.open(data.ids(split, side), data.offsets(split, side)) for side in SIDES))
