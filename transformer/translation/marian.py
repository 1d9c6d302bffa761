"""A trained model as a folder that `MarianMTModel` and `MarianTokenizer` of the library transformers load.

The exported model computes the same. Where Marian's model differs, the weights are rearranged:

- Its sinusoids are all sines, then all cosines: the axis d_model is put in that order in every tensor. Other tables,
  such as those of paper-code, whose frequencies differ, are written beside the weights.
- Its LayerNorm adds _EPSILON to the variance; ours less. Inputs of a LayerNorm are _WIDER times as large there, which
  changes no output. Its own sinusoids cannot be made larger: with them, the first LayerNorm of each stack differs, by
  less than a part in 10,000 if the variance is 0.05 or more.
- Its heads are d_model / h wide and its scores are divided by that width's root: narrower heads are padded with zeros,
  and queries are multiplied by the rest of the scale.
- Its decoder starts from a row of zeros, which is added as the last and is its padding, too. Our PAD stays as a row
  without a use: its row of the softmax counts. A bias excludes rows that our softmax does not have.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import EOS, PAD, UNK, Decoding, Experiment, Model
from transformer.data.corpus import UNUSED, Subwords
from transformer.files import InputError, replacing
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.packed import POSITIONS
from transformer.model.transformer import LAYER_NORM_EPSILON, TARGET_SPACE, DecoderLayer, EncoderLayer, Transformer

_PAD_NAME = "<pad>"
_EPSILON = 1e-5  # default of torch.nn.LayerNorm, as in Marian
_WIDER = math.sqrt(_EPSILON / LAYER_NORM_EPSILON)
NEVER = -1e4  # a logit whose probability is zero; infinity would make the loss of label smoothing infinite


def save_marian(
    model: Transformer, vocabulary: Subwords, experiment: Experiment, decoding: Decoding, folder: Path
) -> None:
    """Write the model, its configuration and its tokeniser into an existing folder, in float32. Raises InputError."""
    _refuse(model.config, vocabulary)
    with replacing(folder / "model.safetensors", "wb") as file:
        file.write(safetensors.torch.save(_tensors(model), {"format": "pt"}))
    for name, content in _configuration(model.config, vocabulary, experiment, decoding).items():
        with replacing(folder / f"{name}.json") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
    for side in ("source", "target"):
        shutil.copyfile(vocabulary.path, folder / f"{side}.spm")


def _refuse(config: Model, vocabulary: Subwords) -> None:
    width = config.d_model // config.h
    for fits, problem in (
        (not vocabulary.symbols, "a translator, found a parser"),
        (config.positions != "words", "positions sinusoid, learned or none, found 'words'"),
        (config.residual, "residual true, found false"),
        (config.attention == "dot", f"attention dot, found {config.attention!r}"),
        (config.norm == "post", f"norm post, found {config.norm!r}"),
        (config.d_model % config.h == 0, f"d_model a multiple of h = {config.h}, found {config.d_model}"),
        (config.d_k <= width, f"d_k of d_model / h = {width} at most, found {config.d_k}"),
        (config.d_v <= width, f"d_v of d_model / h = {width} at most, found {config.d_v}"),
    ):
        if not fits:
            raise InputError(f"Marian: expected {problem}")


def has_own_tables(config: Model) -> bool:
    """Return whether position tables differ from Marian's sinusoids by more than their order."""
    return config.positions != "sinusoid" or config.sinusoids != "interleaved" or config.target_spaces > 0


def marian_tokens(vocabulary: Subwords, rows: int) -> list[str]:
    """Return the name of each row there, a subword or `unused N`: [rows + 1]."""
    pieces = vocabulary.pieces[:rows]
    names = pieces + [UNUSED.format(row) for row in range(len(pieces), rows)]
    names[PAD] = UNUSED.format(PAD)
    return [*names, _PAD_NAME]


def _configuration(
    config: Model, vocabulary: Subwords, experiment: Experiment, decoding: Decoding
) -> dict[str, dict[str, Any]]:
    """Return the contents of the JSON files."""
    rows = config.embedding_rows
    special = {"pad_token_id": rows, "eos_token_id": EOS, "decoder_start_token_id": rows}
    sides = {"layers": config.N, "attention_heads": config.h, "ffn_dim": config.d_ff}
    model = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": config.d_model,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sides.items()},
        "activation_function": "relu",
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "dropout": config.P_drop,
        "attention_dropout": config.P_drop_attention,
        "activation_dropout": 0.0,
        "vocab_size": rows + 1,
        "decoder_vocab_size": rows + 1,
        "share_encoder_decoder_embeddings": config.tied,
        "tie_word_embeddings": config.tied,
        "forced_eos_token_id": None,
        "bos_token_id": None,
        **special,
    }
    generation = {
        **special,
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "max_new_tokens": POSITIONS,
        "suppress_tokens": [PAD, *range(len(vocabulary), rows)],
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": experiment.source,
        "target_lang": experiment.target,
        "pad_token": _PAD_NAME,
        "eos_token": vocabulary.pieces[EOS],
        "unk_token": vocabulary.pieces[UNK],
        "model_max_length": POSITIONS,
        "separate_vocabs": False,
        "clean_up_tokenization_spaces": False,
    }
    vocab = {name: row for row, name in enumerate(marian_tokens(vocabulary, rows))}
    return {"config": model, "generation_config": generation, "tokenizer_config": tokenizer, "vocab": vocab}


