"""JoeyNMT, a teaching toolkit that is in use, driven by its own TrainManager, data loader, batching and loss.

Its SentencePiece tokeniser does not work with this project's version, so it gets this project's subwords as words,
each written as the number of its row. That saves it the work of cutting text into subwords.
"""

import logging
from pathlib import Path

import numpy as np
import torch

from benchmarks.loops import Loop, Step, pause
from benchmarks.results import LeftOut, require, require_paper
from benchmarks.workload import NEVER, Workload
from transformer.config.experiment import UNK, Model
from transformer.device import best_device
from transformer.storage.files import write_columns

SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}  # JoeyNMT's ids


class Joey:
    """JoeyNMT's training. On a GPU it computes in float16, as JoeyNMT does with its option fp16; else in float32."""

    def __init__(self, folder: Path, workload: Workload):
        require("joeynmt")
        logging.disable(logging.WARNING)  # it says much
        self.dtype = torch.float16 if best_device().type == "cuda" else torch.float32
        for split, text in (("train", workload.text), ("dev", workload.dev)):
            sides = [text.source, text.target]
            pairs = ([" ".join(map(str, side[index][:-1])) for side in sides] for index in range(len(text.source)))
            write_columns(pairs, [folder / f"{split}.source", folder / f"{split}.target"])
        # JoeyNMT puts four words of its own before these, so that it has one row more.
        words = range(UNK + 1, workload.experiment.model.embedding_rows)
        write_columns(([str(word)] for word in words), [folder / "words.txt"])
        self.settings = settings(workload, folder, fp16=self.dtype == torch.float16)
        self.loop = Loop(self.train)

    def train(self) -> None:
        """Do what `python -m joeynmt train` does, with a TrainManager that is halted before each step."""
        from joeynmt.config import parse_global_args, set_validation_args
        from joeynmt.prediction import prepare
        from joeynmt.training import TrainManager

        class Halting(TrainManager):
            def _train_step(self, batch):
                source, target = (mask.sum(dim=(1, 2)).tolist() for mask in (batch.src_mask, batch.trg_mask))
                pause(Step(np.array([source, target]), batch.src.numel() + batch.trg.numel()))
                return super()._train_step(batch)

        args = parse_global_args(self.settings, rank=0, mode="train")
        model, train, dev, _ = prepare(args, rank=0, mode="train")
        options = {"model_dir": args.model_dir, "device": args.device, "n_gpu": args.n_gpu, "autocast": args.autocast}
        sections = {"seed": args.seed, "train_args": args.train, "dev_args": set_validation_args(args.test)}
        Halting(rank=0, model=model, **options, **sections).train_and_validate(train, dev)


def settings(workload: Workload, folder: Path, fp16: bool) -> dict:
    """Return JoeyNMT's configuration of the same model, training and data."""
    training = workload.experiment.training
    if not training.warmup:
        raise LeftOut("JoeyNMT has no such rate without warm-up")
    side = {"level": "word", "lowercase": False, "max_length": -1, "voc_file": str(folder / "words.txt")}
    symbols = {f"{name}_id": id for name, id in SPECIAL.items()} | {f"{name}_token": f"<{name}>" for name in SPECIAL}
    data = {split: str(folder / split) for split in ("train", "dev")}
    sides = {"src": {"lang": "source"} | side, "trg": {"lang": "target"} | side}
    return {
        **{"name": "benchmark", "model_dir": str(folder), "random_seed": workload.experiment.seed},
        **{"use_cuda": fp16, "fp16": fp16},
        "data": data | sides | {"dataset_type": "plain", "special_symbols": symbols},
        "training": {
            **{"optimizer": "adam", "adam_betas": [training.beta1, training.beta2], "scheduling": "noam"},
            **{"learning_rate": training.rate, "learning_rate_factor": training.rate, "learning_rate_min": 0.0},
            **{"learning_rate_warmup": training.warmup_steps, "loss": "crossentropy", "normalization": "tokens"},
            **{"label_smoothing": training.epsilon_ls, "batch_size": training.target_tokens, "batch_type": "token"},
            **{"epochs": NEVER, "validation_freq": NEVER, "logging_freq": 100, "shuffle": True},
        },
        "testing": {"beam_size": 1, "n_best": 1},
        "model": network(workload.experiment.model),
    }


def network(model: Model) -> dict:
    """Return the `model` of JoeyNMT's configuration. Raises LeftOut if JoeyNMT has no such model."""
    require_paper("JoeyNMT", model)
    if model.sinusoids != "interleaved":
        raise LeftOut("JoeyNMT has interleaved sinusoids alone")
    sizes = {"num_layers": model.N, "num_heads": model.h, "hidden_size": model.d_model, "ff_size": model.d_ff}
    embeddings = {"embedding_dim": model.d_model, "scale": True, "dropout": model.P_drop}
    stack = {"type": "transformer", "layer_norm": "post", "dropout": model.P_drop, "embeddings": embeddings} | sizes
    tied = {"tied_embeddings": True, "tied_softmax": True}
    initial = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    return tied | initial | {"encoder": stack, "decoder": stack}
