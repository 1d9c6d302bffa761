"""One decoder step at a time, with caches: what beam search asks of the Transformer.

Shapes: B sentences of K hypotheses each, so B * K rows; M places in a cache, L in a memory; V embedding rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD
from transformer.model.packed import Packed
from transformer.model.transformer import CrossAttention, DecoderLayer, Transformer

BLOCK = 16  # places by which caches grow, and that a memory has at least: softmax over fewer is eight times as slow


class Weights:
    """A decoder's matrices as single steps want them; for all sentences."""

    def __init__(self, model: Transformer):
        self.layers = [LayerWeights(layer) for layer in model.decoder]
        self.output = model.embedding.output_weight().detach().T.contiguous()


class LayerWeights:
    """One layer's; queries come out divided by sqrt(d_k)."""

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.widths = own.widths
        Q, *key_value = rows(own.query_key_value).split(own.widths)
        self.query_key_value = Linear(torch.cat([Q * own.d_k**-0.5, *key_value]))
        self.query = Linear(rows(cross.query) * cross.d_k**-0.5)
        self.outputs = [Linear(rows(attention.output)) for attention in (own, cross)]
        self.inner, self.outer = (Linear(rows(part)) for part in (layer.feed_forward.inner, layer.feed_forward.outer))
        self.norms = [residual.norm for residual in layer.residuals]


def rows(linear: nn.Linear) -> Tensor:
    """W with its bias as one column more: [out, in + 1]."""
    return torch.cat([linear.weight, linear.bias[:, None]], dim=1).detach()


class Linear:
    """x W + b of `rows` [out, in + 1], with W laid out as a product with few rows of x is fastest."""

    def __init__(self, rows: Tensor):
        self.W, self.b = rows[:, :-1].T.contiguous(), rows[:, -1].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.b, x, self.W)


class CachedDecoder:
    """K hypotheses for each of B sentences (search.Decoder). Only the first `vocabulary` tokens but PAD can follow.

    The memory's keys and values are computed once per sentence and shared by its hypotheses. So is the cache of their
    own: each hypothesis sees the places that its ancestors took in it. A place that none sees any more is taken again,
    so the cache stays small, and nothing in it moves when hypotheses do.
    """

    def __init__(self, model: Transformer, source: Packed, vocabulary: int, weights: Weights | None = None):
        self.embedding, self.vocabulary, self.weights = model.embedding, vocabulary, weights or Weights(model)
        memory, B = model.encode(source), source.shape[0]
        attentions = [layer.self_attention for layer in model.decoder]
        # Keys lie as `attend` wants them; to copy them into that form at each step would cost more.
        self.past = [
            [memory.new_zeros(B, own.h, own.d_k, BLOCK), memory.new_zeros(B, own.h, BLOCK, own.d_v)]
            for own in attentions
        ]
        self.seen = memory.new_full((B, 1, 1, BLOCK), -torch.inf)  # 0 where a hypothesis sees: [B, 1, K, M]
        self.memory = [keys_values(layer.cross_attention, memory, source) for layer in model.decoder]
        self.mask = padding(source)
        self.words: Tensor | None = None  # of each hypothesis, how many began, less one; where the model counts them
        self.length = 0
        self.logits = memory.new_empty(0)  # where they are computed: [the most rows so far, V]

    def step(self, tokens: Tensor) -> Tensor:
        """tokens: [B, K]. Returns log-probabilities [B, K, V] of the token after them, until the next step."""
        ids = tokens.flatten()
        x = self.embedding(ids, torch.full_like(ids, self.length), self.count_words(tokens))
        self.length += 1
        places = self.take_places(tokens.shape[1])
        for layer, past, memory in zip(self.weights.layers, self.past, self.memory, strict=True):
            x = layer.norms[0](layer.outputs[0](self.self_attention(layer, past, x, places)).add_(x))
            x = layer.norms[1](layer.outputs[1](attend(layer.query(x), *memory, self.mask)).add_(x))
            x = layer.norms[2](layer.outer(layer.inner(x).relu_()).add_(x))
        return self.log_probabilities(x).unflatten(0, tokens.shape)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """[B * K, d_model] to [B * K, vocabulary]. In one place of memory: fresh pages would double the time."""
        shape = len(x), self.weights.output.shape[1]
        if len(self.logits) < len(x):
            self.logits = x.new_empty(shape)
        logits = torch.mm(x, self.weights.output, out=self.logits[: len(x)])
        found = torch.log_softmax(logits, dim=1, out=logits)[:, : self.vocabulary]
        found[:, PAD] = -torch.inf
        return found

    def count_words(self, tokens: Tensor) -> Tensor | None:
        """The numbers of the words that are next, after these tokens [B, K]: [B * K]."""
        if self.embedding.new_word is None:
            return None
        new = self.embedding.new_word[tokens].long()
        self.words = new - 1 if self.words is None else self.words + new
        return self.words.flatten()

    def take_places(self, K: int) -> Tensor:
        """A place in the cache for each of K hypotheses, which sees it from now on: [B, K]."""
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
        """x: [B * K, d_model]; its keys and values go to `places`. Returns what each row sees: [B * K, h * d_v]."""
        keys, values = past
        Q, K, V = layer.query_key_value(x).split(layer.widths, dim=1)
        sentences = torch.arange(len(keys), device=x.device)[:, None]
        keys[sentences, :, :, places] = K.view(*places.shape, *keys.shape[1:3])
        values[sentences, :, places] = V.view(*places.shape, keys.shape[1], -1)
        return attend(Q, keys, values, self.seen)

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep these sentences, and of each these hypotheses: [b] and [b, K]."""
        self.seen = self.seen[sentences[:, None], 0, parents].unsqueeze(1)
        self.words = None if self.words is None else self.words[sentences].gather(1, parents)
        stays = sentences == torch.arange(len(sentences), device=sentences.device)
        moved = (~stays).nonzero().flatten()
        for cache in (*self.past, *self.memory):
            cache[:] = [keep(part, sentences, moved) for part in cache]
        self.mask = None if self.mask is None else keep(self.mask, sentences, moved)


def keep(x: Tensor, sentences: Tensor, moved: Tensor) -> Tensor:
    """`x[sentences]` in the place of x: only what comes from elsewhere is copied, to the places `moved`."""
    if len(moved):
        x[moved] = x[sentences[moved]]
    return x[: len(sentences)]


def attend(Q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """§3.2.1. Q: [B * K, h * d_k], scaled. keys: [B, h, d_k, M]. values: [B, h, M, d_v]. Returns [B * K, h * d_v]."""
    B, h = keys.shape[:2]
    scores = Q.view(B, len(Q) // B, h, -1).transpose(1, 2) @ keys
    if mask is not None:
        scores += mask
    return (scores.softmax(dim=-1) @ values).transpose(1, 2).reshape(len(Q), -1)


def keys_values(layer: CrossAttention, memory: Tensor, source: Packed) -> list[Tensor]:
    """[B, h, d_k, L] and [B, h, L, d_v], L at least BLOCK."""
    K, V = layer.keys_values(memory, source)
    short = max(0, BLOCK - source.shape[1])
    return [F.pad(K, (0, 0, 0, short)).mT.contiguous(), F.pad(V, (0, 0, 0, short)).contiguous()]


def padding(source: Packed) -> Tensor | None:
    """The mask of `source`, and of what `keys_values` adds: [B, 1, 1, L]."""
    B, L = source.shape
    if source.mask is None and L >= BLOCK:
        return None
    mask = torch.zeros(B, 1, 1, L, device=source.ids.device) if source.mask is None else source.mask.clone()
    return F.pad(mask, (0, max(0, BLOCK - L)), value=-torch.inf)
