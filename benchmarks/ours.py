"""This project's training loop, as the train stage runs it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.loops import Loop, Step, pause
from benchmarks.workload import Workload
from transformer import layout
from transformer.runtime.device import available_memory, best_device
from transformer.runtime.distributed import World
from transformer.training.evaluation import Evaluation
from transformer.training.loop import Run
from transformer.training.step import Update


class Halting(Run):
    """A run that halts before each step, so that others take their turns."""

    def update(self, indices: np.ndarray, *rest) -> Update:
        lengths = self.text.lengths[:, indices]
        step = Step(lengths, positions=0)
        pause(step)
        update = super().update(indices, *rest)
        step.positions = int(lengths.sum()) + update.padding
        step.loss = lambda: update.smoothed / lengths[1].sum()
        return update


class Signals:
    """Signals that never stop a training."""

    received = None


class Ours:
    """This project's training: `step`, `close`, and the type of its matrix products."""

    name = "this project"

    def __init__(self, workload: Workload, folder: Path):
        world = World(0, 1, best_device())
        evaluation = Evaluation(workload.dev, workload.vocabulary, workload.budgets, 0, world)
        room = available_memory(world.device, torch.get_num_threads())
        parts = (workload.experiment, workload.text, evaluation, workload.vocabulary)
        self.run = Halting(*parts, world, "benchmark", layout.Run(folder), room)
        self.dtype = self.run.learner.dtype
        self.loop = Loop(lambda: self.run.train(Signals(), "benchmark"))
        self.step: Callable[[], Step] = self.loop.step
        self.close = self.loop.close
