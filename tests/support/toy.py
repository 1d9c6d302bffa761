"""Toys for tests: small models and experiments, sentences to copy, and a decoder that reads a table."""

import json
import math
import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from transformer.config import experiment as settings
from transformer.config.experiment import EOS, PAD, UNK, Experiment
from transformer.data.corpus import TokenArray, learn
from transformer.data.preprocessing import encode_splits
from transformer.layout import SIDES, Data, Run
from transformer.model import weights
from transformer.model.architectures import build
from transformer.model.batch_norm import batch_norms
from transformer.model.packed import Packed, pack
from transformer.model.transformer import Transformer
from transformer.process import STOPPING, StopSignals
from transformer.storage.checksums import sums_of
from transformer.training.batches import ParallelText
from transformer.training.distributed import World
from transformer.training.loop import TrainingRun
from transformer.training.states import Progress
from transformer.training.validation import Evaluation

torch.set_num_threads(1)

# The environment of processes that tests start. Passive threads sleep while they wait, and leave the cores to others.
PROCESSOR = os.environ | {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[level]) for level in (2, 1)),  # package, support
}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]

CPU = torch.device("cpu")
WORDS = ("ab", "cd", "ef", "gh", "ij", "kl", "mn", "op")
ROWS = 37  # rows of the embedding; the toy vocabulary has fewer subwords
PREPROCESSING = settings.Preprocessing(True, True, max_words=80, max_ratio=9.0, vocabulary_sentences=1000)
DECODING = settings.Decoding(beam_size=3, length_penalty=0.6, extra_length=5, max_tokens=100)

TABLE_2 = {"lstm": {"architecture": "lstm"}, "conv": {"architecture": "conv", "k": 3}}  # other architectures
TABLE_5 = {  # the forms of the model in Table 5
    "pre-norm": {"norm": "pre"},
    "batch norm": {"norm": "batch"},
    "no residual": {"residual": False},
    "not scaled": {"scaled": False},
    "additive": {"attention": "additive"},
    "no positions": {"positions": "none"},
    "untied": {"tied": False},
    "all at once": {"norm": "pre", "residual": False, "attention": "additive", "positions": "none", "tied": False},
}


def model_config(**changes) -> settings.Model:
    """Return a tiny model's configuration. All its widths differ, so that swapped widths cause an error."""
    rows = changes.get("embedding_rows", ROWS)
    sizes = {"N": 2, "d_model": 26, "d_ff": 34, "h": 2, "d_k": 7, "d_v": 11}
    sizes |= {"embedding_rows": rows, "output_rows": rows, "P_drop": 0.1, "P_drop_attention": 0.0}
    options = {"positions": "sinusoid", "sinusoids": "interleaved", "target_spaces": 0}
    values = sizes | options | changes
    if values.get("architecture", "transformer") != "transformer":
        values = {key: value for key, value in values.items() if key not in settings.PARTS["transformer"]}
    return settings.Model(**values)


def random_model(seed: int, **changes) -> Transformer:
    """Return an untrained model in evaluation mode with next-token distributions that are far from uniform."""
    torch.manual_seed(seed)
    model = Transformer(model_config(**changes))
    with torch.no_grad():
        model.embedding.weight.mul_(3)
        vary_statistics(model)
        if model.embedding.new_word is not None:
            model.embedding.new_word.bernoulli_(0.5)[: EOS + 1] = 1
    return model.eval()


BASELINES = {
    "lstm": model_config(architecture="lstm", N=4, d_model=18),
    "conv": model_config(architecture="conv", N=3, d_model=18, k=3),
    "conv, k = 4": model_config(architecture="conv", d_model=18, k=4),
}


def random_baseline(name: str) -> torch.nn.Module:
    """Return an untrained baseline in evaluation mode with very different outputs and without zero biases."""
    torch.manual_seed(4)
    model = build(BASELINES[name]).eval()
    with torch.no_grad():
        for part, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.4 if "embedding" in part else 0.2)
    return model


