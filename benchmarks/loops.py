"""Training loops that take turns: each is halted before every one of its steps, in one thread of one process.

Each system runs its own loop, with its own batching, logging and bookkeeping, and still goes step by step beside the
others, so that whatever else the machine does slows all of them alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from greenlet import getcurrent, greenlet


@dataclass
class Step:
    """The batch that one step learned from, and its loss.

    lengths: [2, pairs] tokens, source and target. positions: places in the padded grids of both sides, tokens or not.
    loss: returns it, label-smoothed, per target token, in nats; None where it is not comparable. It may wait for a GPU.
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


def grid(lengths: np.ndarray) -> int:
    """Return the number of places in the padded grids of a batch of these lengths [2, pairs]."""
    return int(lengths.max(axis=1).sum() * lengths.shape[1])
