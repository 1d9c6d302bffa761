"""Sentences laid end to end, without padding between them: what the model reads (§5.1).

Only attention knows where sentences begin: by a padded grid, or by each token's sentence and tables of blocks.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.model.blocks import Blocks, tables

POSITIONS = 1024  # the longest sequence; row E learns as many. The paper does not say


@dataclass(frozen=True)
class Packed:
    """Sentences laid end to end.

    ids: [n] token ids. positions: [n] place of each token in its sentence. Attention works on either of two layouts:
    a padded grid [B, L], or, where `sentences` is given, blocks of the stream itself.
    """

    ids: Tensor
    positions: Tensor
    shape: tuple[int, int]  # (B, L)
    slots: Tensor | None = None  # [n] place of each token in the grid, row by row; None where they fill it in order
    mask: Tensor | None = None  # [B, 1, 1, L], 0 on tokens, -inf on padding (§3.2.3); None where there is no padding
    sentences: Tensor | None = None  # [n] int32, the number of each token's sentence
    own: Blocks | None = None  # of attention to the stream itself
    memory: Blocks | None = None  # of a target's attention to the source


FILLER = 128  # tokens, roughly, of a sentence that fills up a batch; batches' sizes are multiples of it
SPARE = 64  # tokens at least that fill up each side, in as many sentences on both


def pack(sentences: list[np.ndarray], device: torch.device) -> Packed:
    """Lay sentences of token ids end to end (see `Packed`), for padded attention."""
    lengths = np.array([len(sentence) for sentence in sentences])
    return lay(np.concatenate(sentences).astype(np.int64), lengths, device)


def lay(ids: np.ndarray, lengths: np.ndarray, device: torch.device, grain: int = 1) -> Packed:
    """Lay sentences out for padded attention: their ids [n], end to end, and their lengths [B]."""
    B, L = shape = (len(lengths), int(lengths.max()))
    positions = places(lengths)
    sides = [put(extended(side, grain), device) for side in (ids, positions)]
    slots = mask = None
    if len(ids) < B * L or len(ids) % grain:
        slots = put(np.repeat(np.arange(B) * L, lengths) + positions, device)
    if len(ids) < B * L:
        padding = np.where(np.arange(L) < lengths[:, None], np.float32(0), np.float32(-np.inf))
        mask = put(padding[:, None, None, :], device)
    return Packed(*sides, shape, slots, mask)


def extended(tokens: np.ndarray, grain: int) -> np.ndarray:
    """Append zeros, which are PAD and first places, up to a multiple of `grain`."""
    return np.pad(tokens, (0, -len(tokens) % grain))


def lay_flat(
    ids: np.ndarray, lengths: np.ndarray, device: torch.device, causal: bool, memory: Blocks | None = None
) -> Packed:
    """Lay sentences out for attention in blocks, as `lay` does for padded attention; ids and lengths make whole blocks.

    causal: whether a token attends only to those before it. memory: a target's blocks of attention to the source.
    """
    sentences = put(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), device)
    shape, own = (len(lengths), int(lengths.max())), blocks(lengths, lengths, causal, device)
    return Packed(put(ids, device), put(places(lengths), device), shape, None, None, sentences, own, memory)


def blocks(queries: np.ndarray, keys: np.ndarray, causal: bool, device: torch.device) -> Blocks:
    """Return the `Blocks` of attention between sentences of these lengths [B] on either side."""
    return Blocks(*(put(table, device) for table in tables(queries, keys, causal)))


def fill(lengths: np.ndarray, room: tuple[int, int]) -> np.ndarray:
    """Return the lengths [2, sentences] of what fills up a batch of these lengths [2, pairs]; none is 0."""
    rest = sizes(lengths, room) - lengths.sum(axis=1)
    E = min(math.ceil(rest.max() / FILLER), rest.min())
    return rest[:, None] // E + (np.arange(E) < rest[:, None] % E)


def sizes(lengths: np.ndarray, room: tuple[int, int]) -> np.ndarray:
    """Return [2] the tokens of each filled side: its room, or what it has, and SPARE more; a multiple of FILLER."""
    return -(-(np.maximum(lengths.sum(axis=1), room) + SPARE) // FILLER) * FILLER


def places(lengths: np.ndarray) -> np.ndarray:
    """Return for each token its place in its sentence, for sentences laid end to end: [n]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def put(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return a tensor on `device`, without waiting for what a GPU still has to do."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
