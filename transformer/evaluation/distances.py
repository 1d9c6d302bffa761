"""§4 How far heads look: lower layers at neighbours, higher ones at the whole sentence? Measured on a trained run.

A query's distance is the mean of |i - j| over the keys j, by their weights, in tokens. Towards the memory it is
|j - i L_source / L_target|, so that what stands at the same share of its sentence is not away at all.
"""

from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from transformer.model.overheard import attentions, overheard
from transformer.model.transformer import Transformer
from transformer.training.batches import Batch


@torch.inference_mode()
def distances(model: Transformer, batches: list[Batch], lengths: list[Tensor]) -> dict[str, Tensor]:
    """Return by kind of attention the mean distance over all queries of a head: [N + 1, h].

    The last row is not a layer's: it is the distance of a head that gives all tokens that it may see the same weight.
    lengths: for each batch [2, B], the tokens of its sentences, source and target.
    """
    layers = attentions(model)
    sums = {kind: torch.zeros(len(modules) + 1, model.config.h).double() for kind, modules in layers.items()}
    queries = dict.fromkeys(layers, 0)
    for batch, (source, target) in zip(batches, lengths, strict=True):
        sides = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
        with ExitStack() as stack:
            for kind, modules in layers.items():
                sums[kind][-1] += total(*sides[kind], equal(*sides[kind], causal=kind == "decoder"))
                queries[kind] += int(sides[kind][0].sum())
                for row, module in zip(sums[kind], modules, strict=False):
                    stack.enter_context(overheard(module, partial(add, row, *sides[kind])))
            model(batch.source, batch.target)
    return {kind: rows / queries[kind] for kind, rows in sums.items()}


def add(row: Tensor, queries: Tensor, keys: Tensor, weights: Tensor) -> None:
    row += total(queries, keys, weights)


def total(queries: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """Return each head's sum of distances over the queries of a batch: [h].

    queries, keys: [B] lengths of the sentences on either side. weights: [B, h, L_q, L_k], 0 on padded keys.
    """
    i, j = (torch.arange(length, device=weights.device) for length in weights.shape[2:])
    here = i * (keys / queries)[:, None]  # the query's place among the keys: [B, L_q]
    far = (j - here[:, :, None]).abs() * (i < queries[:, None])[:, :, None]
    return torch.einsum("bhqk,bqk->h", weights, far).double().cpu()


def equal(queries: Tensor, keys: Tensor, causal: bool) -> Tensor:
    """Return equal weights for all keys that a query may see: [B, 1, L_q, L_k]."""
    i, j = (torch.arange(int(side.max()), device=side.device) for side in (queries, keys))
    seen = (j < keys[:, None])[:, None, None, :] & ((j <= i[:, None]) | (not causal))
    return seen / seen.sum(dim=-1, keepdim=True)
