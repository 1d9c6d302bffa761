"""§5.1: batches of about 25,000 source and 25,000 target tokens, of sentences of about one length.

The plan is a contract: given the seed and the epoch it is one list of batches, whatever the machine.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from transformer.config import PAD
from transformer.corpus import TokenArray
from transformer.files import InputError
from transformer.model import POSITIONS, Packed

FILLER = 128  # tokens: about what a sentence has that fills up a batch; batches' sizes are multiples of it
LONGEST = (128, 512, POSITIONS)  # what no sentence of a batch is longer than; flash attention works on 128 at once


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

    def batch(
        self, indices: np.ndarray, device: torch.device, room: tuple[int, int] | None = None, grain: int = 1
    ) -> Batch:
        """The sentences at `indices`, on `device`, for padded attention. PAD makes the tokens a multiple of `grain`.

        With `room`, for flash attention: sentences of PAD fill both sides up to `sizes`, so that compiled code always
        meets the same shapes. Their labels are PAD, which no loss counts.
        """
        source, source_lengths = self.source.gather(indices)
        labels, target_lengths = self.target.gather(indices)
        target = np.roll(labels, 1)
        target[np.cumsum(target_lengths) - target_lengths] = PAD
        if room is None:
            sides = (lay(source, source_lengths, device, grain), lay(target, target_lengths, device, grain))
            return Batch(*sides, put(extended(labels, grain), device))
        lengths = np.stack([source_lengths, target_lengths])
        fillers = fill(lengths, room)
        more = [np.full(n, PAD) for n in fillers.sum(axis=1)]
        return Batch(
            lay_flat(np.concatenate([source, more[0]]), np.concatenate([source_lengths, fillers[0]]), device),
            lay_flat(np.concatenate([target, more[1]]), np.concatenate([target_lengths, fillers[1]]), device),
            put(np.concatenate([labels, more[1]]), device),
        )


def pack(sentences: list[np.ndarray], device: torch.device) -> Packed:
    """Lay sentences of token ids end to end (see `Packed`), for padded attention."""
    lengths = np.array([len(sentence) for sentence in sentences])
    return lay(np.concatenate(sentences).astype(np.int64), lengths, device)


def lay(ids: np.ndarray, lengths: np.ndarray, device: torch.device, grain: int = 1) -> Packed:
    """For padded attention: ids [n] of sentences end to end, and the lengths [B] of these."""
    B, L = shape = (len(lengths), int(lengths.max()))
    positions = places(lengths)
    sides = [put(extended(side, grain), device) for side in (ids, positions)]
    full = len(ids) == B * L
    if full and len(ids) % grain == 0:
        return Packed(*sides, shape)
    slots = put(np.repeat(np.arange(B) * L, lengths) + positions, device)
    if full:
        return Packed(*sides, shape, slots)
    padding = np.where(np.arange(L) < lengths[:, None], np.float32(0), np.float32(-np.inf))
    return Packed(*sides, shape, slots, put(padding[:, None, None, :], device))


def extended(tokens: np.ndarray, grain: int) -> np.ndarray:
    """With zeros, which are PAD and first places, up to a multiple of `grain`."""
    return np.pad(tokens, (0, -len(tokens) % grain))


def lay_flat(ids: np.ndarray, lengths: np.ndarray, device: torch.device) -> Packed:
    """The same for flash attention. L is one of a few values: for each, code is compiled anew."""
    L = next(bound for bound in LONGEST if bound >= lengths.max())
    offsets = put(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), device)
    return Packed(put(ids, device), put(places(lengths), device), (len(lengths), L), offsets=offsets)


def fill(lengths: np.ndarray, room: tuple[int, int]) -> np.ndarray:
    """Lengths [2, sentences] of what fills up a batch of these lengths [2, pairs]; none is 0."""
    rest = sizes(lengths, room) - lengths.sum(axis=1)
    E = min(math.ceil(rest.max() / FILLER), rest.min())
    return rest[:, None] // E + (np.arange(E) < rest[:, None] % E)


def sizes(lengths: np.ndarray, room: tuple[int, int]) -> np.ndarray:
    """[2] the tokens of each side when filled up: its room, or what it has, and FILLER more; a multiple of FILLER."""
    return (np.maximum(lengths.sum(axis=1), room) // FILLER + 2) * FILLER


def places(lengths: np.ndarray) -> np.ndarray:
    """Of each token of sentences end to end, its place in its sentence."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def put(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """On `device`, without waiting for what a GPU still has to do."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
