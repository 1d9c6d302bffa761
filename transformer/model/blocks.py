"""Find which blocks of a stream of sentences attend to which (§3.2): the tables that FlexAttention goes by.

A stream is cut into blocks of BLOCK tokens. Sentences are shorter, so nearly all pairs of blocks share no sentence, and
none of their products are taken. All tables have a size that depends on the streams' alone, not on their sentences.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

BLOCK = 64  # tokens; with 128, seven in eight products would be of two sentences, with 64 three in four are


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
    first_key, last_key = reach(queries, keys)
    first_query, last_query = reach(keys, queries)
    if causal:
        last_key, first_query = (np.arange(len(x)) for x in (last_key, first_query))
    return [*listed(first_key, last_key, len(first_query)), *listed(first_query, last_query, len(first_key))]


def reach(lengths: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each block of a stream the first and the last block of the other that it shares a sentence with.

    It shares one with all between them, as both streams have their sentences in one order.
    """
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    first, last = sentences[::BLOCK], sentences[BLOCK - 1 :: BLOCK]
    ends = np.cumsum(others)
    return (ends - others)[first] // BLOCK, (ends[last] - 1) // BLOCK


def listed(first: np.ndarray, last: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many blocks each row has, and the rows: numbers from `first` on, `width` of them below `width`."""
    numbers = np.minimum(first[:, None] + np.arange(width), width - 1)
    return tuple(x.astype(np.int32)[None, None] for x in (last - first + 1, numbers))
