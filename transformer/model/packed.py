"""Sentences packed end to end without padding between them: the model's input (§5.1).

Only attention separates sentences, in one of two ways: by a padded grid, or by the sentence number of each token and
tables of blocks. A block has BLOCK tokens. FlexAttention skips the products of two blocks without a common sentence.
Most pairs of blocks have none.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BLOCK = 64  # tokens. 3 of 4 products belong to two different sentences; with 128 tokens it would be 7 of 8
_MULTIPLE = 128  # a padded side's token count is a multiple of this; a padding sentence has up to about this length
_SPARE = 64  # minimum padding tokens per side, because both sides need an equal number of padding sentences


@dataclass(frozen=True)
class Blocks:
    """Tables of the key blocks that each query block sees, and for the gradient the reverse.

    There are M query blocks and N key blocks.
    """

    key_counts: Tensor  # [1, 1, M] number of valid entries in each row of `keys`
    keys: Tensor  # [1, 1, M, N]
    query_counts: Tensor  # [1, 1, N]
    queries: Tensor  # [1, 1, N, M]


@dataclass(frozen=True)
class Packed:
    """Sentences packed end to end. Attention works on blocks if `sentences` is given, else on a padded grid [B, L]."""

    ids: Tensor  # [n] token ids
    positions: Tensor  # [n] position of each token in its sentence
    shape: tuple[int, int]  # (B, L)
    slots: Tensor | None = None  # [n] index of each token in the flat grid; None if the tokens fill the grid in order
    mask: Tensor | None = None  # [B, 1, 1, L] 0 on tokens, -inf on padding (§3.2.3); None without padding
    sentences: Tensor | None = None  # [n] int32, the number of each token's sentence
    own: Blocks | None = None  # for self-attention
    memory: Blocks | None = None  # for a target's attention to the source
    count: int | None = None  # number of tokens before the padding; None if there is no padding

    def to_grid(self, x: Tensor) -> Tensor:
        """Move x [n, d] to the padded grid: [B, L, d], zero on padding."""
        B, L = self.shape
        return (x if self.slots is None else _Moved.apply(x, self.slots, B * L, True)).view(B, L, -1)

    def from_grid(self, grid: Tensor) -> Tensor:
        """Move a padded grid [B, L, d] back to the tokens: [n, d]."""
        x = grid.flatten(0, 1)
        return x if self.slots is None else _Moved.apply(x, self.slots, len(self.ids), False)


def pack(sentences: list[np.ndarray], device: torch.device) -> Packed:
    """Pack sentences of token ids for padded attention."""
    lengths = np.array([len(sentence) for sentence in sentences])
    return collate(np.concatenate(sentences).astype(np.int64), lengths, device)


def collate(ids: np.ndarray, lengths: np.ndarray, device: torch.device, multiple: int = 1) -> Packed:
    """Pack sentences for padded attention: ids [n], lengths [B]. PAD extends the tokens to a `multiple`."""
    B, L = shape = (len(lengths), int(lengths.max()))
    positions = _positions(lengths)
    sides = [to_device(extended(side, multiple), device) for side in (ids, positions)]
    slots = mask = None
    if len(ids) < B * L or len(ids) % multiple:
        slots = to_device(np.repeat(np.arange(B) * L, lengths) + positions, device)
    if len(ids) < B * L:
        padding = np.where(np.arange(L) < lengths[:, None], np.float32(0), np.float32(-np.inf))
        mask = to_device(padding[:, None, None, :], device)
    return Packed(*sides, shape, slots, mask, count=len(ids))


def extended(tokens: np.ndarray, multiple: int) -> np.ndarray:
    """Append zeros up to a `multiple`. Zero is the id PAD and also the first position."""
    return np.pad(tokens, (0, -len(tokens) % multiple))


def collate_blocks(
    ids: np.ndarray,
    lengths: np.ndarray,
    device: torch.device,
    causal: bool,
    memory: Blocks | None = None,
    count: int | None = None,
) -> Packed:
    """Pack sentences for attention in blocks. The number of ids must be a multiple of BLOCK.

    causal: a token attends only to earlier tokens and itself. memory: blocks of a target's attention to the source.
    count: the number of tokens, if sentences of padding follow them.
    """
    sentences = to_device(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), device)
    shape, own = (len(lengths), int(lengths.max())), blocks_of(lengths, lengths, causal, device)
    positions = to_device(_positions(lengths), device)
    return Packed(to_device(ids, device), positions, shape, sentences=sentences, own=own, memory=memory, count=count)


def padding_lengths(lengths: np.ndarray, capacity: tuple[int, int]) -> np.ndarray:
    """Return the lengths [2, sentences] of nonempty padding sentences for a batch with lengths [2, pairs]."""
    rest = padded_sizes(lengths, capacity) - lengths.sum(axis=1)
    E = min(math.ceil(rest.max() / _MULTIPLE), rest.min())
    return rest[:, None] // E + (np.arange(E) < rest[:, None] % E)


def padded_sizes(lengths: np.ndarray, capacity: tuple[int, int]) -> np.ndarray:
    """Return the token count of each padded side [2]: max(capacity, tokens) + _SPARE, rounded up to a _MULTIPLE."""
    return -(-(np.maximum(lengths.sum(axis=1), capacity) + _SPARE) // _MULTIPLE) * _MULTIPLE


def _positions(lengths: np.ndarray) -> np.ndarray:
    """Return each token's position in its sentence: [n]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to `device`. The copy to a GPU is asynchronous."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def blocks_of(queries: np.ndarray, keys: np.ndarray, causal: bool, device: torch.device) -> Blocks:
    """Return the blocks of attention between sentences of these lengths [B]. Each side consists of whole blocks."""
    tables = []
    for side, (lengths, others) in enumerate([(queries, keys), (keys, queries)]):
        sentences, ends = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(others)
        # A block shares sentences with the other side's blocks from `first` to `last`.
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
    """Rows moved from packed tokens [n, d] to a padded grid, or back. All other rows of the result are zero.

    slots: grid indices of the first rows; further rows are padding. The custom backward also moves instead of adding.
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
