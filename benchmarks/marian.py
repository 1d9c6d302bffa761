"""Hugging Face's MarianMTModel and its `generate`, with this project's weights."""

from pathlib import Path

import torch
from torch import nn

from benchmarks.decoders import Toolkit, Trained
from benchmarks.results import LeftOut, require
from benchmarks.weights import fill
from transformer.config.experiment import EOS, PAD, Model
from transformer.model.packed import POSITIONS
from transformer.model.transformer import LAYER_NORM_EPSILON, Transformer


class Marian(Toolkit):
    """MarianMTModel's search. The model's table of positions takes ours; LayerNorm's epsilon is set to ours."""

    name = "Transformers (MarianMTModel)"

    def __init__(self, trained: Trained, folder: Path):
        require("transformers")
        refuse(trained.model.config)
        self.trained = trained
        self.device = trained.model.embedding.weight.device
        self.model = mapped(trained.model).to(self.device).eval()
        self.layer = self.model.model.decoder.layers[0].self_attn_layer_norm

    @torch.inference_mode()
    def decode(self, sentences: list[list[int]], beam: int) -> list[list[int]]:
        rows = [torch.tensor(sentence) for sentence in sentences]
        limits = self.trained.limits(sentences)
        source = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)
        outputs = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            length_penalty=self.trained.decoding.alpha,
            max_new_tokens=max(limits),
            suppress_tokens=[PAD, *range(len(self.trained.vocabulary), len(self.trained.model.embedding.weight))],
            do_sample=False,
        )
        return [cut(row[1:])[:limit] for row, limit in zip(outputs.tolist(), limits, strict=True)]


def cut(ids: list[int]) -> list[int]:
    """Return the ids before EOS."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


def refuse(config: Model) -> None:
    """Raise LeftOut where MarianMTModel has no such model."""
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        raise LeftOut("MarianMTModel has no d_k and d_v of their own")
    if config.departures:
        raise LeftOut(f"MarianMTModel has the paper's model, found {config.departures}")
    if config.positions == "words" or config.target_spaces or config.output_rows != config.embedding_rows:
        raise LeftOut("MarianMTModel has positions and one full embedding matrix alone")


@torch.no_grad()
def mapped(ours: Transformer) -> nn.Module:
    """Return MarianMTModel with our weights."""
    from transformers import MarianConfig, MarianMTModel

    config = ours.config
    sizes = {"layers": config.N, "ffn_dim": config.d_ff, "attention_heads": config.h}
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.embedding_rows,
            d_model=config.d_model,
            max_position_embeddings=POSITIONS,
            activation_function="relu",
            scale_embedding=True,
            tie_word_embeddings=False,
            pad_token_id=PAD,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=PAD,
            **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in sizes.items()},
        )
    )
    copy_embedding(theirs, ours)
    for there, here in zip(theirs.model.encoder.layers, ours.encoder, strict=True):
        copy_layer(there, here, [there.self_attn_layer_norm])
    for there, here in zip(theirs.model.decoder.layers, ours.decoder, strict=True):
        fill(attention(there.encoder_attn), here.cross_attention)
        copy_layer(there, here, [there.self_attn_layer_norm, there.encoder_attn_layer_norm])
    return theirs


def copy_embedding(theirs: nn.Module, ours: Transformer) -> None:
    """Copy the embedding. PAD, which starts the decoder, is a zero vector there; in the softmax it has its row."""
    weight = ours.embedding.weight
    theirs.lm_head.weight.copy_(weight)
    for part in (theirs.model.encoder, theirs.model.decoder):
        part.embed_tokens.weight.copy_(weight)
        part.embed_tokens.weight[PAD] = 0
        part.embed_positions.weight.copy_(ours.embedding.position_table)


def copy_layer(theirs: nn.Module, mine: nn.Module, norms: list[nn.LayerNorm]) -> None:
    """Copy the self-attention, the feed-forward, and the norms in their order."""
    fill(attention(theirs.self_attn), mine.self_attention)
    theirs.fc1.load_state_dict(mine.feed_forward.inner.state_dict())
    theirs.fc2.load_state_dict(mine.feed_forward.outer.state_dict())
    for there, here in zip([*norms, theirs.final_layer_norm], mine.residuals, strict=True):
        there.load_state_dict(here.norm.state_dict())
        there.eps = LAYER_NORM_EPSILON


def attention(theirs: nn.Module) -> tuple[nn.Linear, ...]:
    """Return an attention's layers for queries, keys, values and output."""
    return theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj
