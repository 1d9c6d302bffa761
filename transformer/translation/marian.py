"""Export of a trained model to a folder for `MarianMTModel` and `MarianTokenizer` of the library transformers.

The exported model computes the same result up to rounding and the epsilon of LayerNorm. Marian's epsilon of 1e-5
(ours: 1e-6) changes log-probabilities by less than 0.001. The export adapts the weights to all other differences:

- Marian's sinusoids are all sines, then all cosines. The export reorders the d_model axis of every tensor. Tables with
  other frequencies, such as the tables of tensor2tensor, are exported with the weights.
- Marian's heads have width d_model / h, and its scores are divided by the root of this width. The export pads narrower
  heads with zeros and multiplies queries by the remaining factor.
- Marian's decoder starts from its padding, a row of zeros. The export adds this row as the last row. A bias excludes it
  from the softmax. Our PAD remains as an unused row, because its row of the softmax counts.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import EOS, PAD, POSITIONS, UNK, Decoding, Experiment, Model
from transformer.data.corpus import UNUSED, Subwords
from transformer.model.attention import MultiHead, SelfAttention
from transformer.model.seq2seq import Seq2Seq
from transformer.model.transformer import TARGET_SPACE, Transformer, require_transformer
from transformer.storage.files import InputError, replacing
from transformer.storage.records import write_json

_PAD_NAME = "<pad>"
NEVER = -1e4  # a logit with probability zero; -infinity would make the loss of label smoothing infinite


def save_marian(model: Seq2Seq, vocabulary: Subwords, experiment: Experiment, decoding: Decoding, folder: Path) -> None:
    """Write model (float32), settings and tokeniser to a folder. Raises InputError if Marian does not support them."""
    model = require_transformer(model, "Marian")
    config = model.config
    if vocabulary.symbols:
        raise InputError("Marian: expected a translator, found a parser")
    for field in msgspec.structs.fields(Model):
        value, free = getattr(config, field.name), field.required or field.default is msgspec.UNSET
        if not (free or field.name in ("scaled", "tied", "P_drop_relu") or value == field.default):
            raise InputError(f"Marian: expected {field.name} {field.default!r}, found {value!r}")
    if config.positions == "words":
        raise InputError("Marian: expected positions sinusoid, learned or none, found 'words'")
    if config.d_model % config.h:
        raise InputError(f"Marian: expected a multiple of h = {config.h} as d_model, found {config.d_model}")
    if (widest := max(config.d_k, config.d_v)) > (width := config.d_model // config.h):
        raise InputError(f"Marian: expected d_k and d_v up to d_model / h = {width}, found {widest}")
    with replacing(folder / "model.safetensors", "wb") as file:
        file.write(safetensors.torch.save(_tensors(model), {"format": "pt"}))
    for name, content in _configuration(config, vocabulary, experiment, decoding).items():
        write_json(folder / f"{name}.json", content, indent=1, ensure_ascii=False)
    for side in ("source", "target"):
        shutil.copyfile(vocabulary.path, folder / f"{side}.spm")


def has_own_tables(config: Model) -> bool:
    """Return whether position tables differ from Marian's sinusoids in more than the order."""
    return config.positions != "sinusoid" or config.sinusoids != "interleaved" or config.target_spaces > 0


def _marian_tokens(vocabulary: Subwords, rows: int) -> list[str]:
    """Return the name of each row in Marian's vocabulary, a subword or `unused N`: [rows + 1]."""
    pieces = vocabulary.pieces[:rows]
    names = [*pieces, *(UNUSED.format(row) for row in range(len(pieces), rows))]
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
        "d_model": config.d_model,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sides.items()},
        "activation_function": "relu",
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "dropout": config.P_drop,
        "attention_dropout": config.P_drop_attention,
        "activation_dropout": config.P_drop_relu or 0.0,
        "vocab_size": rows + 1,  # the last row is Marian's padding
        "share_encoder_decoder_embeddings": config.tied,
        "tie_word_embeddings": config.tied,
        "forced_eos_token_id": None,
        **special,
    }
    generation = {
        **special,
        "num_beams": decoding.beam_size,
        "length_penalty": decoding.length_penalty,
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
    }
    vocab = {name: row for row, name in enumerate(_marian_tokens(vocabulary, rows))}
    return {"config": model, "generation_config": generation, "tokenizer_config": tokenizer, "vocab": vocab}


