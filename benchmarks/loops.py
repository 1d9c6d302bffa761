"""The training loops of the systems, run in turns. A system has a `loop` and the `dtype` of its matrix products."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from greenlet import getcurrent, greenlet
from torch import Tensor, nn

from benchmarks.results import LeftOut, require, require_paper
from benchmarks.workload import NEVER, Workload
from transformer.config.experiment import PAD, POSITIONS, UNK, rate
from transformer.device import best_device
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.transformer import LAYER_NORM_EPSILON, Transformer, sinusoids
from transformer.process import StopSignals
from transformer.storage.files import write_columns
from transformer.training.batches import plan_batches
from transformer.training.loop import TrainingRun
from transformer.training.step import Update, compute_dtype

SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}  # JoeyNMT's ids


@dataclass
class Step:
    """The batch of one step, and its loss."""

    lengths: np.ndarray  # [2, pairs] numbers of source and target tokens
    positions: int  # number of positions in both sides' batches, with padding
    loss: Callable[[], float] | None = None  # label-smoothed, per target token, in nats; None if not comparable


class Loop:
    """A training loop that calls `pause` before each step."""

    def __init__(self, run: Callable[[], object]):
        self.greenlet = greenlet(run)
        self.next: Step = self.greenlet.switch()  # run until the first step

    def step(self) -> Step:
        """Let the loop run its next step and halt before the following step."""
        done, self.next = self.next, self.greenlet.switch()
        if self.greenlet.dead:
            raise RuntimeError("a training loop ended before the benchmark was complete")
        return done

    def close(self) -> None:
        """End the halted loop. The loop cleans up first."""
        self.greenlet.throw()


def pause(step: Step) -> None:
    """Halt the calling loop before this step, until its next turn."""
    getcurrent().parent.switch(step)


class Halting(TrainingRun):
    """This project's training with a halt before each step."""

    def update(self, indices: np.ndarray, *rest) -> Update:
        lengths = self.text.lengths[:, indices]
        step = Step(lengths, positions=0)
        pause(step)
        update = super().update(indices, *rest)
        step.positions = int(lengths.sum()) + update.padding
        step.loss = lambda: update.smoothed / lengths[1].sum()
        return update


class Ours:
    """This project's training, as in the command `train`."""

    def __init__(self, folder: Path, workload: Workload):
        run = workload.training(folder, Halting)
        self.dtype = run.learner.dtype
        self.loop = Loop(lambda: run.train(StopSignals()))


class Network(nn.Module):
    """The model of the plain loop: nn.Transformer with one shared embedding matrix, initialised with our weights."""

    def __init__(self, ours: Transformer):
        super().__init__()
        config = self.config = ours.config
        require_paper("torch.nn.Transformer", config)
        self.embedding = nn.Parameter(ours.embedding.weight.detach().clone())
        self.register_buffer("positions", sinusoids(POSITIONS, config.d_model, config.sinusoids))
        sizes = (config.d_model, config.h, config.N, config.N, config.d_ff, config.P_drop)
        self.layers = nn.Transformer(*sizes, layer_norm_eps=LAYER_NORM_EPSILON, batch_first=True)
        self.layers.encoder.norm = self.layers.decoder.norm = None  # only pre-norm needs a final norm
        theirs = [*self.layers.encoder.layers, *self.layers.decoder.layers]
        for layer, mine in zip(theirs, [*ours.encoder, *ours.decoder], strict=True):
            copy_layer(layer, mine)
            # PyTorch sets one dropout rate for all positions. The paper has no dropout inside the feed-forward network.
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
        # PyTorch spreads epsilon over all V tokens, the authors' code over the V - 1 wrong tokens.
        V = len(self.embedding)
        smoothing = {"ignore_index": PAD, "label_smoothing": epsilon * V / (V - 1)}
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), **smoothing)

    def embed(self, ids: Tensor) -> Tensor:
        tokens = F.embedding(ids, self.embedding) * math.sqrt(self.config.d_model) * (ids != PAD).unsqueeze(-1)
        return F.dropout(tokens + self.positions[: ids.shape[1]], self.config.P_drop, self.training)


@torch.no_grad()
def copy_layer(theirs: nn.Module, mine: nn.Module) -> None:
    """Copy the weights of our layer to a layer of nn.Transformer."""
    pairs = [(theirs.linear1, mine.feed_forward.inner), (theirs.linear2, mine.feed_forward.outer)]
    pairs += [(getattr(theirs, f"norm{number}"), r.norm) for number, r in enumerate(mine.residuals, start=1)]
    copy_attention(theirs.self_attn, mine.self_attention)
    if hasattr(theirs, "multihead_attn"):
        copy_attention(theirs.multihead_attn, mine.cross_attention)
    for there, here in pairs:
        there.load_state_dict(here.state_dict())


