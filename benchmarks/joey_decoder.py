"""JoeyNMT's own beam search, with this project's weights in JoeyNMT's model."""

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from benchmarks.decoders import Toolkit, Trained
from benchmarks.joey import network
from benchmarks.results import require
from benchmarks.weights import fill
from transformer.config.experiment import EOS, PAD, UNK
from transformer.model.transformer import Transformer

# JoeyNMT wants UNK first. Its BOS is PAD, which is what starts our decoder; all other ids are the same.
ROW = {UNK: 0, PAD: 1, EOS: 2}
SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<pad>", "eos_token": "</s>", "sep_token": None}
IDS = {"unk_id": ROW[UNK], "pad_id": ROW[PAD], "bos_id": ROW[PAD], "eos_id": ROW[EOS], "sep_id": None}


class JoeyDecoder(Toolkit):
    """JoeyNMT's search. Its decoder keeps no keys and values, but reads the whole hypothesis again at each token."""

    name = "JoeyNMT"

    def __init__(self, trained: Trained, folder: Path):
        require("joeynmt")
        logging.disable(logging.WARNING)  # it says much
        self.trained = trained
        self.device = trained.model.embedding.weight.device
        self.model = mapped(trained.model, len(trained.vocabulary)).to(self.device).eval()
        self.layer = self.model.decoder.layers[0].x_layer_norm

    def decode(self, sentences: list[list[int]], beam: int) -> list[list[int]]:
        from joeynmt.batch import Batch
        from joeynmt.search import search

        lengths = torch.tensor([len(sentence) for sentence in sentences])
        rows = [torch.tensor([ROW.get(token, token) for token in sentence]) for sentence in sentences]
        source = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=ROW[PAD])
        order = torch.arange(len(sentences))
        batch = Batch(source, lengths, None, None, None, order, self.device, ROW[PAD], ROW[EOS], is_train=False)
        batch.sort_by_src_length()
        limits, alpha = self.trained.limits(sentences), self.trained.decoding.alpha
        hypotheses, _, _ = search(self.model, batch, max(limits), beam, alpha, min_output_length=0)
        results = [[]] * len(sentences)
        for index, row in zip(batch.indices.tolist(), hypotheses, strict=True):
            results[index] = cut(row)[: limits[index]]
        return results


def cut(row: np.ndarray) -> list[int]:
    """Return JoeyNMT's rows up to EOS as our ids."""
    ours = {there: here for here, there in ROW.items()}
    ids = row.tolist()
    end = ids.index(ROW[EOS]) if ROW[EOS] in ids else len(ids)
    return [ours.get(token, token) for token in ids[:end]]


@torch.no_grad()
def mapped(ours: Transformer, rows: int) -> nn.Module:
    """Return JoeyNMT's model with our weights, the embedding's first `rows`. Raises LeftOut where it has none such."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    words = [str(token) for token in range(len(ROW), rows)]
    vocabulary = Vocabulary(words, SimpleNamespace(**SPECIAL, **IDS, lang_tags=[]))
    theirs = build_model(network(ours.config), vocabulary, vocabulary)
    copy_embedding(theirs, ours)
    for there, here in zip(theirs.encoder.layers, ours.encoder, strict=True):
        fill(attention(there.src_src_att), here.self_attention)
        copy_rest(there, here, [there.layer_norm])
    for there, here in zip(theirs.decoder.layers, ours.decoder, strict=True):
        fill(attention(there.trg_trg_att), here.self_attention)
        fill(attention(there.src_trg_att), here.cross_attention)
        copy_rest(there, here, [there.x_layer_norm, there.dec_layer_norm])
    return theirs


def copy_embedding(theirs: nn.Module, ours: Transformer) -> None:
    """Copy the embedding. PAD, which starts the decoder, is a zero vector there; in the softmax it has its row."""
    weight = ours.embedding.weight[: theirs.decoder.output_size].clone()
    for here, there in ROW.items():
        weight[there] = ours.embedding.weight[here]
    theirs.decoder.output_layer.weight = nn.Parameter(weight.clone())
    weight[ROW[PAD]] = 0
    theirs.src_embed.lut.weight.copy_(weight)


def copy_rest(theirs: nn.Module, mine: nn.Module, norms: list[nn.LayerNorm]) -> None:
    """Copy the feed-forward, and the norms in their order."""
    theirs.feed_forward.pwff_layer[0].load_state_dict(mine.feed_forward.inner.state_dict())
    theirs.feed_forward.pwff_layer[3].load_state_dict(mine.feed_forward.outer.state_dict())
    for there, here in zip([*norms, theirs.feed_forward.layer_norm], mine.residuals, strict=True):
        there.load_state_dict(here.norm.state_dict())


def attention(theirs: nn.Module) -> tuple[nn.Linear, ...]:
    """Return an attention's layers for queries, keys, values and output."""
    return theirs.q_layer, theirs.k_layer, theirs.v_layer, theirs.output_layer
