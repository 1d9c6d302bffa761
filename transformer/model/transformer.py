"""§3 Model Architecture, top-down in the paper's order and symbols.

A batch is packed: one flat stream of real tokens with the sentences' offsets, so that embedding, projections,
feed-forward and softmax see no padding between sentences. Only attention knows where sentences begin.
Shapes: n tokens, B sentences, L the longest sentence's length, V embedding rows.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD, Model
from transformer.model.kernels import Dropout, Pad, Unpad, flash, weighted_sum
from transformer.model.packed import POSITIONS, Packed

LAYER_NORM_EPSILON = 1e-6  # the authors' code; the paper does not say
TARGET_SPACE = 9  # the row that the authors' code learned for English-German; any would do, as it is the only one


class Transformer(nn.Module):
    """§3.1 Encoder and decoder stacks (Figure 1) over one embedding matrix (§3.4)."""

    def __init__(self, config: Model):
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.N))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.N))
        self.dropout = Dropout(config.P_drop)
        self.target_spaces = None
        if config.target_spaces:  # not in the paper (config/fidelity.py)
            self.target_spaces = nn.Parameter(torch.empty(config.target_spaces, config.d_model))
        initialize(self)

    def forward(self, source: Packed, target: Packed) -> Tensor:
        """Decoder output for each token of `target`, which is shifted right: [n_target, d_model].

        The logits are `output @ self.embedding.output_weight().T` (§3.4); the loss takes that product (loss.py).
        """
        return self.decode(target, self.encode(source), source)

    def encode(self, source: Packed) -> Tensor:
        """The memory: [n_source, d_model]."""
        x = self.embedding(source.ids, source.positions)
        if self.target_spaces is not None:
            x = x + self.target_spaces[TARGET_SPACE]
        x = self.dropout(x)
        for layer in self.encoder:
            x = layer(x, source)
        return x

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        """Every target token at once, each seeing only those before it: [n_target, d_model]."""
        x = self.dropout(self.embedding(target.ids, target.positions))
        for layer in self.decoder:
            x = layer(x, target, memory, source)
        return x


class EncoderLayer(nn.Module):
    """§3.1: self-attention, then feed-forward."""

    def __init__(self, config: Model):
        super().__init__()
        self.self_attention = SelfAttention(config, causal=False)
        self.feed_forward = FeedForward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(2))

    def forward(self, x: Tensor, source: Packed) -> Tensor:
        x = self.residuals[0](x, self.self_attention(x, source))
        return self.residuals[1](x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """§3.1: masked self-attention, attention over the memory, then feed-forward."""

    def __init__(self, config: Model):
        super().__init__()
        self.self_attention = SelfAttention(config, causal=True)
        self.cross_attention = CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(3))

    def forward(self, x: Tensor, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        x = self.residuals[0](x, self.self_attention(x, target))
        x = self.residuals[1](x, self.cross_attention(x, target, memory, source))
        return self.residuals[2](x, self.feed_forward(x))


class Residual(nn.Module):
    """§3.1 and §5.4: LayerNorm(x + Dropout(Sublayer(x))), post-norm."""

    def __init__(self, config: Model):
        super().__init__()
        self.dropout = Dropout(config.P_drop)
        self.norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPSILON)

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return self.norm(x + self.dropout(sublayer))


def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool, P_drop: float) -> Tensor:
    """§3.2.1, equation 1: softmax(Q K^T / sqrt(d_k) + mask) V, over padded sentences.

    Q: [B, h, L_q, d_k]. K: [B, h, L_k, d_k]. V: [B, h, L_k, d_v]. Returns [B, h, L_q, d_v].
    `causal` lets position i see only positions up to i (§3.2.3); then L_q = L_k.
    """
    if Q.is_cuda:  # one fused kernel; on a CPU the equation itself is faster at a sentence's length
        return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, is_causal=causal, dropout_p=P_drop)
    if causal:
        later = Q.new_full((Q.shape[-2], K.shape[-2]), -math.inf).triu(1)
        mask = later if mask is None else mask + later
    return weighted_sum(Q, K, V, mask, P_drop)


class MultiHead(nn.Module):
    """§3.2.2: what self-attention and cross-attention share. W^Q, W^K, W^V are one matrix where the input is one."""

    def __init__(self, config: Model):
        super().__init__()
        self.h, self.d_k, self.d_v = config.h, config.d_k, config.d_v
        self.P_drop = config.P_drop_attention
        self.output = nn.Linear(config.h * config.d_v, config.d_model)  # W^O

    def mix(self, Q: Tensor, K: Tensor, V: Tensor, queries: Packed, keys: Packed, causal: bool) -> Tensor:
        """Concat(head_1, ..., head_h): packed [n_q, h * d_k], [n_k, h * d_k] and [n_k, h * d_v] to [n_q, h * d_v]."""
        if queries.offsets is not None:
            heads = (x.view(len(x), self.h, -1) for x in (Q, K, V))
            return flash(*heads, queries.offsets, keys.offsets, queries.shape[1], keys.shape[1], causal).flatten(1)
        # Causal needs no mask of the padding: it follows every real token of its sentence.
        mask = None if causal else keys.mask
        heads = self.attend(self.heads(Q, queries), self.heads(K, keys), self.heads(V, keys), mask, causal)
        return self.concat(heads, queries)

    def heads(self, x: Tensor, packed: Packed) -> Tensor:
        """[n, h * d] packed to [B, h, L, d] padded."""
        B, L = packed.shape
        x = x if packed.slots is None else Pad.apply(x, packed.slots, B * L)
        return x.view(B, L, self.h, -1).transpose(1, 2)

    def concat(self, heads: Tensor, packed: Packed) -> Tensor:
        """[B, h, L, d_v] padded to [n, h * d_v] packed."""
        x = heads.transpose(1, 2).flatten(2).flatten(0, 1)
        return x if packed.slots is None else Unpad.apply(x, packed.slots, len(packed.ids))

    def attend(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        return attention(Q, K, V, mask, causal, self.P_drop if self.training else 0.0)


class SelfAttention(MultiHead):
    """§3.2.3: queries, keys and values all come from the previous layer."""

    def __init__(self, config: Model, causal: bool):
        super().__init__(config)
        self.causal = causal
        self.widths = [config.h * config.d_k, config.h * config.d_k, config.h * config.d_v]
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths))

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        Q, K, V = self.query_key_value(x).split(self.widths, dim=-1)
        return self.output(self.mix(Q, K, V, packed, packed, self.causal))


class CrossAttention(MultiHead):
    """§3.2.3: queries from the decoder, keys and values from the memory."""

    def __init__(self, config: Model):
        super().__init__(config)
        self.widths = [config.h * config.d_k, config.h * config.d_v]
        self.query = nn.Linear(config.d_model, config.h * config.d_k)
        self.key_value = nn.Linear(config.d_model, sum(self.widths))

    def forward(self, x: Tensor, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        K, V = self.key_value(memory).split(self.widths, dim=-1)
        return self.output(self.mix(self.query(x), K, V, target, source, causal=False))

    def keys_values(self, memory: Tensor, source: Packed) -> tuple[Tensor, Tensor]:
        """K and V of the memory, padded: [B, h, L, d_k] and [B, h, L, d_v]."""
        K, V = (self.heads(part, source) for part in self.key_value(memory).split(self.widths, dim=-1))
        return K, V


class FeedForward(nn.Module):
    """§3.3, equation 2: max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, config: Model):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(x)))


