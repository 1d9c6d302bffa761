"""Training loops that take turns: each is halted before every one of its steps, in one thread of one process.

Whatever else the machine does slows all of them alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from greenlet import getcurrent, greenlet

from benchmarks.workload import Workload
from transformer import layout
from transformer.device import available_memory, best_device
from transformer.process import StopSignals
from transformer.training.distributed import World
from transformer.training.loop import TrainingRun
from transformer.training.step import Update
from transformer.training.validation import Evaluation


@dataclass
class Step:
    """The batch that one step learned from, and its loss.

    lengths: [2, pairs] tokens, source and target. positions: places in the padded grids of both sides, tokens or not.
    loss: returns it, label-smoothed, per target token, in nats; None if it is not comparable. It may wait for a GPU.
    """

    lengths: np.ndarray
    positions: int
    loss: Callable[[], float] | None = None


class Loop:
    """A training loop that calls `pause` before each step."""

    def __init__(self, run: Callable[[], object]):
        self.greenlet = greenlet(run)
        self.next: Step = self.greenlet.switch()  # goes as far as the first step

    def step(self) -> Step:
        """Let the loop take the step that it is halted before, and go on to the next."""
        done, self.next = self.next, self.greenlet.switch()
        if self.greenlet.dead:
            raise RuntimeError("a training loop has ended before the benchmark did")
        return done

    def close(self) -> None:
        """End the loop where it is halted, and let it clean up."""
        self.greenlet.throw()


def pause(step: Step) -> None:
    """Halt the loop that calls this, about to take `step`, until its next turn."""
    getcurrent().parent.switch(step)


class Halting(TrainingRun):
    """This project's training, halted before each step."""

    def update(self, indices: np.ndarray, *rest) -> Update:
        lengths = self.text.lengths[:, indices]
        step = Step(lengths, positions=0)
        pause(step)
        update = super().update(indices, *rest)
        step.positions = int(lengths.sum()) + update.padding
        step.loss = lambda: update.smoothed / lengths[1].sum()
        return update


class Ours:
    """This project's training, as its command runs it: a `loop`, and the `dtype` of its matrix products."""

    def __init__(self, folder: Path, workload: Workload):
        world = World(0, 1, best_device())
        evaluation = Evaluation(workload.dev, workload.vocabulary, workload.budgets, 0, world)
        room = available_memory(world.device, torch.get_num_threads())
        run = Halting(workload.experiment, workload.text, evaluation, "benchmark", layout.Run(folder), room)
        self.dtype = run.learner.dtype
        self.loop = Loop(lambda: run.train(StopSignals(), "benchmark"))