@torch.no_grad()
def _tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the model's tensors by their names there."""
    ours = _Rearranged(model.config)
    ours.set_embeddings(model)
    for stack, layers, last in (("encoder", model.encoder, _WIDER), ("decoder", model.decoder, 1 / ours.embedded)):
        # The scales of each layer's input, and of the last one's output.
        scales = [ours.embedded, *[_WIDER] * (len(layers) - 1), last]
        for number, layer in enumerate(layers):
            ours.set_layer(f"model.{stack}.layers.{number}", layer, *scales[number : number + 2])
    return {name: tensor.contiguous() for name, tensor in ours.tensors.items()}


class _Rearranged:
    """The tensors by their names there, added one by one. A `scale` is that of values on the axis d_model there."""

    def __init__(self, config: Model):
        places = torch.arange(config.d_model)
        self.own_tables = has_own_tables(config)
        self.embedded = _WIDER if self.own_tables else 1.0  # the scale of embeddings
        self.order = places if self.own_tables else torch.cat([places[::2], places[1::2]])
        self.head_width = config.d_model // config.h
        self.tensors: dict[str, Tensor] = {}

    def set_embeddings(self, model: Transformer) -> None:
        source, target, output = (
            F.pad(rows[:, self.order] * self.embedded, (0, 0, 0, model.config.embedding_rows + 1 - len(rows)))
            for rows in (model.embedding.weight, model.target_embedding.weight, model.output_weight())
        )
        if model.config.tied:
            self.tensors["model.shared.weight"] = source
        else:
            names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
            self.tensors |= zip(names, (source, target, output), strict=True)
        bias = torch.zeros(1, len(source))
        bias[:, model.config.output_rows :] = NEVER
        self.tensors["final_logits_bias"] = bias
        if self.own_tables:
            zeros = torch.zeros(POSITIONS, model.config.d_model)
            for stack, embedding in (("encoder", model.embedding), ("decoder", model.target_embedding)):
                table = zeros if embedding.position_table is None else embedding.position_table
                if stack == "encoder" and model.target_spaces is not None:
                    table = table + model.target_spaces[TARGET_SPACE]
                self.tensors[f"model.{stack}.embed_positions.weight"] = table * self.embedded

    def set_layer(self, name: str, layer: EncoderLayer | DecoderLayer, given: float, gives: float) -> None:
        """Set §3.1. given, gives: the scales of input and output; in between it is _WIDER."""
        inner = layer.feed_forward.inner
        self.set_attention(f"{name}.self_attn", layer.self_attention, given)
        self.write(f"{name}.self_attn_layer_norm", layer.residuals[0].norm, _WIDER)
        if isinstance(layer, DecoderLayer):
            self.set_attention(f"{name}.encoder_attn", layer.cross_attention, _WIDER)
            self.write(f"{name}.encoder_attn_layer_norm", layer.residuals[1].norm, _WIDER)
        self.read(f"{name}.fc1", inner.weight, inner.bias, _WIDER)
        self.write(f"{name}.fc2", layer.feed_forward.outer, _WIDER)
        self.write(f"{name}.final_layer_norm", layer.residuals[-1].norm, gives)

    def set_attention(self, name: str, layer: SelfAttention | CrossAttention, scale: float) -> None:
        projections = [layer.query_key_value] if isinstance(layer, SelfAttention) else [layer.query, layer.key_value]
        rows = torch.cat([torch.cat([linear.weight, linear.bias[:, None]], dim=1) for linear in projections])
        widths = [layer.h * width for width in (layer.d_k, layer.d_k, layer.d_v)]
        for letter, part in zip("qkv", rows.split(widths), strict=True):
            wide = self.widened(part.unflatten(0, (layer.h, -1)))
            factor = layer.scale * math.sqrt(self.head_width) if letter == "q" else 1.0
            self.read(f"{name}.{letter}_proj", wide[:, :-1] * factor, wide[:, -1] * factor, scale)
        columns = self.widened(layer.output.weight.T.unflatten(0, (layer.h, layer.d_v))).T
        self.write(f"{name}.out_proj", layer.output, scale, columns)

    def widened(self, heads: Tensor) -> Tensor:
        """Pad heads [h, width, n] with rows of zeros: [d_model, n]."""
        return F.pad(heads, (0, 0, 0, self.head_width - heads.shape[1])).flatten(0, 1)

    def read(self, name: str, weight: Tensor, bias: Tensor, scale: float) -> None:
        self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"] = weight[:, self.order] / scale, bias

    def write(self, name: str, part: nn.Linear | nn.LayerNorm, scale: float, weight: Tensor | None = None) -> None:
        """Set a matrix, the part's own if no other is given, or a norm's vector, to the axis d_model."""
        for kind, tensor in (("weight", part.weight if weight is None else weight), ("bias", part.bias)):
            self.tensors[f"{name}.{kind}"] = tensor[self.order] * scale
