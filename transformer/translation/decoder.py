"""The decoder for beam search: one step at a time, with caches.

Shapes: B sentences of K hypotheses each, so B * K rows; M places in a cache, L in a memory; V embedding rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD
from transformer.model.attention import CrossAttention, cached_attention
from transformer.model.packed import Packed
from transformer.model.transformer import DecoderLayer, Transformer

BLOCK = 16  # places by which caches grow, and that a memory has at least: softmax over fewer is slow


class Weights:
    """A decoder's matrices, laid out for single steps; all batches share them."""

    def __init__(self, model: Transformer):
        self.layers = [LayerWeights(layer) for layer in model.decoder]
        self.norm = model.decoder_norm
        self.output = model.output_weight().detach().T.contiguous()


class LayerWeights:
    """The matrices of one layer; its queries come out divided by sqrt(d_k), if they are to be."""

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.widths = own.widths
        Q, *key_value = rows(own.query_key_value).split(own.widths)
        own_scale, cross_scale = (part.scale if part.additive is None else 1.0 for part in (own, cross))
        self.query_key_value = Linear(torch.cat([Q * own_scale, *key_value]))
        self.query = Linear(rows(cross.query) * cross_scale)
        self.additive = [attention.additive for attention in (own, cross)]
        self.outputs = [Linear(rows(attention.output)) for attention in (own, cross)]
        self.inner, self.outer = (Linear(rows(part)) for part in (layer.feed_forward.inner, layer.feed_forward.outer))
        self.norms = [residual.norm for residual in layer.residuals]
        self.post, self.residual = layer.residuals[0].post, layer.residuals[0].residual

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return equation 2 (§3.3)."""
        return self.outer(self.inner(x).relu_())

    def before(self, number: int, x: Tensor) -> Tensor:
        """Return what sub-layer `number` is given, as in transformer.Residual."""
        return x if self.post else self.norms[number](x)

    def after(self, number: int, x: Tensor, out: Tensor) -> Tensor:
        """Return what transformer.Residual makes of x and the sub-layer's output; writes over the latter."""
        if self.residual:
            out.add_(x)
        return self.norms[number](out) if self.post else out


def rows(linear: nn.Linear) -> Tensor:
    """Return W with its bias as one column more: [out, in + 1]."""
    return torch.cat([linear.weight, linear.bias[:, None]], dim=1).detach()


class Linear:
    """The product x W + b from `rows` [out, in + 1], with W laid out as is fastest where x has few rows."""

    def __init__(self, rows: Tensor):
        self.W, self.b = rows[:, :-1].T.contiguous(), rows[:, -1].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.b, x, self.W)