class Embedding(nn.Module):
    """§3.4 and §3.5: sqrt(d_model) times the token's row, plus its position. PAD counts as a zero vector.

    The same matrix serves source, target and the softmax. With positions "words", which is not in the paper, the number
    of the token's word is added, too: a source token's own, a target token's that of the word to be tagged next. Its
    sinusoids have their frequencies in the opposite order, so that the two sums do not mix.
    """

    def __init__(self, config: Model):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.embedding_rows, config.d_model))
        self.output_rows = config.output_rows
        self.learned = config.positions == "learned"
        if self.learned:
            self.position_table = nn.Parameter(torch.empty(POSITIONS, config.d_model))
        else:
            table = sinusoids(POSITIONS, config.d_model, config.sinusoids)
            self.register_buffer("position_table", table, persistent=False)
        # 1 for each token that begins a word or tags one; the vocabulary knows which, and it is saved with the weights.
        words = config.positions == "words"
        self.register_buffer("new_word", torch.zeros(config.embedding_rows) if words else None)

    def output_weight(self) -> Tensor:
        """The rows of the tokens that can be written, for the softmax: [output_rows, d_model]."""
        return self.weight if self.output_rows == len(self.weight) else self.weight[: self.output_rows]

    def forward(self, ids: Tensor, positions: Tensor, words: Tensor | None = None) -> Tensor:
        """ids, positions: [n], any shape. Returns [n, d_model].

        words: the numbers of the words, of the same shape; counted if not given, for sentences laid end to end.
        """
        tokens = F.embedding(ids, self.weight) * math.sqrt(self.weight.shape[1])
        x = tokens * (ids != PAD).unsqueeze(-1) + F.embedding(positions, self.position_table)
        if self.new_word is None:
            return x
        words = self.count_words(ids, positions) if words is None else words
        return x + F.embedding(words.clamp(min=0), self.position_table.flip(1))

    def count_words(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Of each token of sentences laid end to end, how many words began in its sentence up to it, less one: [n]."""
        new = self.new_word[ids].long()
        count, first = new.cumsum(0), positions == 0
        before = (count - new)[first]  # each sentence
        return count - before[first.cumsum(0) - 1] - 1


def sinusoids(length: int, d_model: int, layout: str) -> Tensor:
    """§3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same. [length, d_model].

    That is `interleaved`. `concatenated` is the authors' code: all sines, then all cosines, of exponents
    i / (d_model / 2 - 1), which end at 1; the last column of an odd width is zero.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    if layout == "interleaved":
        angle = position / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model].float()
    angle = position / 10000 ** torch.linspace(0, 1, d_model // 2, dtype=torch.float64)
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, d_model % 2)).float()


def initialize(model: Transformer) -> None:
    """The authors' code (the paper does not say): embeddings N(0, 1 / d_model), matrices Glorot uniform, biases zero.

    Q, K and V count as the one matrix that they are, so their bound is narrower than three matrices' would be. The
    table of target languages counts as a matrix, too.
    """
    for name, parameter in model.named_parameters():
        if name.startswith("embedding."):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
