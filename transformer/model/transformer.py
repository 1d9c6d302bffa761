"""§3 Model Architecture, top-down in the paper's order and symbols. §3.2 is in attention.py.

A batch is packed (packed.py): only attention separates sentences. Shapes: n tokens, V embedding rows.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD, POSITIONS, Model
from transformer.model.attention import CrossAttention, MultiHead, SelfAttention
from transformer.model.batch_norm import BatchNorm
from transformer.model.cost import Lengths, training_flops
from transformer.model.incremental import CACHE_BLOCK, CachedDecoder, Weights
from transformer.model.kernels import Dropout
from transformer.model.packed import Packed, pack
from transformer.model.seq2seq import Decoders, Seq2Seq, embed
from transformer.storage.files import InputError

LAYER_NORM_EPSILON = 1e-6  # from the authors' code; the paper gives no value
TARGET_SPACE = 9  # the authors' row for English-German. The choice has no effect, because no other row is used


class Transformer(Seq2Seq):
    """§3.1 Encoder and decoder stacks (Figure 1) with one embedding matrix (§3.4), or three untied matrices."""

    shortest = CACHE_BLOCK

    def __init__(self, config: Model):
        super().__init__(config)
        self.embedding = Embedding(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.N))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.N))
        # Only pre-norm needs a last norm: the paper's last layer ends with a LayerNorm.
        last_norm = nn.Identity if config.norm != "pre" else partial(nn.LayerNorm, config.d_model, LAYER_NORM_EPSILON)
        self.encoder_norm, self.decoder_norm = last_norm(), last_norm()
        self.dropout = Dropout(config.P_drop)
        self.untied_target = None if config.tied else Embedding(config)
        self.untied_output = None if config.tied else nn.Parameter(torch.empty(config.output_rows, config.d_model))
        # Not in the paper (`recipes` in config.yaml).
        spaces = torch.empty(config.target_spaces, config.d_model)
        self.target_spaces = nn.Parameter(spaces) if config.target_spaces else None
        # Like the authors' code: embeddings from N(0, 1 / d_model), matrices Glorot uniform, biases 0.
        for name, parameter in self.named_parameters():
            if parameter.is_meta:  # a sketch has no values, and PyTorch would load its compiler to set them (3 s)
                break
            if name.startswith(("embedding.", "untied_")):
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @property
    def target_embedding(self) -> "Embedding":
        return self.embedding if self.untied_target is None else self.untied_target

    @property
    def new_word(self) -> Tensor | None:
        return self.embedding.new_word

    def output_weight(self) -> Tensor:
        if self.untied_output is not None:
            return self.untied_output
        weight, rows = self.embedding.weight, self.config.output_rows
        return weight if rows == len(weight) else weight[:rows]

    def encode(self, source: Packed) -> Tensor:
        x = self.embedding(source.ids, source.positions)
        if self.target_spaces is not None:
            x = x + self.target_spaces[TARGET_SPACE]
        x = self.dropout(self._stream(x))
        for layer in self.encoder:
            x = layer(x, source)
        return self.encoder_norm(x)

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        x = self.dropout(self._stream(self.target_embedding(target.ids, target.positions)))
        for layer in self.decoder:
            x = layer(x, target, memory, source)
        return self.decoder_norm(x)

    def incremental(self) -> Decoders:
        weights = Weights(self.target_embedding, self.decoder, self.decoder_norm, self.output_weight())
        return lambda source, vocabulary: CachedDecoder(weights, self.encode(source), source, vocabulary)

    def fits_blocks(self, device: torch.device, dtype: torch.dtype) -> bool:
        # FlexAttention supports dot products in 16 bits without dropout. It has no kernel for narrower heads, and its
        # kernel for wider heads is slow. Batch normalisation sums over processes; a compiled step cannot.
        plain = self.config.attention == "dot" and self.config.P_drop_attention == 0 and self.config.norm != "batch"
        heads = all(16 <= width <= 256 for width in (self.config.d_k, self.config.d_v))
        return plain and heads and device.type == "cuda" and dtype == torch.bfloat16

    def flops(self, lengths: Lengths) -> float:
        return training_flops(self.config, lengths)

    def _stream(self, x: Tensor) -> Tensor:
        """Convert embeddings to 16 bits for the first layer. Pre-norm keeps its residual sum in 32 bits."""
        return x if self.config.norm == "pre" else _narrowed(x)


class EncoderLayer(nn.Module):
    """§3.1: self-attention, then feed-forward."""

    def __init__(self, config: Model):
        super().__init__()
        self.self_attention = SelfAttention(config, causal=False)
        self.feed_forward = FeedForward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(2))

    def forward(self, x: Tensor, source: Packed) -> Tensor:
        x = self.residuals[0](x, lambda x: self.self_attention(x, source), source)
        return self.residuals[1](x, self.feed_forward, source)


class DecoderLayer(nn.Module):
    """§3.1: masked self-attention, attention over the memory, then feed-forward."""

    def __init__(self, config: Model):
        super().__init__()
        self.self_attention = SelfAttention(config, causal=True)
        self.cross_attention = CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = nn.ModuleList(Residual(config) for _ in range(3))

    def forward(self, x: Tensor, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        x = self.residuals[0](x, lambda x: self.self_attention(x, target), target)
        x = self.residuals[1](x, lambda x: self.cross_attention(x, target, memory, source), target)
        return self.residuals[2](x, self.feed_forward, target)


class Residual(nn.Module):
    """§3.1 and §5.4: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x))).

    Batch normalisation is not in the paper. It replaces LayerNorm in the first formula.
    """

    def __init__(self, config: Model):
        super().__init__()
        self.post, self.batch, self.residual = config.norm != "pre", config.norm == "batch", config.residual
        self.dropout = Dropout(config.P_drop)
        self.norm = BatchNorm(config.d_model) if self.batch else nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPSILON)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], stream: Packed | None = None) -> Tensor:
        """Return the output [n, d_model]. stream: the batch of x, whose padding batch normalisation ignores."""
        out = self.dropout(sublayer(x if self.post else self.norm(x)))
        out = x + out if self.residual else out
        if not self.post:
            return out
        return _narrowed(self.norm(out, stream.count) if self.batch else self.norm(out))


class FeedForward(nn.Module):
    """§3.3, equation 2: max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, config: Model):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.P_drop_relu) if config.P_drop_relu else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activate(self.inner(x))))

    @staticmethod
    def activate(x: Tensor) -> Tensor:
        """Return max(0, x). Beam search also calls this method, with its own layout of the matrices."""
        return F.relu(x, inplace=not torch.is_grad_enabled())


