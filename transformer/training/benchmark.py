"""A benchmark of this machine: the time of real training steps on random sentences of WMT's mean length."""

import time

import numpy as np
import torch
from msgspec.structs import replace

from transformer.config.experiment import EOS, Experiment
from transformer.data.corpus import TokenArray
from transformer.model.cost import SENTENCE
from transformer.training.batches import ParallelText
from transformer.training.distributed import World
from transformer.training.step import Learner

MOST_FLOPS = {"cpu": 3e11, "cuda": 1e14}  # maximum FLOPs of a timed step by device type
_TIMED_SECONDS = 2.0  # per model
_SIDES = ("source_tokens", "target_tokens")


def time_step(run: Experiment, share: float, device: torch.device) -> float:
    """Return the seconds of a step on a share of the run's batch; on a processor, the CPU time of this process."""
    budgets = {side: max(2 * SENTENCE, int(getattr(run.training, side) * share)) for side in _SIDES}
    # steps: 1, because a short training is not compiled.
    training = {"steps": 1, "averaged_checkpoints": 1, "initial_weights": None, "max_length": None} | budgets
    positions = "sinusoid" if run.model.positions == "words" else run.model.positions  # needs no vocabulary
    run = replace(run, model=replace(run.model, positions=positions), training=replace(run.training, **training))
    text = ParallelText(*(_sentences(run, rows) for rows in (run.model.embedding_rows, run.model.output_rows)))
    learner = Learner(run, text, None, World(0, 1, device), 2**50)
    (batch, *_), clock = learner.batches_of(0), time.process_time if device.type == "cpu" else time.monotonic
    learner.update("", batch, 1, stopping=False).check()
    times = [clock()]
    while times[-1] - times[0] < _TIMED_SECONDS:
        learner.update("", batch, len(times), stopping=False).check()
        times.append(clock())
    return float(np.median(np.diff(times)))


def _sentences(run: Experiment, rows: int) -> TokenArray:
    count = max(getattr(run.training, side) for side in _SIDES) // SENTENCE
    ids = np.random.default_rng(0).integers(EOS + 2, rows, (count, SENTENCE)).astype(np.uint16)
    ids[:, -1] = EOS
    return TokenArray(ids.reshape(-1), np.arange(count + 1) * SENTENCE)
