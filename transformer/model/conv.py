"""ConvS2S (Gehring et al., 2017): convolutions with gated linear units, and attention in each decoder block.

Convolutions run over packed sentences and read zeros beyond a sentence's ends. A sum of two terms is multiplied by √0.5
to preserve the variance (§3.4 of the ConvS2S paper, and its code). Shapes: n tokens; d = d_model; kernel width k.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from transformer.config.experiment import POSITIONS, Model
from transformer.model.attention import attention
from transformer.model.cost import Lengths
from transformer.model.kernels import Dropout
from transformer.model.packed import Packed
from transformer.model.seq2seq import Decoders, Seq2Seq, StatefulDecoder, embed, linear_flops

_EMBEDDING = 0.1  # standard deviation of initial embeddings (§3.5 of the ConvS2S paper)
_HALF = math.sqrt(0.5)
ConvMemory = list[Tensor | None]  # keys and values [B, 1, L, d], square roots of the lengths [B, 1, 1], padding mask


class Conv(Seq2Seq):
    """N blocks in the encoder and in the decoder, with a linear map before and after each stack."""

    def __init__(self, config: Model):
        super().__init__(config)
        d, P_keep = config.d_model, 1 - config.P_drop
        self.embedding = nn.Parameter(torch.empty(config.embedding_rows, d))
        self.source = Positions(d)
        self.target = Positions(d)
        self.encoder_in, self.encoder_out, self.decoder_in, self.decoder_out = (_linear(d, d, P_keep) for _ in range(4))
        self.encoder = nn.ModuleList(_linear(config.k * d, 2 * d, 4 * P_keep) for _ in range(config.N))
        self.decoder = nn.ModuleList(DecoderBlock(config) for _ in range(config.N))
        self.dropout = Dropout(config.P_drop)
        if not self.embedding.is_meta:  # a sketch has no values
            for table in (self.embedding, self.source.position_table, self.target.position_table):
                nn.init.normal_(table, std=_EMBEDDING)

    def output_weight(self) -> Tensor:
        return self.embedding[: self.config.output_rows]

    def encode(self, source: Packed) -> Tensor:
        """Return z and (z + e) √0.5, the keys and the values of all blocks' attention: [n_source, 2 * d]."""
        e = self.dropout(embed(source.ids, self.embedding) + self.source(source.positions))
        x = self.encoder_in(e)
        left = (self.config.k - 1) // 2
        for convolution in self.encoder:
            windows = _windows(self.dropout(x), source.positions, left, self.config.k - 1 - left)
            x = (F.glu(convolution(windows)) + x) * _HALF
        z = self.encoder_out(x)
        if z.requires_grad:  # z gets two gradients from each block's attention: through keys and through values
            z.register_hook(lambda gradient: gradient / (2 * self.config.N))
        return torch.cat([z, (z + e) * _HALF], dim=1)

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        remembered = self.remember(memory, source)

        def attend(queries: Tensor) -> Tensor:
            return target.from_grid(_attend(target.to_grid(queries), *remembered))

        def windows(_: int, x: Tensor) -> Tensor:
            return _windows(x, target.positions, self.config.k - 1, 0)

        return self.run(target.ids, target.positions, windows, attend)

    def remember(self, memory: Tensor, source: Packed) -> ConvMemory:
        """Convert the encoder's output [n_source, 2 * d] to the padded layout of attention."""
        B, L = source.shape
        keys, values = source.to_grid(memory).chunk(2, dim=2)
        lengths = keys.new_full((B,), L) if source.mask is None else (source.mask == 0).sum(dim=3).flatten()
        return [keys[:, None], values[:, None], lengths.sqrt()[:, None, None], source.mask]

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        windows: Callable[[int, Tensor], Tensor],
        attend: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Run the decoder on ids [n] and return its outputs [n, d].

        windows: maps a block's number and inputs [n, d] to the last k inputs at each token, [n, k * d]. attend: maps
        queries [n, d] to contexts.
        """
        g = self.dropout(embed(ids, self.embedding) + self.target(positions))
        x = self.decoder_in(g)
        for number, block in enumerate(self.decoder):
            h = F.glu(block.convolution(windows(number, self.dropout(x))))
            context = block.context(attend((block.query(h) + g) * _HALF))
            x = ((h + context) * _HALF + x) * _HALF
        return self.dropout(self.decoder_out(x))

    def incremental(self) -> Decoders:
        return lambda source, vocabulary: _ConvSteps(self, source, vocabulary)

    def flops(self, lengths: Lengths) -> float:
        """Count the products of tokens with matrices. Attention has two products for each block, query and key."""
        encoder = linear_flops(self.encoder_in, self.encoder, self.encoder_out)
        decoder = linear_flops(self.decoder_in, self.decoder, self.decoder_out) + 2 * self.output_weight().numel()
        pairs = 4 * self.config.N * self.config.d_model * lengths.products
        return 3.0 * (encoder * lengths.source + decoder * lengths.target + pairs)


class Positions(nn.Module):
    """Learned embeddings of positions."""

    def __init__(self, d: int):
        super().__init__()
        self.position_table = nn.Parameter(torch.empty(POSITIONS, d))

    def forward(self, positions: Tensor) -> Tensor:
        return F.embedding(positions, self.position_table)


class DecoderBlock(nn.Module):
    """The weights of a block: a convolution to 2d channels for the gated linear unit, and two maps of attention."""

    def __init__(self, config: Model):
        super().__init__()
        d, P_keep = config.d_model, 1 - config.P_drop
        self.convolution = _linear(config.k * d, 2 * d, 4 * P_keep)
        self.query, self.context = _linear(d, d), _linear(d, d)


class _ConvSteps(StatefulDecoder):
    """The decoder for beam search. It saves each block's inputs at the last k - 1 tokens; they are zero at first."""

    def __init__(self, model: Conv, source: Packed, vocabulary: int):
        memory = model.remember(model.encode(source), source)
        zeros = memory[0].new_zeros(source.shape[0], (model.config.k - 1) * model.config.d_model)
        super().__init__(model, vocabulary, memory, [zeros] * model.config.N)
        self.length = 0

    def advance(self, tokens: Tensor) -> Tensor:
        B, d = len(self.memory[0]), self.model.config.d_model

        def windows(number: int, x: Tensor) -> Tensor:
            window = torch.cat([self.states[number], x], dim=1)
            self.states[number] = window[:, d:]
            return window

        def attend(queries: Tensor) -> Tensor:
            return _attend(queries.view(B, -1, d), *self.memory).flatten(0, 1)

        positions = torch.full_like(tokens, self.length)
        self.length += 1
        return self.model.run(tokens, positions, windows, attend)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, roots: Tensor, mask: Tensor | None) -> Tensor:
    """Return contexts [B, Q, d] of queries [B, Q, d]. A mean of m values times √m has the variance of one value."""
    return attention(queries[:, None], keys, values, mask, causal=False, P_drop=0.0, scale=1.0)[:, 0] * roots


def _windows(x: Tensor, positions: Tensor, left: int, right: int) -> Tensor:
    """Return each token with its neighbours, [n, (left + 1 + right) * d]; zeros beyond the sentence's ends."""
    parts = []
    for offset in range(-left, right + 1):
        moved = x.roll(-offset, dims=0)
        same = positions.roll(-offset) == positions + offset
        parts.append(moved if offset == 0 else moved * same[:, None])
    return torch.cat(parts, dim=1)


def _linear(inputs: int, outputs: int, variance: float = 1.0) -> nn.Linear:
    """Return a linear map with weight normalisation. variance: initial variance of outputs for inputs of variance 1."""
    linear = nn.Linear(inputs, outputs)
    if not linear.weight.is_meta:
        nn.init.normal_(linear.weight, std=math.sqrt(variance / inputs))
        nn.init.zeros_(linear.bias)
    return weight_norm(linear)