@torch.no_grad()
def _tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the model's tensors by their names in Marian's model."""
    axis = torch.arange(model.config.d_model)
    order = axis if has_own_tables(model.config) else torch.cat([axis[::2], axis[1::2]])
    head_width = model.config.d_model // model.config.h
    tensors = _embeddings(model, order)

    def add(name: str, weight: Tensor, bias: Tensor) -> None:
        tensors.update({f"{name}.weight": weight.contiguous(), f"{name}.bias": bias.contiguous()})

    def add_norm(name: str, norm: nn.LayerNorm) -> None:
        add(name, norm.weight[order], norm.bias[order])

    def padded(heads: Tensor) -> Tensor:
        """Pad heads [h, width, n] with rows of zeros: [d_model, n]."""
        return F.pad(heads, (0, 0, 0, head_width - heads.shape[1])).flatten(0, 1)

    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            name, inner, outer = f"model.{stack}.layers.{number}", layer.feed_forward.inner, layer.feed_forward.outer
            attentions = {"self_attn": layer.self_attention}
            if stack == "decoder":
                attentions["encoder_attn"] = layer.cross_attention
            for (part, attention), residual in zip(attentions.items(), layer.residuals, strict=False):
                for letter, rows in _projections(attention, head_width).items():
                    wide = padded(rows.unflatten(0, (attention.h, -1)))
                    add(f"{name}.{part}.{letter}_proj", wide[:, order], wide[:, -1])
                columns = padded(attention.output.weight.T.unflatten(0, (attention.h, -1))).T
                add(f"{name}.{part}.out_proj", columns[order], attention.output.bias[order])
                add_norm(f"{name}.{part}_layer_norm", residual.norm)
            add(f"{name}.fc1", inner.weight[:, order], inner.bias)
            add(f"{name}.fc2", outer.weight[order], outer.bias[order])
            add_norm(f"{name}.final_layer_norm", layer.residuals[-1].norm)
    return tensors


def _embeddings(model: Transformer, order: Tensor) -> dict[str, Tensor]:
    source, target, output = (
        F.pad(rows[:, order], (0, 0, 0, model.config.embedding_rows + 1 - len(rows)))
        for rows in (model.embedding.weight, model.target_embedding.weight, model.output_weight())
    )
    bias = torch.zeros(1, len(source))
    bias[:, model.config.output_rows :] = NEVER
    tensors = {"final_logits_bias": bias}
    if model.config.tied:
        tensors["model.shared.weight"] = source
    else:
        names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        tensors |= zip(names, (source, target, output), strict=True)
    if has_own_tables(model.config):
        for stack, embedding in (("encoder", model.embedding), ("decoder", model.target_embedding)):
            table = torch.zeros(POSITIONS, model.config.d_model)  # the format needs one tensor per stack
            if embedding.position_table is not None:
                table += embedding.position_table
            if stack == "encoder" and model.target_spaces is not None:
                table += model.target_spaces[TARGET_SPACE]
            tensors[f"model.{stack}.embed_positions.weight"] = table
    return tensors


def _projections(layer: MultiHead, head_width: int) -> dict[str, Tensor]:
    """Return W^Q, W^K and W^V by letter, with the bias as last column. W^Q has the factor for Marian's scaling."""
    linears = [layer.query_key_value] if isinstance(layer, SelfAttention) else [layer.query, layer.key_value]
    rows = torch.cat([torch.cat([linear.weight, linear.bias[:, None]], dim=1) for linear in linears])
    q, k, v = rows.split([layer.h * width for width in (layer.d_k, layer.d_k, layer.d_v)])
    return {"q": q * (layer.scale * math.sqrt(head_width)), "k": k, "v": v}
