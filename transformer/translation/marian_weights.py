"""The weights of a trained model by the names that `MarianMTModel` of the library transformers has for them.

The exported model computes the same. Where that library's model differs, the weights are rearranged:

- Its sinusoids are all sines, then all cosines: the axis d_model is put in that order in every tensor that has it.
  Other tables, such as those of paper-code, whose frequencies differ, are written beside the weights.
- Its LayerNorm adds EPSILON to the variance; ours less. What a LayerNorm is given is WIDER times as large, which comes
  to the same, as their outputs do not depend on it. Its own sinusoids cannot be made larger: with them, the first
  LayerNorm of each stack differs, by less than a part in 10,000 wherever the variance is 0.05 or more.
- Its heads are d_model / h wide and its scores are divided by that width's root: narrower heads are padded with zeros,
  and queries are multiplied by what is left of the scale.
- Its decoder starts from a row of zeros, which is added as the last and is its padding, too. Our PAD, whose row of the
  softmax counts, stays as a row without a use. A bias keeps from the softmax the rows that it does not have here.
"""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import Model
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.transformer import LAYER_NORM_EPSILON, DecoderLayer, EncoderLayer, Transformer
from transformer.translation.layout import position_tables, widened, widened_output

EPSILON = 1e-5  # of torch.nn.LayerNorm where none is given, as there
WIDER = math.sqrt(EPSILON / LAYER_NORM_EPSILON)
NEVER = -1e4  # a logit whose probability is zero; infinity would make the loss of label smoothing infinite


def head_width(config: Model) -> int:
    """Return the width of a head there, which is one for queries, keys and values."""
    return config.d_model // config.h


def has_own_tables(config: Model) -> bool:
    """Return whether the model adds anything at positions that Marian's sinusoids, in another order, do not have."""
    return config.positions != "sinusoid" or config.sinusoids != "interleaved" or config.target_spaces > 0


@torch.no_grad()
def tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the model's tensors by their names there."""
    ours = Rearranged(model.config)
    ours.set_embeddings(model)
    for stack, layers, last in (("encoder", model.encoder, WIDER), ("decoder", model.decoder, 1 / ours.embedded)):
        # Of what each layer is given, and of what the last one gives.
        scales = [ours.embedded, *[WIDER] * (len(layers) - 1), last]
        for number, layer in enumerate(layers):
            ours.set_layer(f"model.{stack}.layers.{number}", layer, *scales[number : number + 2])
    return {name: tensor.contiguous() for name, tensor in ours.tensors.items()}


class Rearranged:
    """The tensors by their names there, added one by one.

    Each `scale` is how many times as large the values on the axis d_model are there.
    """

    def __init__(self, config: Model):
        places = torch.arange(config.d_model)
        self.own_tables = has_own_tables(config)
        self.embedded = WIDER if self.own_tables else 1.0  # the scale of what embeddings give
        self.order = places if self.own_tables else torch.cat([places[::2], places[1::2]])
        self.head_width = head_width(config)
        self.tensors: dict[str, Tensor] = {}

    def set_embeddings(self, model: Transformer) -> None:
        """Set §3.4 and §3.5."""
        source, target, output = (
            F.pad(rows[:, self.order] * self.embedded, (0, 0, 0, model.config.embedding_rows + 1 - len(rows)))
            for rows in (model.embedding.weight, model.target_embedding.weight, model.output_weight())
        )
        if model.config.tied:
            self.tensors["model.shared.weight"] = source
        else:
            self.tensors["model.encoder.embed_tokens.weight"] = source
            self.tensors["model.decoder.embed_tokens.weight"] = target
            self.tensors["lm_head.weight"] = output
        bias = torch.zeros(1, len(source))
        bias[:, model.config.output_rows :] = NEVER
        self.tensors["final_logits_bias"] = bias
        if self.own_tables:
            for stack, table in zip(("encoder", "decoder"), position_tables(model), strict=True):
                self.tensors[f"model.{stack}.embed_positions.weight"] = table * self.embedded

    def set_layer(self, name: str, layer: EncoderLayer | DecoderLayer, given: float, gives: float) -> None:
        """Set §3.1: a layer that is `given` values of one scale and `gives` those of another; in between is WIDER."""
        projection = (layer.self_attention.query_key_value, layer.self_attention.widths, given)
        self.set_attention(f"{name}.self_attn", layer.self_attention, [projection], given)
        self.set_norm(f"{name}.self_attn_layer_norm", layer.residuals[0].norm, WIDER)
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            projections = [(cross.query, cross.widths[:1], WIDER), (cross.key_value, cross.widths, WIDER)]
            self.set_attention(f"{name}.encoder_attn", cross, projections, WIDER)
            self.set_norm(f"{name}.encoder_attn_layer_norm", layer.residuals[1].norm, WIDER)
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        self.read(f"{name}.fc1", inner.weight, inner.bias, WIDER)
        self.write(f"{name}.fc2", outer.weight, outer.bias, WIDER)
        self.set_norm(f"{name}.final_layer_norm", layer.residuals[-1].norm, gives)

    def set_attention(
        self,
        name: str,
        layer: SelfAttention | CrossAttention,
        projections: Iterable[tuple[nn.Linear, list[int], float]],
        scale: float,
    ) -> None:
        """Set §3.2.2. projections: of queries, keys and values, each with its outputs' widths and its input's scale."""
        parts = []
        for linear, widths, given in projections:
            wide = widened(linear, widths, layer.h, self.head_width)
            parts += [(*part, given) for part in zip(*(rows.chunk(len(widths)) for rows in wide), strict=True)]
        for letter, (weight, bias, given) in zip("qkv", parts, strict=True):
            factor = layer.scale * math.sqrt(self.head_width) if letter == "q" else 1.0
            self.read(f"{name}.{letter}_proj", weight * factor, bias * factor, given)
        self.write(f"{name}.out_proj", widened_output(layer, self.head_width), layer.output.bias, scale)

    def read(self, name: str, weight: Tensor, bias: Tensor, scale: float) -> None:
        """Set a matrix from the axis d_model."""
        self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"] = weight[:, self.order] / scale, bias

    def write(self, name: str, weight: Tensor, bias: Tensor, scale: float) -> None:
        """Set a matrix, or a norm's vector, to the axis d_model."""
        for kind, tensor in (("weight", weight), ("bias", bias)):
            self.tensors[f"{name}.{kind}"] = tensor[self.order] * scale

    def set_norm(self, name: str, norm: nn.LayerNorm, scale: float) -> None:
        self.write(name, norm.weight, norm.bias, scale)
