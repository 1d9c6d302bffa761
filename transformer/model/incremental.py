"""The Transformer's decoder one step at a time, with caches, for beam search (§6.1).

Shapes: B sentences of K hypotheses each, so B * K rows; M slots in a cache, L in a memory; V embedding rows.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD
from transformer.model.attention import cached_attention
from transformer.model.packed import Packed

CACHE_BLOCK = 16  # caches grow by this many slots. A memory has this minimum, because a shorter softmax is slow


class Weights:
    """The decoder's matrices in the layout for single steps. All batches share them."""

    new_word: Tensor | None = None  # [V] 1 for each token that begins or tags a word

    def __init__(self, embedding: nn.Module, layers: nn.ModuleList, norm: nn.Module, output: Tensor):
        """Copy from a `transformer.Embedding`, `DecoderLayer`s, the last norm and the output rows [V, d_model]."""
        ids = torch.arange(len(embedding.weight), device=embedding.weight.device)
        self.rows = embedding.rows(ids).detach()  # [V, d_model]
        self.positions = None if embedding.position_table is None else embedding.position_table.detach()
        if embedding.new_word is not None:  # see Embedding
            self.new_word, self.words = embedding.new_word.long(), self.positions.flip(1)
        self.layers = [_LayerWeights(layer) for layer in layers]
        self.norm = _normalised(norm)
        self.output = output.detach().T.contiguous()


