"""Heads that are masked, so that they contribute nothing: their output, before W^O, is zero.

That is the test of Michel et al. (2019), Are sixteen heads really better than one?
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from transformer.model.overheard import attentions
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.training.batches import ParallelText, plan
from transformer.training.loss import smoothed_cross_entropy

# Tokens on a side that are decoded together; change speed only. A processor is faster with less padding, for which the
# sentences of a batch must have similar lengths; a batch must hold the longest sentence, however.
BATCH, BATCH_CUDA = POSITIONS, 16 * POSITIONS


class Head(NamedTuple):
    """A head: its kind of attention (`model.overheard.attentions`), its layer and its place there, both from 0."""

    kind: str
    layer: int
    head: int


@contextmanager
def masked(model: Transformer, heads: Iterable[Head]) -> Iterator[None]:
    """Mask these heads while this lasts: the columns of W^O that they are multiplied by are zero.

    What copies the matrices meanwhile, as the decoder for beam search does, copies the zeros.
    """
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
    """Some pairs of a text in batches, whose targets a model in evaluation mode predicts, each token from those before.

    The memories are kept: they change only where a head of the encoder is masked.
    """

    @torch.inference_mode()
    def __init__(self, model: Transformer, text: ParallelText, indices: Iterable[int]):
        kept = np.array(list(indices))
        lengths, device = text.lengths[:, kept], model.embedding.weight.device
        groups = plan(0, 0, lengths, (BATCH_CUDA if device.type == "cuda" else BATCH,) * 2)
        self.model = model
        self.batches = [text.batch(kept[group], device) for group in groups]
        self.lengths = [torch.from_numpy(lengths[:, group]).to(device) for group in groups]  # [2, B], source and target
        self.memories = [model.encode(batch.source) for batch in self.batches]

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


def curve(heads: Iterable[Head], chosen: TeacherForced, everything: TeacherForced) -> Iterator[tuple[Head, float]]:
    """Mask the `heads` one after the other, each time the one that raises the loss on `chosen` least.

    Yields, in that order, the head that came last, and the loss on `everything`.
    """
    removed, left = [], list(heads)
    while left:
        least = min(left, key=lambda head: chosen.loss([*removed, head]))
        left.remove(least)
        removed.append(least)
        yield least, everything.loss(removed)
