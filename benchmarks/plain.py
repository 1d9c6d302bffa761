"""The loop that a person writes around torch.nn.Transformer: padded batches, PyTorch's own loss and Adam.

It gets this project's batches and first weights, equation 3's rate, and dropout in the same places, so that its loss
falls as this project's does, apart from dropout's random draws.
"""

import math
from itertools import chain, count
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.loops import Loop, Step, pause
from benchmarks.results import require_paper
from benchmarks.workload import Workload
from transformer.config.experiment import PAD, POSITIONS, rate
from transformer.device import best_device
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.transformer import LAYER_NORM_EPSILON, Transformer, sinusoids
from transformer.training.batches import longest_sentence, plan_batches
from transformer.training.step import compute_dtype


class Network(nn.Module):
    """nn.Transformer between one embedding matrix and its softmax, with the weights of `ours`."""

    def __init__(self, ours: Transformer):
        super().__init__()
        config = self.config = ours.config
        require_paper("torch.nn.Transformer", config)
        self.embedding = nn.Parameter(ours.embedding.weight.detach().clone())
        self.register_buffer("positions", sinusoids(POSITIONS, config.d_model, config.sinusoids))
        sizes = (config.d_model, config.h, config.N, config.N, config.d_ff, config.P_drop)
        self.layers = nn.Transformer(*sizes, layer_norm_eps=LAYER_NORM_EPSILON, batch_first=True)
        self.layers.encoder.norm = self.layers.decoder.norm = None  # which pre-norm needs
        theirs = [*self.layers.encoder.layers, *self.layers.decoder.layers]
        for layer, mine in zip(theirs, [*ours.encoder, *ours.decoder], strict=True):
            copy_layer(layer, mine)
            # PyTorch has one rate for all; the paper drops nothing in the feed-forward.
            layer.dropout.p = 0.0
            for module in layer.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = config.P_drop_attention

    def forward(self, source: Tensor, target: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        """Return the mean smoothed cross-entropy. source: [B, L_s]. target, shifted right, and labels: [B, L_t]."""
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding, "tgt_mask": causal}
        output = self.layers(self.embed(source), self.embed(target), tgt_is_causal=True, **masks)
        logits = F.linear(output, self.embedding)
        # PyTorch spreads epsilon over all V rows, the paper's code over the V - 1 wrong ones.
        V = len(self.embedding)
        smoothing = {"ignore_index": PAD, "label_smoothing": epsilon * V / (V - 1)}
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), **smoothing)

    def embed(self, ids: Tensor) -> Tensor:
        tokens = F.embedding(ids, self.embedding) * math.sqrt(self.config.d_model) * (ids != PAD).unsqueeze(-1)
        return F.dropout(tokens + self.positions[: ids.shape[1]], self.config.P_drop, self.training)


@torch.no_grad()
def copy_layer(theirs: nn.Module, mine: nn.Module) -> None:
    """Give an nn.Transformer*Layer the weights of one of ours."""
    pairs = [(theirs.linear1, mine.feed_forward.inner), (theirs.linear2, mine.feed_forward.outer)]
    pairs += [(getattr(theirs, f"norm{number}"), r.norm) for number, r in enumerate(mine.residuals, start=1)]
    copy_attention(theirs.self_attn, mine.self_attention)
    if hasattr(theirs, "multihead_attn"):
        copy_attention(theirs.multihead_attn, mine.cross_attention)
    for there, here in pairs:
        there.load_state_dict(here.state_dict())


def copy_attention(theirs: nn.MultiheadAttention, mine: SelfAttention | CrossAttention) -> None:
    """Copy an attention's weights; queries, keys and values are one matrix there."""
    parts = [mine.query_key_value] if isinstance(mine, SelfAttention) else [mine.query, mine.key_value]
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(mine.output.state_dict())


class Plain:
    """The loop. Its products are float32, PyTorch's default; on a GPU they are this project's, under autocast."""

    def __init__(self, folder: Path, workload: Workload):
        self.workload, model = workload, workload.experiment.model
        self.device = best_device()
        gpu = self.device.type == "cuda"
        self.dtype = compute_dtype(self.device, model.d_model) if gpu else torch.float32
        torch.manual_seed(workload.experiment.seed)
        self.network = Network(Transformer(model)).to(self.device)
        self.loop = Loop(self.train)

    def train(self) -> None:
        experiment, text, training = self.workload.experiment, self.workload.text, self.workload.experiment.training
        betas = (training.beta1, training.beta2)
        adam = torch.optim.Adam(self.network.parameters(), betas=betas, eps=training.epsilon)
        limits = self.workload.budgets, longest_sentence(experiment.training)
        plans = (plan_batches(experiment.seed, epoch, text.lengths, *limits) for epoch in count())
        for number, indices in enumerate(chain.from_iterable(plans), start=1):
            lengths = text.lengths[:, indices]
            step = Step(lengths, int(lengths.max(axis=1).sum() * lengths.shape[1]))
            pause(step)
            source, labels = (self.pad([side[index] for index in indices]) for side in (text.source, text.target))
            target = F.pad(labels[:, :-1], (1, 0), value=PAD)
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
                loss = self.network(source, target, labels, training.epsilon_ls)
            for group in adam.param_groups:
                group["lr"] = rate(experiment, number)
            adam.zero_grad()
            loss.backward()
            adam.step()
            step.loss = loss.detach().item

    def pad(self, sentences: list[np.ndarray]) -> Tensor:
        rows = [torch.from_numpy(sentence.astype(np.int64)) for sentence in sentences]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)
