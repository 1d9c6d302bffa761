"""The model in CTranslate2's layout.

It computes the same. Where the layout is narrower, the weights are put otherwise: heads are as wide as the wider of
d_k and d_v, filled up with zeros, and what is added to the source's embedding at every position is added to the
encoder's position table.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.common.files import InputError
from transformer.config.experiment import EOS, PAD, UNK
from transformer.data.subwords import Subwords
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.transformer import LAYER_NORM_EPSILON, TARGET_SPACE, Transformer

Spec = Any  # a layer of ctranslate2.specs


def ctranslate2() -> ModuleType:
    """The library. Raises InputError where it cannot be imported."""
    try:
        import ctranslate2
    except ImportError as error:
        raise InputError(f"CTranslate2: expected it installed, found: {error}") from None
    return ctranslate2


def save_ctranslate2(model: Transformer, vocabulary: Subwords, folder: Path) -> None:
    """Write model.bin, config.json and the vocabulary into an existing folder, in float32.

    Raises InputError on a parser and on positions "words", which CTranslate2 does not have.
    """
    if vocabulary.symbols:
        raise InputError("CTranslate2: expected a translator, found a parser")
    if model.config.positions == "words":
        raise InputError("CTranslate2: expected positions sinusoid or learned, found 'words'")
    spec = specify(model, vocabulary)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def tokens(vocabulary: Subwords, rows: int) -> list[str]:
    """What each row of an embedding stands for: a subword, or `unused N`, which no text contains."""
    pieces = [vocabulary.processor.id_to_piece(token) for token in range(min(rows, len(vocabulary)))]
    return pieces + [f"unused {row}" for row in range(len(pieces), rows)]


@torch.no_grad()
def specify(model: Transformer, vocabulary: Subwords) -> Spec:
    """The ctranslate2.specs.TransformerSpec of the model."""
    config = model.config
    spec = ctranslate2().specs.TransformerSpec.from_config(config.N, config.h, pre_norm=False)
    spec.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.register_source_vocabulary(tokens(vocabulary, config.embedding_rows))
    spec.register_target_vocabulary(tokens(vocabulary, config.output_rows))
    for key, token in {"unk": UNK, "bos": PAD, "eos": EOS, "decoder_start": PAD}.items():
        setattr(spec.config, f"{key}_token", vocabulary.processor.id_to_piece(token))
    set_embeddings(spec, model)
    for part, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        set_self_attention(part.self_attention, layer.self_attention, layer.residuals[0].norm)
        set_feed_forward(part.ffn, layer)
    for part, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        set_self_attention(part.self_attention, layer.self_attention, layer.residuals[0].norm)
        set_cross_attention(part.attention, layer.cross_attention, layer.residuals[1].norm)
        set_feed_forward(part.ffn, layer)
    return spec


def set_embeddings(spec: Spec, model: Transformer) -> None:
    """§3.4, §3.5. PAD is a zero vector where it starts the decoder, and occurs nowhere else."""
    embedding, target_spaces = model.embedding, model.target_spaces
    added = 0 if target_spaces is None else target_spaces[TARGET_SPACE]
    spec.encoder.embeddings[0].weight = embedding.weight
    spec.encoder.position_encodings.encodings = embedding.position_table + added
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding.output_weight()
    spec.decoder.position_encodings.encodings = embedding.position_table
    spec.decoder.start_from_zero_embedding = True


def set_self_attention(spec: Spec, layer: SelfAttention, norm: nn.LayerNorm) -> None:
    set_linear(spec.linear[0], *widened(layer.query_key_value, layer.widths, layer))
    set_output(spec, layer, norm)


def set_cross_attention(spec: Spec, layer: CrossAttention, norm: nn.LayerNorm) -> None:
    set_linear(spec.linear[0], *widened(layer.query, layer.widths[:1], layer))
    set_linear(spec.linear[1], *widened(layer.key_value, layer.widths, layer))
    set_output(spec, layer, norm)


def set_output(spec: Spec, layer: SelfAttention | CrossAttention, norm: nn.LayerNorm) -> None:
    """W^O, whose new columns meet zeros. The scale stays that of d_k."""
    columns = layer.output.weight.unflatten(1, (layer.h, layer.d_v))
    set_linear(spec.linear[-1], F.pad(columns, (0, width(layer) - layer.d_v)).flatten(1), layer.output.bias)
    spec.queries_scale = layer.d_k**-0.5
    set_norm(spec.layer_norm, norm)


def set_feed_forward(spec: Spec, layer: nn.Module) -> None:
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    set_linear(spec.linear_0, inner.weight, inner.bias)
    set_linear(spec.linear_1, outer.weight, outer.bias)
    set_norm(spec.layer_norm, layer.residuals[-1].norm)


def width(layer: SelfAttention | CrossAttention) -> int:
    """Of a head in CTranslate2, which knows but one for queries, keys and values."""
    return max(layer.d_k, layer.d_v)


def widened(linear: nn.Linear, widths: list[int], layer: SelfAttention | CrossAttention) -> tuple[Tensor, Tensor]:
    """Weight and bias of a projection with outputs `widths` side by side, each head filled up with rows of zeros."""
    rows = torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    heads = [part.unflatten(0, (layer.h, -1)) for part in rows.split(widths)]
    wide = torch.cat([F.pad(head, (0, 0, 0, width(layer) - head.shape[1])).flatten(0, 1) for head in heads])
    return wide[:, :-1], wide[:, -1]


def set_linear(spec: Spec, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = weight, bias


def set_norm(spec: Spec, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight, norm.bias