def copy_attention(theirs: nn.MultiheadAttention, mine: SelfAttention | CrossAttention) -> None:
    """Copy the weights of an attention. PyTorch stores queries, keys and values in one matrix."""
    parts = [mine.query_key_value] if isinstance(mine, SelfAttention) else [mine.query, mine.key_value]
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(mine.output.state_dict())


class Plain:
    """A typical training loop around nn.Transformer, with padded batches, PyTorch's loss and PyTorch's Adam."""

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
        limits = experiment.training.budgets, experiment.training.longest
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


class Joey:
    """JoeyNMT's TrainManager, data loader, batching and loss. On a GPU, its option fp16 selects float16.

    Its tokeniser is incompatible with our version of SentencePiece. Therefore it reads the ids of subwords as words.
    """

    def __init__(self, folder: Path, workload: Workload):
        require("joeynmt")
        logging.disable(logging.WARNING)
        self.dtype = torch.float16 if best_device().type == "cuda" else torch.float32
        for split, text in (("train", workload.text), ("dev", workload.dev)):
            sides = [text.source, text.target]
            pairs = ([" ".join(map(str, side[index][:-1])) for side in sides] for index in range(len(text.source)))
            write_columns(pairs, [folder / f"{split}.source", folder / f"{split}.target"])
        # JoeyNMT adds four special words, so its vocabulary has one row more.
        words = range(UNK + 1, workload.experiment.model.embedding_rows)
        write_columns(([str(word)] for word in words), [folder / "words.txt"])
        self.settings = settings(workload, folder, fp16=self.dtype == torch.float16)
        self.loop = Loop(self.train)

    def train(self) -> None:
        """Train like `python -m joeynmt train`, with a TrainManager that halts before each step."""
        from joeynmt.config import parse_global_args, set_validation_args
        from joeynmt.prediction import prepare
        from joeynmt.training import TrainManager

        class HaltingManager(TrainManager):
            def _train_step(self, batch):
                source, target = (mask.sum(dim=(1, 2)).tolist() for mask in (batch.src_mask, batch.trg_mask))
                pause(Step(np.array([source, target]), batch.src.numel() + batch.trg.numel()))
                return super()._train_step(batch)

        args = parse_global_args(self.settings, rank=0, mode="train")
        model, train, dev, _ = prepare(args, rank=0, mode="train")
        options = {"model_dir": args.model_dir, "device": args.device, "n_gpu": args.n_gpu, "autocast": args.autocast}
        sections = {"seed": args.seed, "train_args": args.train, "dev_args": set_validation_args(args.test)}
        HaltingManager(rank=0, model=model, **options, **sections).train_and_validate(train, dev)


def settings(workload: Workload, folder: Path, fp16: bool) -> dict:
    """Return JoeyNMT's configuration of our model, training and data. Raises LeftOut if JoeyNMT lacks the model."""
    model, training = workload.experiment.model, workload.experiment.training
    require_paper("JoeyNMT", model)
    if not training.warmup or model.sinusoids != "interleaved":
        raise LeftOut("JoeyNMT supports only a warm-up schedule with interleaved sinusoids")
    side = {"level": "word", "lowercase": False, "max_length": -1, "voc_file": str(folder / "words.txt")}
    symbols = {f"{name}_id": id for name, id in SPECIAL.items()} | {f"{name}_token": f"<{name}>" for name in SPECIAL}
    data = {split: str(folder / split) for split in ("train", "dev")}
    sides = {"src": {"lang": "source"} | side, "trg": {"lang": "target"} | side}
    sizes = {"num_layers": model.N, "num_heads": model.h, "hidden_size": model.d_model, "ff_size": model.d_ff}
    embeddings = {"embedding_dim": model.d_model, "scale": True, "dropout": model.P_drop}
    stack = {"type": "transformer", "layer_norm": "post", "dropout": model.P_drop, "embeddings": embeddings} | sizes
    tied = {"tied_embeddings": True, "tied_softmax": True}
    initial = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    return {
        **{"name": "benchmark", "model_dir": str(folder), "random_seed": workload.experiment.seed},
        **{"use_cuda": fp16, "fp16": fp16},
        "data": data | sides | {"dataset_type": "plain", "special_symbols": symbols},
        "training": {
            **{"optimizer": "adam", "adam_betas": [training.beta1, training.beta2], "scheduling": "noam"},
            **{
                "learning_rate": training.learning_rate_scale,
                "learning_rate_factor": training.learning_rate_scale,
                "learning_rate_min": 0.0,
            },
            **{"learning_rate_warmup": training.warmup_steps, "loss": "crossentropy", "normalization": "tokens"},
            **{"label_smoothing": training.epsilon_ls, "batch_size": training.target_tokens, "batch_type": "token"},
            **{"epochs": NEVER, "validation_freq": NEVER, "logging_freq": 100, "shuffle": True},
        },
        "testing": {"beam_size": 1, "n_best": 1},
        "model": tied | initial | {"encoder": stack, "decoder": stack},
    }
