"""Which blocks of a stream of sentences attend to which (§3.2): the tables that FlexAttention goes by.

A stream is cut into blocks of BLOCK tokens. Sentences are shorter, so nearly all pairs of blocks share no sentence, and
none of their products are taken. All tables have a size that depends on the streams' alone, not on their sentences.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

BLOCK = 128  # tokens that the kernels take at once


@dataclass(frozen=True)
class Blocks:
    """For each block of queries the blocks of keys that it may see, and the other way round, for the gradient.

    key_counts: [1, 1, M] how many of keys: [1, 1, M, N] count, the first ones; query_counts: [1, 1, N] and
    queries: [1, 1, N, M] likewise. M blocks of queries, N of keys.
    """

    key_counts: Tensor
    keys: Tensor
    query_counts: Tensor
    queries: Tensor


def tables(queries: np.ndarray, keys: np.ndarray, causal: bool) -> list[np.ndarray]:
    """Return the tables of `Blocks` for sentences of these lengths on either side [B], each side whole blocks."""
    seen = meetings(queries, keys)
    seen = np.tril(seen) if causal else seen
    return [*listed(seen), *listed(seen.T)]


def meetings(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return for each block of queries and each of keys whether they have a sentence in common: [M, N]."""
    first, last = zip(*map(spans, (queries, keys)), strict=True)
    corners = np.zeros([side.sum() // BLOCK + 1 for side in (queries, keys)], dtype=np.int32)
    # A sentence's rectangle of blocks, by its corners: summed along both axes, they count the sentences of each block.
    for rows, sign in ((first[0], 1), (last[0] + 1, -1)):
        np.add.at(corners, (rows, first[1]), sign)
        np.add.at(corners, (rows, last[1] + 1), -sign)
    return corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] > 0


def spans(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each sentence of a stream the first and the last block that it lies in."""
    ends = np.cumsum(lengths)
    return (ends - lengths) // BLOCK, (ends - 1) // BLOCK


def listed(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row of `seen` how many of its columns are true, and the columns' numbers, the true ones first."""
    order = np.argsort(~seen, axis=1, kind="stable").astype(np.int32)
    return seen.sum(axis=1, dtype=np.int32)[None, None], order[None, None]
