"""GNMT (Wu et al., 2016) in its usual benchmark form: LSTM layers with additive attention.

Only the first decoder layer's output is a query of attention, so each layer runs over whole sentences at once.
Shapes: B sentences on a padded grid of length L; d = d_model.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from transformer.config.experiment import Model
from transformer.model.attention import attention
from transformer.model.cost import Lengths
from transformer.model.kernels import Dropout
from transformer.model.packed import Packed
from transformer.model.seq2seq import Decoders, Seq2Seq, StatefulDecoder, embed, linear_flops

# Initial matrices and biases are uniform within ±_UNIFORM / √d. This is ±0.1, the benchmark's bound, at its width of
# 1024. With a bound of 0.1, a narrower model passes on almost no signal and does not start to learn.
_UNIFORM = 0.1 * math.sqrt(1024)
Memory = list[Tensor | None]  # keys and values [B, 1, L, d], and the padding mask
HiddenStates = list[Tensor]  # h and c of each layer: [rows, d]


class LSTM(Seq2Seq):
    """Encoder: a bidirectional layer, then N - 1 layers. Decoder: N layers. Layers are residual from the third on."""

    def __init__(self, config: Model):
        super().__init__(config)
        d, layers = config.d_model, range(1, config.N)
        self.embedding = nn.Parameter(torch.empty(config.embedding_rows, d))
        self.left_to_right, self.right_to_left = _lstm(d, d), _lstm(d, d)
        self.encoder = nn.ModuleList(_lstm(2 * d if number == 1 else d, d) for number in layers)
        self.attention = NormalizedAttention(d)
        self.decoder = nn.ModuleList([_lstm(d, d), *(_lstm(2 * d, d) for _ in layers)])
        self.dropout = Dropout(config.P_drop)
        if not self.embedding.is_meta:  # a sketch has no values
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -_UNIFORM / math.sqrt(d), _UNIFORM / math.sqrt(d))
            self.attention.reset()

    def output_weight(self) -> Tensor:
        return self.embedding[: self.config.output_rows]

    def encode(self, source: Packed) -> Tensor:
        x, backwards = self.dropout(embed(source.ids, self.embedding)), _reversed(source)
        both = [(self.left_to_right, source), (self.right_to_left, backwards)]
        x = torch.cat([packed.from_grid(layer(packed.to_grid(x))[0]) for layer, packed in both], dim=1)
        x = source.to_grid(x)
        for number, layer in enumerate(self.encoder):
            out = layer(self.dropout(x))[0]
            x = x + out if number else out
        return source.from_grid(x)

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        x = target.to_grid(embed(target.ids, self.embedding))
        return target.from_grid(self.run(x, self.remember(memory, source))[0])

    def remember(self, memory: Tensor, source: Packed) -> Memory:
        """Convert the encoder's output [n_source, d] to the padded layout of attention."""
        return [source.to_grid(self.attention.key(memory))[:, None], source.to_grid(memory)[:, None], source.mask]

    def run(self, x: Tensor, memory: Memory, states: HiddenStates | None = None) -> tuple[Tensor, HiddenStates]:
        """Run the decoder on x [rows, T, d] from `states` or zeros; return outputs [rows, T, d] and the next states.

        In training, a row is a sentence of T tokens. In a step of beam search, a row is one token of a hypothesis.
        """
        after: HiddenStates = []
        context = x.new_empty(*x.shape[:2], 0)
        for number, layer in enumerate(self.decoder):
            before = None if states is None else (states[2 * number][None], states[2 * number + 1][None])
            out, state = layer(self.dropout(torch.cat([x, context], dim=2)), before)
            after += [each[0] for each in state]
            x = x + out if number > 1 else out
            if number == 0:
                context = self.attention(x.reshape(len(memory[0]), -1, x.shape[2]), *memory).view_as(x)
        return x, after

    def incremental(self) -> Decoders:
        return lambda source, vocabulary: _LSTMSteps(self, source, vocabulary)

    def flops(self, lengths: Lengths) -> float:
        """Count the products of tokens with matrices, and for attention a score and a product per query and key."""
        key = self.attention.key
        encoder = linear_flops(self.left_to_right, self.right_to_left, self.encoder, key)
        decoder = linear_flops(self.decoder, self.attention.query) + 2 * self.output_weight().numel()
        pairs = 4 * self.config.d_model * lengths.products
        return 3.0 * (encoder * lengths.source + decoder * lengths.target + pairs)


class NormalizedAttention(nn.Module):
    """Additive attention (Bahdanau et al., 2015) with normalised scores: g · v/‖v‖ · tanh(W q + U k + b)."""

    def __init__(self, d: int):
        super().__init__()
        self.query, self.key = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)  # W and U
        self.v, self.b = nn.Parameter(torch.empty(d)), nn.Parameter(torch.empty(d))
        self.g = nn.Parameter(torch.empty(1))

    def reset(self) -> None:
        nn.init.constant_(self.g, len(self.v) ** -0.5)
        nn.init.zeros_(self.b)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return a context for each query [B, Q, d]. keys (already projected by `key`) and values: [B, 1, L, d]."""
        v = (self.g * self.v / self.v.norm())[None]
        queries = (self.query(queries) + self.b)[:, None]
        return attention(queries, keys, values, mask, causal=False, P_drop=0.0, additive=v)[:, 0]


class _LSTMSteps(StatefulDecoder):
    """The decoder for beam search."""

    def __init__(self, model: LSTM, source: Packed, vocabulary: int):
        memory = model.remember(model.encode(source), source)
        zeros = memory[1].new_zeros(len(memory[1]), model.config.d_model)
        super().__init__(model, vocabulary, memory, [zeros] * (2 * model.config.N))

    def advance(self, tokens: Tensor) -> Tensor:
        x = embed(tokens, self.model.embedding)[:, None]
        output, self.states = self.model.run(x, self.memory, self.states)
        return output[:, 0]


def _lstm(inputs: int, d: int) -> nn.LSTM:
    return nn.LSTM(inputs, d, batch_first=True)


def _reversed(source: Packed) -> Packed:
    """Return the sentences with a grid in which each sentence is reversed. Its padding stays at its end."""
    B, L = source.shape
    slots = torch.arange(B * L, device=source.ids.device) if source.slots is None else source.slots
    lengths = L if source.mask is None else (source.mask == 0).sum(dim=3).flatten()[slots // L]
    return replace(source, slots=slots + lengths - 1 - 2 * source.positions[: len(slots)])
