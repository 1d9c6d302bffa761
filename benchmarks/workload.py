"""Workloads of a training: a run of the pipeline with its data, or the paper's models on random sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from msgspec import structs

from transformer.config.experiment import EOS, UNK, Experiment, load
from transformer.config.scales import PARSER, RunName, ScaleSettings
from transformer.config.settings import accept
from transformer.data.corpus import Subwords, TokenArray
from transformer.device import available_memory, best_device
from transformer.layout import Data, Run
from transformer.storage.reading import read_yaml
from transformer.training.batches import ParallelText, open_text
from transformer.training.distributed import World
from transformer.training.loop import TrainingRun
from transformer.training.validation import Evaluation

CONFIG = Path(__file__).parents[1] / "config.yaml"
NEVER = 10**9  # a number of steps that no benchmark reaches

# Lengths in subwords like WMT 2014 English-German: mean 28 with EOS, a long tail, and different lengths of both sides.
SHAPE, MEAN, SPREAD, LONGEST = 2.0, 27.0, 0.2, 250


@dataclass(frozen=True)
class Workload:
    """An experiment with its training and dev text. label: part of the name of the results file."""

    experiment: Experiment
    text: ParallelText
    dev: ParallelText
    vocabulary: Subwords | None
    label: str

    def training(self, folder: Path, kind: type[TrainingRun] = TrainingRun, world: World | None = None) -> TrainingRun:
        """Open the training in `folder`, at its newest state."""
        world = world or World(0, 1, best_device())
        evaluation = Evaluation(self.experiment, self.dev, self.vocabulary, world)
        memory = available_memory(world.device, torch.get_num_threads())
        return kind(self.text, evaluation, "benchmark", Run(folder), memory)


def of_run(run: Path, data: Path) -> Workload:
    """Open a run of the pipeline, before or after its training."""
    experiment = load(run / "experiment.yaml")
    text, dev = (open_text(Data(data), split) for split in ("train", "dev"))
    label = f"{experiment.scale}-{experiment.experiment}"
    return Workload(unending(experiment), text, dev, Subwords(data / "vocabulary.model"), label)


def of_paper(model: str, pairs: int, length: int | None = None, tokens: int | None = None) -> Workload:
    """Set up a model of Table 3 or 5 for English-German, or the parser's, on random pairs.

    length: of all sentences. tokens: maximum on each side of a batch. By default, both are like the paper's.
    """
    scale = ScaleSettings(accept(read_yaml(CONFIG)), "paper")
    run = RunName("supervised" if model == PARSER else "en-de", model, 1)
    experiment = structs.replace(scale.experiment(run), label="random sentences")
    text, dev = (random_text(seed, size, experiment.model.output_rows, length) for seed, size in ((1, pairs), (2, 100)))
    if tokens:
        training = structs.replace(experiment.training, source_tokens=tokens, target_tokens=tokens)
        experiment = structs.replace(experiment, training=training)
    label = "-".join(["paper", model, *([f"length-{length}"] if length else [])])
    return Workload(unending(experiment), text, dev, None, label)


def unending(experiment: Experiment) -> Experiment:
    """Return a copy of the experiment that never ends, evaluates or saves."""
    logging = structs.replace(experiment.logging, evaluate_every=NEVER, save_every=NEVER)
    training = structs.replace(experiment.training, steps=NEVER)
    return structs.replace(experiment, training=training, logging=logging)


def random_text(seed: int, pairs: int, rows: int, length: int | None = None) -> ParallelText:
    """Draw sentence pairs of one length including EOS, or with WMT's lengths."""
    random = np.random.default_rng(seed)
    if length:
        return ParallelText(*(random_side(random, [length] * pairs, rows) for _ in range(2)))
    lengths = random.gamma(SHAPE, MEAN / SHAPE, pairs)
    sides = lengths, lengths * np.exp(random.normal(0, SPREAD, pairs))
    return ParallelText(*(random_side(random, 1 + side.clip(1, LONGEST).astype(int), rows) for side in sides))


def random_side(random: np.random.Generator, lengths: Sequence[int], rows: int) -> TokenArray:
    """Draw sentences of these lengths, including EOS, with Zipf's frequencies of subwords."""
    frequencies = (1 / np.arange(1, rows - UNK)).cumsum()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.searchsorted(frequencies / frequencies[-1], random.random(offsets[-1])) + UNK + 1
    ids[offsets[1:] - 1] = EOS
    return TokenArray(ids.astype(np.uint16), offsets)