class CachedDecoder:
    """A search.Decoder of K hypotheses for each of B sentences, whose tokens are the first `vocabulary` but for PAD.

    The memory's keys and values are computed once per sentence and shared by its hypotheses. They share the cache of
    their own keys and values, too: each hypothesis sees the places that its ancestors took in it. A place that none
    sees any more is taken again, so the cache stays small, and nothing in it moves when hypotheses do.
    """

    def __init__(self, model: Transformer, source: Packed, vocabulary: int, weights: Weights | None = None):
        self.embedding, self.vocabulary, self.weights = model.target_embedding, vocabulary, weights or Weights(model)
        memory, B = model.encode(source), source.shape[0]
        attentions = [layer.self_attention for layer in model.decoder]
        # Keys lie as `cached_attention` wants them; to copy them into that form at each step would cost more.
        self.past = [
            [memory.new_zeros(B, own.h, own.d_k, BLOCK), memory.new_zeros(B, own.h, BLOCK, own.d_v)]
            for own in attentions
        ]
        self.seen = memory.new_full((B, 1, 1, BLOCK), -torch.inf)  # 0 where a hypothesis may look: [B, 1, K, M]
        self.memory = [keys_values(layer.cross_attention, memory, source) for layer in model.decoder]
        self.mask = padding(source)
        self.words: Tensor | None = None  # begun by each hypothesis, less one; where the model counts them
        self.length = 0
        self.logits = memory.new_empty(0)  # where they are computed: [the most rows so far, V]

    def step(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities [B, K, V] of what follows `tokens` [B, K]; the next step writes over them."""
        ids = tokens.flatten()
        x = self.embedding(ids, torch.full_like(ids, self.length), self.count_words(tokens))
        self.length += 1
        places = self.take_places(tokens.shape[1])
        for layer, past, memory in zip(self.weights.layers, self.past, self.memory, strict=True):
            x = layer.after(0, x, self.self_attention(layer, past, layer.before(0, x), places))
            x = layer.after(1, x, self.cross_attention(layer, memory, layer.before(1, x)))
            x = layer.after(2, x, layer.feed_forward(layer.before(2, x)))
        return self.log_probabilities(self.weights.norm(x)).unflatten(0, tokens.shape)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """Turn [B * K, d_model] into [B * K, vocabulary], always in one place: fresh memory would double the time."""
        shape = len(x), self.weights.output.shape[1]
        if len(self.logits) < len(x):
            self.logits = x.new_empty(shape)
        logits = torch.mm(x, self.weights.output, out=self.logits[: len(x)])
        scores = torch.log_softmax(logits, dim=1, out=logits)[:, : self.vocabulary]
        scores[:, PAD] = -torch.inf
        return scores

    def count_words(self, tokens: Tensor) -> Tensor | None:
        """Return the number of the word that comes next after each of these tokens [B, K]: [B * K]."""
        if self.embedding.new_word is None:
            return None
        new = self.embedding.new_word[tokens].long()
        self.words = new - 1 if self.words is None else self.words + new
        return self.words.flatten()

    def take_places(self, K: int) -> Tensor:
        """Return a place in the cache for each of K hypotheses, which sees it from now on: [B, K]."""
        self.seen = self.seen.expand(-1, -1, K, -1).contiguous()  # one at the start becomes K
        taken = self.seen.amax(dim=2).flatten(1)  # 0, or -inf where free
        lack = K - int(taken.isneginf().sum(dim=1).min())
        if lack > 0:
            room = -(-lack // BLOCK) * BLOCK
            self.seen, taken = (F.pad(x, (0, room), value=-torch.inf) for x in (self.seen, taken))
            self.past = [[F.pad(keys, (0, room)), F.pad(values, (0, 0, 0, room))] for keys, values in self.past]
        places = taken.topk(K, dim=1, largest=False, sorted=False).indices
        self.seen.scatter_(3, places[:, None, :, None], 0.0)
        return places

    def self_attention(self, layer: LayerWeights, past: list[Tensor], x: Tensor, places: Tensor) -> Tensor:
        """Attend from x [B * K, d_model], whose keys and values are put at `places`, to `past`. Returns as x."""
        keys, values = past
        Q, K, V = layer.query_key_value(x).split(layer.widths, dim=1)
        sentences = torch.arange(len(keys), device=x.device)[:, None]
        keys[sentences, :, :, places] = K.view(*places.shape, *keys.shape[1:3])
        values[sentences, :, places] = V.view(*places.shape, keys.shape[1], -1)
        return layer.outputs[0](cached_attention(Q, keys, values, self.seen, layer.additive[0]))

    def cross_attention(self, layer: LayerWeights, memory: list[Tensor], x: Tensor) -> Tensor:
        """Attend from x [B * K, d_model] to the memory's keys and values. Returns as x."""
        return layer.outputs[1](cached_attention(layer.query(x), *memory, self.mask, layer.additive[1]))

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep these sentences [b], and these hypotheses [b, K] of each."""
        self.seen = self.seen[sentences[:, None], 0, parents].unsqueeze(1)
        self.words = None if self.words is None else self.words[sentences].gather(1, parents)
        stays = sentences == torch.arange(len(sentences), device=sentences.device)
        moved = (~stays).nonzero().flatten()
        for cache in (*self.past, *self.memory):
            cache[:] = [keep(part, sentences, moved) for part in cache]
        self.mask = None if self.mask is None else keep(self.mask, sentences, moved)


def keep(x: Tensor, sentences: Tensor, moved: Tensor) -> Tensor:
    """Return `x[sentences]` in the memory of x: only rows that change their place are copied, to `moved`."""
    if len(moved):
        x[moved] = x[sentences[moved]]
    return x[: len(sentences)]


def keys_values(layer: CrossAttention, memory: Tensor, source: Packed) -> list[Tensor]:
    """Return K and V of the memory for `cached_attention`: [B, h, d_k, L] and [B, h, L, d_v], L at least BLOCK."""
    K, V = (layer.heads(part, source) for part in layer.key_value(memory).split(layer.widths, dim=-1))
    short = max(0, BLOCK - source.shape[1])
    return [F.pad(K, (0, 0, 0, short)).mT.contiguous(), F.pad(V, (0, 0, 0, short)).contiguous()]


def padding(source: Packed) -> Tensor | None:
    """Return the mask of the source's padding, and of the places that `keys_values` adds: [B, 1, 1, L]."""
    B, L = source.shape
    if source.mask is None and L >= BLOCK:
        return None
    mask = torch.zeros(B, 1, 1, L, device=source.ids.device) if source.mask is None else source.mask.clone()
    return F.pad(mask, (0, max(0, BLOCK - L)), value=-torch.inf)