class _LayerWeights:
    """The matrices of one layer. The query matrices include the factor 1 / sqrt(d_k) if the model scales its scores."""

    def __init__(self, layer: nn.Module):
        self.own, self.cross = own, cross = layer.self_attention, layer.cross_attention
        self.widths = own.widths
        scales = torch.ones_like(own.query_key_value.bias)
        scales[: own.widths[0]], scale = (part.scale if part.additive is None else 1.0 for part in (own, cross))
        self.query_key_value, self.query = _applied(own.query_key_value, scales), _applied(cross.query, scale)
        self.additive = [attention.additive for attention in (own, cross)]
        self.outputs = [_applied(attention.output) for attention in (own, cross)]
        self.inner, self.outer = _applied(layer.feed_forward.inner), _applied(layer.feed_forward.outer)
        self.activate = layer.feed_forward.activate
        self.norms = [_normalised(residual.norm) for residual in layer.residuals]
        self.post, self.residual = layer.residuals[0].post, layer.residuals[0].residual

    def self_attention(self, past: list[Tensor], x: Tensor, where: list[Tensor], seen: Tensor) -> Tensor:
        """Write the keys and values of x [B * K, d_model] to `past` at `where`, then attend to `past`.

        past: keys [B, h, d_k, M] and values [B, h, M, d_v]. where: sentences [B, 1] and slots [B, K]. seen: the mask.
        """
        keys, values = past
        sentences, slots = where
        Q, K, V = self.query_key_value(x).split_with_sizes(self.widths, 1)  # Tensor.split is a slower wrapper
        keys[sentences, :, :, slots] = K.view(*slots.shape, *keys.shape[1:3])
        values[sentences, :, slots] = V.view(*slots.shape, keys.shape[1], -1)
        return self.outputs[0](cached_attention(Q, keys, values, seen, self.additive[0]))

    def cross_attention(self, memory: list[Tensor], x: Tensor, mask: Tensor | None) -> Tensor:
        return self.outputs[1](cached_attention(self.query(x), *memory, mask, self.additive[1]))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activate(self.inner(x)))

    def around(self, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalise and add like transformer.Residual. This overwrites the sub-layer's output."""
        out = sublayer(x if self.post else self.norms[number](x))
        if self.residual:
            out.add_(x)
        return self.norms[number](out) if self.post else out


def _applied(part: nn.Linear, scale: Tensor | float = 1.0) -> Callable[[Tensor], Tensor]:
    """Return the function scale * (x W + b), with W in the fastest layout for few rows of x."""
    W, b = (part.weight.detach().T * scale).contiguous(), part.bias.detach() * scale
    return lambda x: torch.addmm(b, x, W)


def _normalised(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the function of a norm. A direct call of layer normalisation takes half the time for few rows."""
    if not isinstance(norm, nn.LayerNorm):
        return norm
    weight, bias = norm.weight.detach(), norm.bias.detach()
    return lambda x: torch.layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)


class CachedDecoder:
    """A `seq2seq.Decoder` of K hypotheses for each of B sentences. It outputs the first `vocabulary` ids except PAD.

    All hypotheses of a sentence share the memory's keys and values and one cache. A mask limits each hypothesis to its
    ancestors' slots, so a reordering of hypotheses moves nothing in the cache. Free slots are reused.
    """

    def __init__(self, weights: Weights, memory: Tensor, source: Packed, vocabulary: int):
        self.vocabulary, self.weights = vocabulary, weights
        B, L = source.shape
        self.seen = np.full((B, 1, CACHE_BLOCK), -np.inf, np.float32)  # [B, K, M] 0 for visible slots, else -inf
        # Keys have the layout of `cached_attention`, because a copy at each step would cost more.
        self.past = [
            [memory.new_zeros(B, own.h, own.d_k, CACHE_BLOCK), memory.new_zeros(B, own.h, CACHE_BLOCK, own.d_v)]
            for own in (layer.own for layer in weights.layers)
        ]
        self.memory = []  # each layer's keys [B, h, d_k, L] and values [B, h, L, d_v]; L is CACHE_BLOCK or more
        short = max(0, CACHE_BLOCK - L)
        for cross in (layer.cross for layer in weights.layers):
            K, V = (cross.heads(part, source) for part in cross.key_value(memory).split(cross.widths, dim=-1))
            self.memory.append([F.pad(K, (0, 0, 0, short)).mT.contiguous(), F.pad(V, (0, 0, 0, short)).contiguous()])
        self.mask = None if source.mask is None else source.mask.clone()  # [B, 1, 1, L] the memory's padding
        if short:
            mask = memory.new_zeros(B, 1, 1, L) if self.mask is None else self.mask
            self.mask = F.pad(mask, (0, short), value=-torch.inf)
        self.words: Tensor | None = None  # number of words in each hypothesis minus one, if the model counts words
        self.length = 0
        self.logits = memory.new_empty(0)  # reused: [maximum number of rows so far, V]

    def step(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities [B, K, V] of the tokens after `tokens` [B, K]. The next step overwrites them."""
        weights, (B, K) = self.weights, tokens.shape
        x = weights.rows.index_select(0, tokens.flatten())
        if weights.positions is not None:
            x += weights.positions[self.length]
        if weights.new_word is not None:
            new = weights.new_word[tokens]
            self.words = new - 1 if self.words is None else self.words + new
            x += weights.words[self.words.flatten().clamp(min=0)]
        self.length += 1
        where = self._on_device(np.arange(B)[:, None], self._take_slots(K))
        (seen,) = self._on_device(self.seen[:, None])
        for layer, past, memory in zip(weights.layers, self.past, self.memory, strict=True):
            x = layer.around(0, x, partial(layer.self_attention, past, where=where, seen=seen))
            x = layer.around(1, x, partial(layer.cross_attention, memory, mask=self.mask))
            x = layer.around(2, x, layer.feed_forward)
        # The logits reuse the same memory, because new memory would double the time.
        if self.logits.shape[0] < B * K:
            self.logits = x.new_empty(B * K, weights.output.shape[1])
        logits = torch.mm(weights.norm(x), weights.output, out=self.logits[: B * K])
        scores = torch.log_softmax(logits, dim=1, out=logits)[:, : self.vocabulary]
        scores[:, PAD] = -torch.inf
        return scores.view(B, K, -1)

    def _take_slots(self, K: int) -> np.ndarray:
        """Return a free cache slot for each hypothesis, [B, K], and make it visible to its hypothesis."""
        if self.seen.shape[1] < K:  # first step: no hypothesis has been selected and no slot is visible
            self.seen = self.seen.repeat(K, axis=1)
        taken = np.maximum.reduce(self.seen, axis=1) == 0
        lack = K + np.add.reduce(taken, axis=1).max() - taken.shape[1]
        if lack > 0:
            added = -(-lack // CACHE_BLOCK) * CACHE_BLOCK
            self.seen = np.pad(self.seen, ((0, 0), (0, 0), (0, added)), constant_values=-np.inf)
            taken = np.pad(taken, ((0, 0), (0, added)))
            self.past = [[F.pad(keys, (0, added)), F.pad(values, (0, 0, 0, added))] for keys, values in self.past]
        slots = taken.argsort(axis=1, kind="stable")[:, :K]
        self.seen[np.arange(len(slots))[:, None], np.arange(K), slots] = 0
        return slots

    def _on_device(self, *arrays: np.ndarray) -> list[Tensor]:
        return [torch.from_numpy(array).to(self.weights.output.device) for array in arrays]

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        self.seen = self.seen[sentences[:, None], parents]
        if self.words is not None:
            self.words = self.words[tuple(self._on_device(sentences[:, None], parents))]
        moved = np.flatnonzero(sentences != np.arange(len(sentences)))
        if not len(moved) and len(sentences) == len(self.memory[0][0]):
            return
        to, source = self._on_device(moved, sentences[moved])

        def keep(x: Tensor) -> Tensor:
            if len(to):
                x[to] = x[source]
            return x[: len(sentences)]

        for cache in (*self.past, *self.memory):
            cache[:] = map(keep, cache)
        self.mask = None if self.mask is None else keep(self.mask)
