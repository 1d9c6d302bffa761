"""Masked heads, and the attention distances of heads (§3.2.2, §4).

Masking is the test of Michel et al. (2019), Are sixteen heads really better than one? A query's distance is the mean of
|i - j| over the keys j, weighted by attention, in tokens. In cross-attention it is |j - i L_source / L_target|, so a
key at the same relative position has distance 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from transformer.config.experiment import POSITIONS
from transformer.model.seq2seq import Seq2Seq
from transformer.model.transformer import attention_weights, attentions
from transformer.training.batches import ParallelText, plan_batches
from transformer.training.loss import smoothed_cross_entropy

DECIMALS = 6  # in losses and distances
# Tokens per side of a batch. They affect only speed, and small batches need less padding.
_BATCH, _BATCH_CUDA = POSITIONS, 16 * POSITIONS


class Head(NamedTuple):
    kind: str  # of attention (`model.transformer.attentions`)
    layer: int  # layers and heads count from 0
    head: int


@contextmanager
def masked(model: Seq2Seq, heads: Iterable[Head]) -> Iterator[None]:
    """Mask these heads in the context: their columns of W^O are zero, also in copies of the model."""
    modules, before = attentions(model), []
    for kind, layer, head in heads:
        module = modules[kind][layer]
        columns = module.output.weight.detach()[:, head * module.d_v : (head + 1) * module.d_v]
        before.append((columns, columns.clone()))
        columns.zero_()
    try:
        yield
    finally:
        for columns, values in reversed(before):
            columns.copy_(values)


class TeacherForced:
    """Batches of sentence pairs. A model predicts their target tokens from the preceding reference tokens."""

    @torch.inference_mode()
    def __init__(self, model: Seq2Seq, text: ParallelText, indices: Iterable[int]):
        kept = np.array(list(indices))
        lengths, device = text.lengths[:, kept], model.device
        groups = plan_batches(0, 0, lengths, (_BATCH_CUDA if device.type == "cuda" else _BATCH,) * 2)
        self.model = model
        self.batches = [text.batch(kept[group], device) for group in groups]
        self.memories = [model.encode(batch.source) for batch in self.batches]  # with no head masked

    @torch.inference_mode()
    def loss(self, heads: Iterable[Head] = ()) -> float:
        """Return the mean of the unsmoothed cross-entropy over target tokens, in nats, with these heads masked."""
        heads, total, tokens = list(heads), 0.0, 0
        encodes = any(head.kind == "encoder" for head in heads)
        with masked(self.model, heads):
            for batch, known in zip(self.batches, self.memories, strict=True):
                memory = self.model.encode(batch.source) if encodes else known
                output = self.model.decode(batch.target, memory, batch.source)
                total += smoothed_cross_entropy(output, self.model.output_weight(), batch.labels, 0.0)[1].item()
                tokens += len(batch.labels)
        return total / tokens


def _curve(heads: Iterable[Head], chosen: TeacherForced, everything: TeacherForced) -> Iterator[tuple[Head, float]]:
    """Mask heads one by one, always the one that raises the loss on `chosen` least. Yield it and the loss on all."""
    removed, left = [], list(heads)
    while left:
        least = min(left, key=lambda head: chosen.loss([*removed, head]))
        left.remove(least)
        removed.append(least)
        yield least, everything.loss(removed)


def distances(model: Seq2Seq, text: ParallelText) -> dict[str, np.ndarray]:
    """Return the mean distance over all queries of each head, by kind of attention: [N + 1, h].

    The last row is the distance of a head with uniform weights over the visible tokens.
    """
    sums, queries = defaultdict(float), Counter()
    for source, target in zip(text.source, text.target, strict=True):
        for kind, weights in attention_weights(model, source.tolist(), target.tolist()).items():
            L_q, L_k = weights.shape[2:]
            i, j = np.ogrid[:L_q, :L_k]
            far = np.abs(j - i * (L_k / L_q))
            visible = (j <= i) | (kind != "decoder")
            uniform = (far * visible).sum(axis=1) / visible.sum(axis=1)
            of_heads = np.einsum("nhqk,qk->nh", weights.numpy(), far)
            sums[kind] += np.vstack([of_heads, np.full(model.config.h, uniform.sum())])
            queries[kind] += L_q
    return {kind: rows / queries[kind] for kind, rows in sums.items()}


def importance(kind: str, far: np.ndarray, chosen: TeacherForced, everything: TeacherForced) -> dict[str, Any]:
    """Return the importance and the distances of the heads of one kind. far: [N + 1, h], from `distances`."""
    config, loss = everything.model.config, everything.loss()
    layers = [[Head(kind, layer, head) for head in range(config.h)] for layer in range(config.N)]
    steps = [
        {"masked": masked, "layer": head.layer + 1, "head": head.head + 1, "loss": round(loss, DECIMALS)}
        for masked, (head, loss) in enumerate(_curve(chain.from_iterable(layers), chosen, everything), start=1)
    ]
    return {
        "increase": [[round(everything.loss([head]) - loss, DECIMALS) for head in layer] for layer in layers],
        "curve": steps,
        "distance": [[round(distance, DECIMALS) for distance in layer] for layer in far[:-1].tolist()],
        "equal": round(far[-1, 0].item(), DECIMALS),
    }
