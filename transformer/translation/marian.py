"""A trained model as a folder that `MarianMTModel` and `MarianTokenizer` of the library transformers load."""

import json
import shutil
from pathlib import Path

import safetensors.torch

from transformer.config.experiment import EOS, PAD, UNK, Decoding, Experiment, Model
from transformer.data.subwords import UNUSED, Subwords
from transformer.files import InputError, replacing
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.translation.layout import refuse_foreign, token_names
from transformer.translation.marian_weights import head_width, tensors

PAD_NAME = "<pad>"


def save_marian(
    model: Transformer, vocabulary: Subwords, experiment: Experiment, decoding: Decoding, folder: Path
) -> None:
    """Write the model, its configuration and its tokeniser into an existing folder, in float32.

    Raises InputError on what Marian does not have: a parser, positions "words", LayerNorm before sub-layers, a model
    without residuals, additive attention, a d_model that is no multiple of h, and heads wider than d_model / h.
    """
    refuse(model.config, vocabulary)
    data = safetensors.torch.save(tensors(model), {"format": "pt"})
    with replacing(folder / "model.safetensors", "wb") as file:
        file.write(data)
    rows = model.config.embedding_rows
    contents = {
        "config": configuration(model.config),
        "generation_config": generation(rows, len(vocabulary), decoding),
        "tokenizer_config": tokenizer(vocabulary, experiment),
        "vocab": {name: row for row, name in enumerate(names(vocabulary, rows))},
    }
    for name, content in contents.items():
        with replacing(folder / f"{name}.json") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
    for side in ("source", "target"):
        shutil.copyfile(vocabulary.path, folder / f"{side}.spm")


def refuse(config: Model, vocabulary: Subwords) -> None:
    """Raise InputError on what Marian does not have."""
    refuse_foreign("Marian", config, vocabulary)
    if config.norm != "post":
        raise InputError(f"Marian: expected norm post, found {config.norm!r}")
    if config.d_model % config.h:
        raise InputError(f"Marian: expected d_model a multiple of h = {config.h}, found {config.d_model}")
    for name, width in {"d_k": config.d_k, "d_v": config.d_v}.items():
        if width > head_width(config):
            raise InputError(f"Marian: expected {name} of d_model / h = {head_width(config)} at most, found {width}")


def names(vocabulary: Subwords, rows: int) -> list[str]:
    """Return the name of each row there: [rows + 1]."""
    own = token_names(vocabulary, rows)
    own[PAD] = UNUSED.format(PAD)
    return [*own, PAD_NAME]


def configuration(config: Model) -> dict:
    """Return the content of config.json."""
    sides = {"layers": config.N, "attention_heads": config.h, "ffn_dim": config.d_ff}
    return {
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
        "vocab_size": config.embedding_rows + 1,
        "decoder_vocab_size": config.embedding_rows + 1,
        "share_encoder_decoder_embeddings": config.tied,
        "tie_word_embeddings": config.tied,
        "forced_eos_token_id": None,
        "bos_token_id": None,
        **special_ids(config.embedding_rows),
    }


def special_ids(rows: int) -> dict[str, int]:
    return {"pad_token_id": rows, "eos_token_id": EOS, "decoder_start_token_id": rows}


def generation(rows: int, subwords: int, decoding: Decoding) -> dict:
    """Return the content of generation_config.json: what `generate` does where its caller says nothing else."""
    return special_ids(rows) | {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "max_new_tokens": POSITIONS,
        "suppress_tokens": [PAD, *range(subwords, rows)],
    }


def tokenizer(vocabulary: Subwords, experiment: Experiment) -> dict:
    """Return the content of tokenizer_config.json."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": experiment.source,
        "target_lang": experiment.target,
        "pad_token": PAD_NAME,
        "eos_token": vocabulary.pieces[EOS],
        "unk_token": vocabulary.pieces[UNK],
        "model_max_length": POSITIONS,
        "separate_vocabs": False,
        "clean_up_tokenization_spaces": False,
    }
