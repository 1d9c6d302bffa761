"""The loop that a person writes around torch.nn.Transformer: padded batches, PyTorch's own loss and Adam.

It gets this project's batches and first weights, equation 3's rate, and dropout in the same places, so that its loss
falls as this project's does, apart from dropout's random draws.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.loops import Loop, Step, grid, pause
from benchmarks.results import LeftOut
from benchmarks.weights import projections
from benchmarks.workload import Workload
from transformer.config.experiment import PAD, Model
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.packed import POSITIONS
from transformer.model.transformer import LAYER_NORM_EPSILON, Transformer, sinusoids
from transformer.runtime.device import best_device
from transformer.training.batches import plan
from transformer.training.step import compute_dtype, rate


class Network(nn.Module):
    """nn.Transformer between one embedding matrix and its softmax, with the weights of `ours`."""

    def __init__(self, ours: Transformer):
        super().__init__()
        config = self.config = ours.config
        refuse(config)
        self.embedding = nn.Parameter(ours.embedding.weight.detach().clone())
        self.register_buffer("positions", sinusoids(POSITIONS, config.d_model, config.sinusoids))
        sizes = (config.d_model, config.h, config.N, config.N, config.d_ff, config.P_drop)
        self.layers = nn.Transformer(*sizes, layer_norm_eps=LAYER_NORM_EPSILON, batch_first=True)
        self.layers.encoder.norm = self.layers.decoder.norm = None  # which pre-norm needs
        for mine, theirs in zip([*ours.encoder, *ours.decoder], self.stack(), strict=True):
            copy_layer(theirs, mine)
            self.drop_as_the_paper_does(theirs)

    def stack(self) -> list[nn.Module]:
        """Return the layers, the encoder's first."""
        return [*self.layers.encoder.layers, *self.layers.decoder.layers]

    def drop_as_the_paper_does(self, layer: nn.Module) -> None:
        """Drop nothing in the feed-forward, and attention weights by P_drop_attention; PyTorch has one rate for all."""
        layer.dropout.p = 0.0
        for module in layer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = self.config.P_drop_attention

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


def refuse(config: Model) -> None:
    """Raise LeftOut where nn.Transformer has no such model."""
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        raise LeftOut("torch.nn.Transformer has no d_k and d_v of their own")
    if config.departures:
        raise LeftOut(f"the loop around torch.nn.Transformer is of the paper's model, found {config.departures}")
    if config.positions != "sinusoid" or config.target_spaces or config.output_rows != config.embedding_rows:
        raise LeftOut("the loop around torch.nn.Transformer has sinusoids and one full embedding matrix alone")


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
    weight, bias = projections(mine)
    theirs.in_proj_weight.copy_(weight)
    theirs.in_proj_bias.copy_(bias)
    theirs.out_proj.load_state_dict(mine.output.state_dict())


class Plain:
    """The loop; its matrix products are float32, which is PyTorch's default."""

    name = "torch.nn.Transformer"
    compiled = False

    def __init__(self, workload: Workload, folder: Path):
        self.workload, self.training = workload, workload.experiment.training
        self.device = best_device()
        self.dtype = self.product_dtype()
        torch.manual_seed(workload.experiment.seed)
        self.network = Network(Transformer(workload.experiment.model)).to(self.device)
        self.forward = torch.compile(self.network, dynamic=True) if self.compiled else self.network
        betas = (self.training.beta1, self.training.beta2)
        self.adam = torch.optim.Adam(self.network.parameters(), betas=betas, eps=self.training.epsilon)
        self.loop = Loop(self.train)
        self.step, self.close = self.loop.step, self.loop.close

    def product_dtype(self) -> torch.dtype:
        return torch.float32

    def train(self) -> None:
        for number, indices in enumerate(self.batches(), start=1):
            lengths = self.workload.text.lengths[:, indices]
            step = Step(lengths, grid(lengths))
            pause(step)
            step.loss = self.learn(indices, self.rate(number)).item

    def batches(self) -> Iterator[np.ndarray]:
        """Yield this project's batches, in its order."""
        epoch, experiment = 0, self.workload.experiment
        while True:
            yield from plan(experiment.seed, epoch, self.workload.text.lengths, self.workload.budgets)
            epoch += 1

    def rate(self, step: int) -> float:
        return rate(self.workload.experiment, step)

    def learn(self, indices: np.ndarray, rate: float) -> Tensor:
        """Make one step on the batch of these pairs, and return the loss."""
        text = self.workload.text
        source, labels = (self.pad([side[index] for index in indices]) for side in (text.source, text.target))
        target = F.pad(labels[:, :-1], (1, 0), value=PAD)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            loss = self.forward(source, target, labels, self.training.epsilon_ls)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss.detach()

    def pad(self, sentences: list[np.ndarray]) -> Tensor:
        """Return the sentences as padded token ids [B, L]."""
        rows = [torch.from_numpy(sentence.astype(np.int64)) for sentence in sentences]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)


class PlainAsOurs(Plain):
    """The plain loop with this project's type of products."""

    name = "torch.nn.Transformer, products as this project's"

    def product_dtype(self) -> torch.dtype:
        dtype = compute_dtype(self.device, self.workload.experiment.model.d_model)
        if dtype == torch.float32:
            raise LeftOut("this project's products are float32 here, too")
        return dtype


class PlainCompiled(Plain):
    """The plain loop with this project's type of products, compiled."""

    name = "torch.nn.Transformer, compiled, products as this project's"
    compiled = True

    def product_dtype(self) -> torch.dtype:
        if self.device.type != "cuda":
            raise LeftOut("compiled for a GPU alone")
        return compute_dtype(self.device, self.workload.experiment.model.d_model)
