"""JoeyNMT, a teaching toolkit that is in use, driven by its own TrainManager, data loader, batching and loss.

Its SentencePiece tokeniser does not work with this project's version, so it gets this project's subwords as words,
each written as the number of its row. That saves it the work of cutting text into subwords.
"""

import logging
from pathlib import Path

import numpy as np
import torch

from benchmarks.loops import Loop, Step, pause
from benchmarks.results import LeftOut, require
from benchmarks.workload import NEVER, Workload
from transformer.config.experiment import UNK, Model
from transformer.runtime.device import best_device
from transformer.training.batches import ParallelText

SPECIAL = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}  # JoeyNMT's ids


class Joey:
    """JoeyNMT's training. On a GPU it computes in float16, as JoeyNMT does with its option fp16; else in float32."""

    name = "JoeyNMT"

    def __init__(self, workload: Workload, folder: Path):
        require("joeynmt")
        logging.disable(logging.WARNING)  # it says much
        self.device = best_device()
        self.dtype = torch.float16 if self.device.type == "cuda" else torch.float32
        model = workload.experiment.model
        for split, text in (("train", workload.text), ("dev", workload.dev)):
            write_words(folder / split, text)
        write_vocabulary(folder / "words.txt", model.embedding_rows)
        self.settings = settings(workload, folder, fp16=self.dtype == torch.float16)
        self.loop = Loop(self.train)
        self.step, self.close = self.loop.step, self.loop.close

    def train(self) -> None:
        """Do what `python -m joeynmt train` does, with a TrainManager that is halted before each step."""
        from joeynmt.config import parse_global_args, set_validation_args
        from joeynmt.prediction import prepare

        args = parse_global_args(self.settings, rank=0, mode="train")
        model, train, dev, _ = prepare(args, rank=0, mode="train")
        options = {"model_dir": args.model_dir, "device": args.device, "n_gpu": args.n_gpu, "autocast": args.autocast}
        sections = {"seed": args.seed, "train_args": args.train, "dev_args": set_validation_args(args.test)}
        halting_manager()(rank=0, model=model, **options, **sections).train_and_validate(train, dev)


def halting_manager() -> type:
    """Return a subclass of JoeyNMT's TrainManager that halts before each step."""
    from joeynmt.training import TrainManager

    class Halting(TrainManager):
        def _train_step(self, batch):
            source, target = (mask.sum(dim=(1, 2)).tolist() for mask in (batch.src_mask, batch.trg_mask))
            pause(Step(np.array([source, target]), batch.src.numel() + batch.trg.numel()))
            return super()._train_step(batch)

    return Halting


def settings(workload: Workload, folder: Path, fp16: bool) -> dict:
    """Return JoeyNMT's configuration of the same model, training and data."""
    experiment, training = workload.experiment, workload.experiment.training
    if not training.warmup:
        raise LeftOut("JoeyNMT has no such rate without warm-up")
    side = {"level": "word", "lowercase": False, "max_length": -1, "voc_file": str(folder / "words.txt")}
    symbols = {
        f"{name}_{key}": value for name, id in SPECIAL.items() for key, value in (("id", id), ("token", f"<{name}>"))
    }
    return {
        "name": "benchmark",
        "model_dir": str(folder),
        "use_cuda": best_device().type == "cuda",
        "fp16": fp16,
        "random_seed": experiment.seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "source"} | side,
            "trg": {"lang": "target"} | side,
            "special_symbols": symbols,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [training.beta1, training.beta2],
            "learning_rate": training.rate,
            "learning_rate_min": 0.0,
            "learning_rate_factor": training.rate,
            "learning_rate_warmup": training.warmup_steps,
            "scheduling": "noam",
            "loss": "crossentropy",
            "label_smoothing": training.epsilon_ls,
            "normalization": "tokens",
            "batch_size": training.target_tokens,
            "batch_type": "token",
            "epochs": NEVER,
            "validation_freq": NEVER,
            "logging_freq": 100,
            "shuffle": True,
        },
        "testing": {"beam_size": 1, "n_best": 1},
        "model": network(experiment.model),
    }


def network(model: Model) -> dict:
    """Return the `model` of JoeyNMT's configuration. Raises LeftOut where JoeyNMT has no such model."""
    if model.d_k * model.h != model.d_model or model.d_v != model.d_k:
        raise LeftOut("JoeyNMT has no d_k and d_v of their own")
    if model.departures:
        raise LeftOut(f"JoeyNMT has the paper's model, found {model.departures}")
    if model.positions != "sinusoid" or model.sinusoids != "interleaved" or model.target_spaces:
        raise LeftOut("JoeyNMT has interleaved sinusoids alone")
    stack = {
        "type": "transformer",
        "num_layers": model.N,
        "num_heads": model.h,
        "hidden_size": model.d_model,
        "ff_size": model.d_ff,
        "dropout": model.P_drop,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": model.d_model, "scale": True, "dropout": model.P_drop},
    }
    tied = {"tied_embeddings": True, "tied_softmax": True}
    initial = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    return tied | initial | {"encoder": stack, "decoder": stack}


def write_words(path: Path, text: ParallelText) -> None:
    """Write both sides of a corpus as plain text, one word for each token except EOS."""
    for side, sentences in (("source", text.source), ("target", text.target)):
        with open(f"{path}.{side}", "w", encoding="utf-8") as file:
            for index in range(len(sentences)):
                file.write(" ".join(map(str, sentences[index][:-1])) + "\n")


def write_vocabulary(path: Path, rows: int) -> None:
    """Write the words in their order; JoeyNMT puts four of its own before them, so that it has one row more."""
    path.write_text("".join(f"{token}\n" for token in range(UNK + 1, rows)), encoding="utf-8")