def _narrowed(x: Tensor) -> Tensor:
    """Return x in 16 bits if a GPU's products are in 16 bits, because this halves the memory traffic."""
    return x.to(torch.get_autocast_dtype("cuda")) if x.is_cuda and torch.is_autocast_enabled("cuda") else x


class Embedding(nn.Module):
    """§3.4 and §3.5: sqrt(d_model) times the token's row, plus its position. The row of PAD counts as zero.

    Positions "words" are not in the paper. They also encode a word's number in its sentence, with sinusoids in reverse
    order of frequency. It is the number of a source token's word, or of the next word that the target tags.
    """

    def __init__(self, config: Model):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.embedding_rows, config.d_model))
        if config.positions == "learned":
            self.position_table = nn.Parameter(torch.empty(POSITIONS, config.d_model))
        else:
            fixed = config.positions != "none" and not self.weight.is_meta  # a sketch has no values
            table = sinusoids(POSITIONS, config.d_model, config.sinusoids) if fixed else None
            self.register_buffer("position_table", table, persistent=False)
        # 1 for each token that begins or tags a word. It comes from the vocabulary and is saved with the weights.
        words = config.positions == "words"
        self.register_buffer("new_word", torch.zeros(config.embedding_rows) if words else None)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed packed `ids` at `positions`: [n, d_model]."""
        x = self.rows(ids)
        if self.position_table is not None:
            x = x + F.embedding(positions, self.position_table)
        if self.new_word is not None:
            words = self.count_words(ids, positions)
            x = x + F.embedding(words.clamp(min=0), self.position_table.flip(1))
        return x

    def rows(self, ids: Tensor) -> Tensor:
        return embed(ids, self.weight) * math.sqrt(self.weight.shape[1])

    def count_words(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return for each packed token the number of words that have begun in its sentence, minus one: [n]."""
        new = self.new_word[ids].long()
        count = new.cumsum(0)
        first = torch.arange(len(ids), device=ids.device) - positions  # index of the sentence's first token
        return count - (count - new)[first] - 1


def sinusoids(length: int, d_model: int, layout: str) -> Tensor:
    """Return §3.5's table, [length, d_model]: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos.

    `concatenated` (the authors' code): all sines, then all cosines, with exponents i / (d_model / 2 - 1).
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    if layout == "interleaved":
        angle = position / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model].float()
    angle = position / 10000 ** torch.linspace(0, 1, d_model // 2, dtype=torch.float64)
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, d_model % 2)).float()


def require_transformer(model: Seq2Seq, purpose: str) -> Transformer:
    """Return the model if it is a Transformer. Raises InputError on another architecture."""
    if not isinstance(model, Transformer):
        raise InputError(f"{purpose}: expected a Transformer, found the architecture {type(model).__name__}")
    return model


def attentions(model: Seq2Seq) -> dict[str, list[MultiHead]]:
    """Return the layers' attention modules (§3.2) by kind: "encoder" and "decoder" (self-attention), "cross"."""
    model = require_transformer(model, "attention heads")
    return {
        "encoder": [layer.self_attention for layer in model.encoder],
        "decoder": [layer.self_attention for layer in model.decoder],
        "cross": [layer.cross_attention for layer in model.decoder],
    }


@torch.inference_mode()
def attention_weights(model: Seq2Seq, source: list[int], target: list[int]) -> dict[str, Tensor]:
    """Return softmax(Q K^T / sqrt(d_k)) [N, h, queries, keys] by kind for a sentence pair, both sides ending in EOS.

    In the decoder, query i belongs to output token i, and key i to input token i, which is output token i - 1.
    """
    if (longest := max(len(source), len(target))) > POSITIONS:
        raise InputError(f"expected up to {POSITIONS} tokens, found a sentence with {longest}")
    weights = defaultdict(list)
    with ExitStack() as stack:
        for kind, modules in attentions(model).items():
            for module in modules:
                stack.enter_context(hooked(module, weights[kind].append))
        model(*(pack([np.array(ids)], model.device) for ids in (source, [PAD, *target[:-1]])))
    return {kind: torch.cat(weights[kind]).cpu() for kind in attentions(model)}


@contextmanager
def hooked(module: MultiHead, hook: Callable[[Tensor], None]) -> Iterator[None]:
    """Pass the attention weights [B, h, queries, keys] of each call to `hook`. They are the output for V = identity."""
    attend = module.attend

    def attend_and_call(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        identity = torch.eye(K.shape[-2], dtype=V.dtype, device=V.device).expand(*K.shape[:2], -1, -1)
        hook(attend(Q, K, identity, mask, causal))
        return attend(Q, K, V, mask, causal)

    module.attend = attend_and_call
    try:
        yield
    finally:
        del module.attend  # uncovers the method of the class
