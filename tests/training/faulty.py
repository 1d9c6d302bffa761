"""`train` with one fault: `faulty.py FAULT RANK STEP`, then train's arguments. For test_faults.py.

Prints to standard error when the fault happens, as `fault at SECONDS` of the system's clock.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from transformer import cli
from transformer.commands import train
from transformer.data.corpus import TokenArray
from transformer.process import clean_exit
from transformer.training.batches import ParallelText
from transformer.training.loop import TrainingRun


def out_of_memory(run: TrainingRun) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    run.learner.losses = lambda indices: torch.ones(2**28) * 2  # a GiB that is not available


def exception_and_signal(run: TrainingRun) -> None:
    """Let torchrun's TERM arrive at the worst moment: the error is raised, but not yet reported."""
    reason = train.reason
    train.reason = lambda error: os.kill(os.getpid(), signal.SIGTERM) or reason(error)
    ids = np.full_like(run.text.target.ids, 60_000)  # no embedding has this row
    run.learner.text = ParallelText(run.text.source, TokenArray(ids, run.text.target.offsets))


FAULTS = {
    "out_of_memory": out_of_memory,
    "killed": lambda run: os.kill(os.getpid(), signal.SIGKILL),
    "exception_and_signal": exception_and_signal,
    # The maximum size of a file is less than a state and TensorBoard's files, but more than the log.
    "disk_full": lambda run: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)),
    "disk_full_for_logs": lambda run: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)),
}


if __name__ == "__main__":
    fault, rank, step, *arguments = sys.argv[1:]
    update = TrainingRun.update

    def struck(run, *batch):
        """Let the fault occur in one process in the step after `step`."""
        if run.world.rank == int(rank) and run.progress.step == int(step):
            print(f"fault at {time.time()}", file=sys.stderr, flush=True)
            FAULTS[fault](run)
        return update(run, *batch)

    TrainingRun.update = struck
    with clean_exit("transformer"):
        cli.main(["train", *arguments])