def vary_statistics(model: Transformer) -> None:
    """Give each batch normalisation running statistics that differ from the initial ones."""
    for norm in batch_norms(model):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)


def varied_model(**changes) -> Transformer:
    """Return a model with different translations for different sentences. No bias is zero, no norm has weight one."""
    model = random_model(3, **changes)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter *= 2 if parameter.dim() == 2 else 1
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape) * (parameter.dim() == 1)
    return model


def packed(sentences: list[list[int]] | list[np.ndarray]) -> Packed:
    """Pack token ids for a model on the processor."""
    return pack([np.asarray(ids) for ids in sentences], CPU)


@torch.no_grad()
def logits(model: Transformer, source: list[int], target: list[int]) -> torch.Tensor:
    """Return the logits of the token after each prefix of `target`: [len(target) + 1, output_rows]."""
    return model(packed([source]), packed([[PAD, *target]])) @ model.output_weight().T


def greedy(model: Transformer, source: list[int], size: int, limit: int) -> list[int]:
    """Choose the likeliest of `size` subwords in each step with the whole decoder, up to EOS or the limit."""
    ids = []
    while len(ids) < limit and EOS not in ids:
        ids.append(int(logits(model, source, ids)[-1, PAD + 1 : size].argmax()) + PAD + 1)
    return ids


def metrics(folder: Path, without: tuple[str, ...] = ("seconds", "target_tokens_per_second")) -> list[dict]:
    """Return the logged lines of a run without its speed, because the speed differs in each run."""
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key not in without} for entry in entries]


def make_experiment(seed: int = 1, model: dict | None = None, logging: dict | None = None, **training) -> Experiment:
    """Return an experiment of a few steps with small batches. `model`, `logging` and the rest change single values."""
    steps = {
        "steps": 8,
        "learning_rate_scale": 1.0,
        "warmup_steps": 4,
        "checkpoint_every": 2,
        "averaged_checkpoints": 3,
    }
    steps |= {"source_tokens": 60, "target_tokens": 60, "epsilon_ls": 0.1}
    optimizer = {"beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9}
    often = {"log_every": 1, "evaluate_every": 2, "bleu_sentences": 0, "save_every": 2}
    return Experiment(
        *("toy", "toy: sentences to copy", "en-de", "base"),
        seed=seed,
        fidelity="paper-text",
        source="en",
        target="de",
        model=model_config(**model or {}),
        training=settings.Training(**steps | optimizer | training),
        preprocessing=PREPROCESSING,
        logging=settings.Logging(**often | (logging or {})),
    )


def token_array(sentences: list[list[int]]) -> TokenArray:
    """Return `sentences`, each ending in EOS, as a corpus side in memory."""
    offsets = np.cumsum([0, *map(len, sentences)])
    return TokenArray(np.concatenate(sentences).astype(np.uint16), offsets)


def random_sentences(seed: int, count: int, longest: int = 6, ids: int = ROWS) -> list[list[int]]:
    """Return sentences of 1 to `longest` token ids above the special ones, and EOS."""
    source = random.Random(seed)
    return [[*source.choices(range(UNK + 1, ids), k=source.randint(1, longest)), EOS] for _ in range(count)]


def random_text(seed: int, count: int, **sentences) -> ParallelText:
    """Return sentences with unrelated translations of other lengths."""
    sides = (random_sentences(number, count, **sentences) for number in (seed, seed + 1000))
    return ParallelText(*map(token_array, sides))


ALONE = World(0, 1, CPU)
TEXT, DEV = random_text(1, 53), random_text(2, 15)


def start(folder, experiment, text=TEXT, dev=DEV, digest="digest", memory=2**40, world=ALONE) -> TrainingRun:
    """Start a training in this process, in float32 on any processor."""
    evaluation = Evaluation(experiment, dev, None, world)
    run = TrainingRun(text, evaluation, digest, Run(folder), memory)
    run.learner.dtype = torch.float32
    return run


def train(run: TrainingRun) -> Progress:
    return run.train(StopSignals())


def interrupt(run: TrainingRun, step: int) -> None:
    """Train like a run that is killed while it works on the batch after `step`."""
    batches = run.batches

    def until_killed():
        for batch in batches():
            if run.progress.step == step:
                raise InterruptedError
            yield batch

    run.batches = until_killed
    with pytest.raises(InterruptedError):
        train(run)


def random_lines(seed: int, count: int, longest: int = 4) -> list[str]:
    """Return plain text: 1 to `longest` of WORDS a line."""
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(1, longest))) for _ in range(count)]


