"""The decoder for beam search: one step at a time, with caches.

Shapes: B sentences of K hypotheses each, so B * K rows; M places in a cache, L in a memory; V embedding rows.
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
from transformer.model.transformer import DecoderLayer, Transformer

CACHE_BLOCK = 16  # places by which caches grow, and that a memory has at least: softmax over fewer is slow


class Weights:
    """A decoder's matrices, laid out for single steps; all batches share them."""

    new_word: Tensor | None = None  # 1 for each token that begins a word or tags one: [V]

    def __init__(self, model: Transformer):
        embedding = model.target_embedding
        ids = torch.arange(len(embedding.weight), device=embedding.weight.device)
        self.rows = embedding.rows(ids).detach()  # [V, d_model]
        self.positions = None if embedding.position_table is None else embedding.position_table.detach()
        if embedding.new_word is not None:  # as in Embedding
            self.new_word, self.words = embedding.new_word.long(), self.positions.flip(1)
        self.layers = [_LayerWeights(layer) for layer in model.decoder]
        self.norm = model.decoder_norm
        self.output = model.output_weight().detach().T.contiguous()


class _LayerWeights:
    """The matrices of one layer; its queries come out divided by sqrt(d_k), if they are to be."""

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.widths = own.widths
        scales = torch.ones_like(own.query_key_value.bias)
        scales[: own.widths[0]], scale = (part.scale if part.additive is None else 1.0 for part in (own, cross))
        self.query_key_value, self.query = _linear(own.query_key_value, scales), _linear(cross.query, scale)
        self.additive = [attention.additive for attention in (own, cross)]
        self.outputs = [_linear(attention.output) for attention in (own, cross)]
        self.inner, self.outer = _linear(layer.feed_forward.inner), _linear(layer.feed_forward.outer)
        self.activate = layer.feed_forward.activate
        self.norms = [residual.norm for residual in layer.residuals]
        self.post, self.residual = layer.residuals[0].post, layer.residuals[0].residual

    def self_attention(self, past: list[Tensor], x: Tensor, where: list[Tensor], seen: Tensor) -> Tensor:
        """Attend from x [B * K, d_model] to `past`, after its own keys and values are written there, at `where`.

        past: keys [B, h, d_k, M] and values [B, h, M, d_v]. where: sentences [B, 1] and places [B, K]. seen: the mask.
        """
        keys, values = past
        sentences, places = where
        Q, K, V = self.query_key_value(x).split_with_sizes(self.widths, 1)  # Tensor.split is a slower wrapper
        keys[sentences, :, :, places] = K.view(*places.shape, *keys.shape[1:3])
        values[sentences, :, places] = V.view(*places.shape, keys.shape[1], -1)
        return self.outputs[0](cached_attention(Q, keys, values, seen, self.additive[0]))

    def cross_attention(self, memory: list[Tensor], x: Tensor, mask: Tensor | None) -> Tensor:
        return self.outputs[1](cached_attention(self.query(x), *memory, mask, self.additive[1]))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.outer(self.activate(self.inner(x)))

    def around(self, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalise and add as model.transformer.Residual does; write over the sub-layer's output."""
        out = sublayer(x if self.post else self.norms[number](x))
        if self.residual:
            out.add_(x)
        return self.norms[number](out) if self.post else out


def _linear(part: nn.Linear, scale: Tensor | float = 1.0) -> Callable[[Tensor], Tensor]:
    """Return x -> scale * (x W + b), with W in the layout that is fastest for few rows of x."""
    W, b = (part.weight.detach().T * scale).contiguous(), part.bias.detach() * scale
    return lambda x: torch.addmm(b, x, W)


class CachedDecoder:
    """A search.Decoder of K hypotheses for each of B sentences; tokens are the first `vocabulary` without PAD.

    The hypotheses of a sentence share the memory's keys and values, and one cache of their own. Each sees there only
    the places of its ancestors, so that nothing in the cache moves when hypotheses do. Unseen places are taken again.
    """

    def __init__(self, model: Transformer, source: Packed, vocabulary: int, weights: Weights | None = None):
        self.vocabulary, self.weights = vocabulary, weights or Weights(model)
        memory, (B, L) = model.encode(source), source.shape
        self.seen = np.full((B, 1, CACHE_BLOCK), -np.inf, np.float32)  # 0 where seen, else -inf: [B, K, M]
        # Keys have the layout of `cached_attention`; to copy them at each step would cost more.
        self.past = [
            [memory.new_zeros(B, own.h, own.d_k, CACHE_BLOCK), memory.new_zeros(B, own.h, CACHE_BLOCK, own.d_v)]
            for own in (layer.self_attention for layer in model.decoder)
        ]
        self.memory = []  # each layer's keys [B, h, d_k, L] and values [B, h, L, d_v], L at least CACHE_BLOCK
        short = max(0, CACHE_BLOCK - L)
        for layer in (layer.cross_attention for layer in model.decoder):
            K, V = (layer.heads(part, source) for part in layer.key_value(memory).split(layer.widths, dim=-1))
            self.memory.append([F.pad(K, (0, 0, 0, short)).mT.contiguous(), F.pad(V, (0, 0, 0, short)).contiguous()])
        self.mask = None if source.mask is None else source.mask.clone()  # of the memory's padding: [B, 1, 1, L]
        if short:
            mask = memory.new_zeros(B, 1, 1, L) if self.mask is None else self.mask
            self.mask = F.pad(mask, (0, short), value=-torch.inf)
        self.words: Tensor | None = None  # begun by each hypothesis, less one; where the model counts them
        self.length = 0
        self.logits = memory.new_empty(0)  # reused: [the most rows so far, V]

    def step(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities [B, K, V] of what follows `tokens` [B, K]; the next step writes over them."""
        weights, (B, K) = self.weights, tokens.shape
        x = weights.rows.index_select(0, tokens.flatten())
        if weights.positions is not None:
            x += weights.positions[self.length]
        if weights.new_word is not None:
            new = weights.new_word[tokens]
            self.words = new - 1 if self.words is None else self.words + new
            x += weights.words[self.words.flatten().clamp(min=0)]
        self.length += 1
        where = self._on_device(np.arange(B)[:, None], self._take_places(K))
        (seen,) = self._on_device(self.seen[:, None])
        for layer, past, memory in zip(weights.layers, self.past, self.memory, strict=True):
            x = layer.around(0, x, partial(layer.self_attention, past, where=where, seen=seen))
            x = layer.around(1, x, partial(layer.cross_attention, memory, mask=self.mask))
            x = layer.around(2, x, layer.feed_forward)
        # The logits are always in one place: fresh memory would double the time.
        if self.logits.shape[0] < B * K:
            self.logits = x.new_empty(B * K, weights.output.shape[1])
        logits = torch.mm(weights.norm(x), weights.output, out=self.logits[: B * K])
        scores = torch.log_softmax(logits, dim=1, out=logits)[:, : self.vocabulary]
        scores[:, PAD] = -torch.inf
        return scores.view(B, K, -1)

    def _take_places(self, K: int) -> np.ndarray:
        """Return a place in the cache for each of K hypotheses [B, K], which it sees from now on."""
        if self.seen.shape[1] < K:  # none has been selected yet, and none sees a place
            self.seen = self.seen.repeat(K, axis=1)
        taken = np.maximum.reduce(self.seen, axis=1) == 0
        lack = K + np.add.reduce(taken, axis=1).max() - taken.shape[1]
        if lack > 0:
            room = -(-lack // CACHE_BLOCK) * CACHE_BLOCK
            self.seen = np.pad(self.seen, ((0, 0), (0, 0), (0, room)), constant_values=-np.inf)
            taken = np.pad(taken, ((0, 0), (0, room)))
            self.past = [[F.pad(keys, (0, room)), F.pad(values, (0, 0, 0, room))] for keys, values in self.past]
        places = taken.argsort(axis=1, kind="stable")[:, :K]
        self.seen[np.arange(len(places))[:, None], np.arange(K), places] = 0
        return places

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
