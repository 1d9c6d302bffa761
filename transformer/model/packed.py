"""Sentences laid end to end, without padding between them: the model's input (§5.1).

Only attention knows where sentences begin: by a padded grid, or by each token's sentence and tables of blocks of BLOCK
tokens. FlexAttention takes no products of two blocks that share no sentence, as most do not.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BLOCK = 64  # tokens; with 128, seven in eight products would be of two sentences, with 64 three in four are
_MULTIPLE = 128  # a padded side's tokens are a multiple of it; also the length, roughly, of a sentence of padding
_SPARE = 64  # the least padding of each side, in as many sentences on both


@dataclass(frozen=True)
class Blocks:
    """For each of M blocks of queries the blocks of keys, of N, that it may see; and the reverse, for the gradient."""

    key_counts: Tensor  # [1, 1, M]: as many of a row of `keys` count
    keys: Tensor  # [1, 1, M, N]
    query_counts: Tensor  # [1, 1, N]
    queries: Tensor  # [1, 1, N, M]


@dataclass(frozen=True)
class Packed:
    """Sentences laid end to end. Attention works on a padded grid [B, L], or, if `sentences` is given, on blocks."""

    ids: Tensor  # [n] token ids
    positions: Tensor  # [n] place of each token in its sentence
    shape: tuple[int, int]  # (B, L)
    slots: Tensor | None = None  # [n] place of each token in the grid, row by row; None if they fill it in order
    mask: Tensor | None = None  # [B, 1, 1, L], 0 on tokens, -inf on padding (§3.2.3); None without padding
    sentences: Tensor | None = None  # [n] int32, the number of each token's sentence
    own: Blocks | None = None  # of attention to the stream itself
    memory: Blocks | None = None  # of a target's attention to the source
    count: int | None = None  # of the tokens before all padding; None if all n are tokens

    def to_grid(self, x: Tensor) -> Tensor:
        """Move x [n, d] to the padded grid: [B, L, d], zero on padding."""
        B, L = self.shape
        return (x if self.slots is None else _Moved.apply(x, self.slots, B * L, True)).view(B, L, -1)

    def from_grid(self, grid: Tensor) -> Tensor:
        """Move a padded grid [B, L, d] back to the tokens: [n, d]."""
        x = grid.flatten(0, 1)
        return x if self.slots is None else _Moved.apply(x, self.slots, len(self.ids), False)


def pack(sentences: list[np.ndarray], device: torch.device) -> Packed:
    """Lay sentences of token ids end to end, for padded attention."""
    lengths = np.array([len(sentence) for sentence in sentences])
    return collate(np.concatenate(sentences).astype(np.int64), lengths, device)


def collate(ids: np.ndarray, lengths: np.ndarray, device: torch.device, multiple: int = 1) -> Packed:
    """Lay sentences out for padded attention: ids [n], lengths [B]. PAD extends the tokens to a `multiple`."""
    B, L = shape = (len(lengths), int(lengths.max()))
    positions = _places(lengths)
    sides = [to_device(extended(side, multiple), device) for side in (ids, positions)]
    slots = mask = None
    if len(ids) < B * L or len(ids) % multiple:
        slots = to_device(np.repeat(np.arange(B) * L, lengths) + positions, device)
    if len(ids) < B * L:
        padding = np.where(np.arange(L) < lengths[:, None], np.float32(0), np.float32(-np.inf))
        mask = to_device(padding[:, None, None, :], device)
    return Packed(*sides, shape, slots, mask, count=len(ids))


def extended(tokens: np.ndarray, multiple: int) -> np.ndarray:
    """Append zeros, which are PAD and first places, up to a `multiple`."""
    return np.pad(tokens, (0, -len(tokens) % multiple))


def collate_blocks(
    ids: np.ndarray,
    lengths: np.ndarray,
    device: torch.device,
    causal: bool,
    memory: Blocks | None = None,
    count: int | None = None,
) -> Packed:
    """Lay sentences out for attention in blocks; ids and lengths make whole blocks.

    causal: a token attends only to those before it. memory: a target's blocks of attention to the source.
    count: the number of tokens, if sentences of padding follow them.
    """
    sentences = to_device(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), device)
    shape, own = (len(lengths), int(lengths.max())), blocks_of(lengths, lengths, causal, device)
    positions = to_device(_places(lengths), device)
    return Packed(to_device(ids, device), positions, shape, sentences=sentences, own=own, memory=memory, count=count)


def padding_lengths(lengths: np.ndarray, capacity: tuple[int, int]) -> np.ndarray:
    """Return the lengths [2, sentences] of the padding of a batch of these lengths [2, pairs]; none is 0."""
    rest = padded_sizes(lengths, capacity) - lengths.sum(axis=1)
    E = min(math.ceil(rest.max() / _MULTIPLE), rest.min())
    return rest[:, None] // E + (np.arange(E) < rest[:, None] % E)


def padded_sizes(lengths: np.ndarray, capacity: tuple[int, int]) -> np.ndarray:
    """Return [2] the tokens of each padded side: its capacity, or what it has, and _SPARE more; a _MULTIPLE."""
    return -(-(np.maximum(lengths.sum(axis=1), capacity) + _SPARE) // _MULTIPLE) * _MULTIPLE


def _places(lengths: np.ndarray) -> np.ndarray:
    """Return each token's place in its sentence: [n]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy to `device`, asynchronously to a GPU."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def blocks_of(queries: np.ndarray, keys: np.ndarray, causal: bool, device: torch.device) -> Blocks:
    """Return the blocks of attention between sentences of these lengths [B], each side whole blocks."""
    tables = []
    for side, (lengths, others) in enumerate([(queries, keys), (keys, queries)]):
        sentences, ends = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(others)
        # A block sees the other side's blocks from `first` to `last`, with which it shares a sentence.
        first = (ends - others)[sentences[::BLOCK]] // BLOCK
        last = (ends[sentences[BLOCK - 1 :: BLOCK]] - 1) // BLOCK
        if causal and side == 0:
            last = np.arange(len(last))
        elif causal:
            first = np.arange(len(first))
        width = ends[-1] // BLOCK
        numbers = np.minimum(first[:, None] + np.arange(width), width - 1)
        tables += [to_device(x.astype(np.int32)[None, None], device) for x in (last - first + 1, numbers)]
    return Blocks(*tables)


class _Moved(torch.autograd.Function):
    """Rows moved from a packed stream [n, d] to a padded grid, or back; rows that nothing is moved to are zero.

    slots: the grid's places of the stream's first rows; the others are padding. Autograd's own backward would add.
    """

    @staticmethod
    def forward(ctx, x: Tensor, slots: Tensor, size: int, to_grid: bool) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.back = len(x), not to_grid
        return _move(x, slots, size, to_grid)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _move(gradient, *ctx.saved_tensors, *ctx.back), None, None, None


def _move(x: Tensor, slots: Tensor, size: int, to_grid: bool) -> Tensor:
    if size == len(slots) and not to_grid:
        return x.index_select(0, slots)
    out = x.new_zeros(size, x.shape[1])
    if to_grid:
        return out.index_copy_(0, slots, x[: len(slots)])
    torch.index_select(x, 0, slots, out=out[: len(slots)])
    return out