def write_text(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def make_vocabulary(path: Path, size: int = 28) -> Path:
    """Learn a vocabulary of WORDS."""
    text = write_text(path.with_suffix(".txt"), random_lines(0, 200))
    learn([text], size, 1000, path)
    return path


def make_data(data: Path, train: list[str], dev: list[str]) -> Path:
    """Make the folder of a task as the stages before training leave it. Its sentences are their own translations."""
    data.mkdir(parents=True)
    make_vocabulary(data / "vocabulary.model")
    for split, lines in (("train", train), ("dev", dev)):
        for side in SIDES:
            write_text(data / f"{split}.{side}.tok", lines)
        counts = {"read": len(lines), "kept": len(lines), "files": sums_of(data.glob(f"{split}.*.tok"))}
        (data / f"{split}.json").write_text(json.dumps(counts))
    encode_splits(Data(data), processes=1)
    return data


def make_run(run: Path, resolved: Experiment) -> Path:
    """Make the folder of an untrained run."""
    settings.save(resolved, run / "experiment.yaml")
    settings.save(DECODING, run / "decoding.yaml")
    return run


def forge(run: Path, resolved: Experiment | None = None) -> None:
    """Remove the checksums from a run.json, because the test changes the files; optionally change the settings."""
    record = json.loads((run / "run.json").read_text())
    record = {key: value for key, value in record.items() if key not in ("files", "sha256")}
    if resolved:
        settings.save(resolved, run / "experiment.yaml")
        record["digest"] = resolved.digest(record["data_sha256"], record.get("initial_sha256"))
        for path in run.glob("*.safetensors"):
            tensors, header = weights.load_tensors(path)
            weights.save_tensors(path, tensors, header | {"digest": record["digest"]})
    (run / "run.json").write_text(json.dumps(record))


def heed_signals() -> None:
    """Reset ignored stop signals in a new process, because a shell may have started the tests in the background."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)


class Table:
    """A decoder (search.Decoder) that reads log-probabilities from `log_p(sentence, prefix)`, a list over V tokens."""

    def __init__(self, log_p, sentences):
        self.log_p = log_p
        self.rows = [(sentence, []) for sentence in sentences]
        self.sizes = []  # batch size of each step

    def step(self, tokens):
        B, K = tokens.shape
        self.sizes.append(B)
        for (_, prefixes), row in zip(self.rows, tokens.tolist(), strict=True):
            prefixes[:] = [(*prefix, token) for prefix, token in zip(prefixes or [()] * K, row, strict=True)]
        return torch.tensor([[self.log_p(name, prefix[1:]) for prefix in prefixes] for name, prefixes in self.rows])

    def select(self, sentences, parents):
        kept = [(self.rows[sentence], row) for sentence, row in zip(sentences.tolist(), parents.tolist(), strict=True)]
        self.rows = [(name, [prefixes[parent] for parent in row]) for (name, prefixes), row in kept]


def random_table(seed, V=4):
    """Return log-probabilities over PAD (impossible), EOS and V - 2 words: random, but fixed for a prefix."""

    def log_p(sentence, prefix):
        source = random.Random(f"{seed} {sentence} {prefix}")
        logits = [-math.inf, *(source.gauss(0, 1.5) for _ in range(V - 1))]
        return [logit - math.log(sum(map(math.exp, logits))) for logit in logits]

    return log_p


def sequence_log_p(log_p, sentence, ids):
    """Return the log-probability of all `ids` of a sentence."""
    return sum(log_p(sentence, tuple(ids[:place]))[token] for place, token in enumerate(ids))
