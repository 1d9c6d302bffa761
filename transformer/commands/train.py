"""Training of one run (§5). Its functions import the modules that load PyTorch."""

import logging
import os
import traceback
from pathlib import Path

from cyclopts.types import PositiveFloat, PositiveInt

from transformer.layout import Data, Run
from transformer.process import EXIT_INTERRUPTED, Interrupted, StopSignals
from transformer.storage.files import InputError, out_of_memory, reason, write

logger = logging.getLogger(__name__)
_EXPECTED = (InputError, FloatingPointError, OSError)  # one line explains them


def train(run: Path, /, *, data: Path, threads: PositiveInt, memory: PositiveFloat | None = None) -> None:
    """Train one run (§5), or go on where it was interrupted.

    python -m transformer train results/demo/runs/en-de/base/1 --data results/demo/data/en-de --threads 2
    torchrun --standalone --nproc-per-node 8 -m transformer train RUN --data DATA --threads 4

    A finished training is not repeated; to train again, delete RUN/state and RUN/run.json. The batches are the same on
    any number of processes. TERM, INT, HUP, USR1 or USR2 to any of them saves the state and ends all with exit code 75.
    torchrun itself exits with 1, and must be told to pass USR1 and USR2 on, as workflow/scripts/train-node does.

    Args:
        run: folder of the run; positional, as torchrun takes --run for an option of its own
        data: folder of the task's data
        threads: processor threads of each process
        memory: memory of each process in GiB; measured if not given
    """
    from transformer.device import use_threads
    from transformer.training.distributed import end
    from transformer.training.loop import TrainingError, train_and_publish

    use_threads(threads)
    folder = Run(run)
    with StopSignals() as stop:  # up to the last word: torchrun sends TERM to all as soon as one of them has ended
        try:
            train_and_publish(folder, Data(data), threads, memory, stop)
        except Interrupted as interruption:
            if os.environ.get("RANK", "0") == "0":
                # For workflow/scripts/train: the signal of this try. Each job of a batch system has its own.
                write(folder.interrupted(os.environ.get("SLURM_JOB_ID")), f"{interruption}\n")
            logger.info("transformer train: interrupted by %s; the same command goes on from there", interruption)
            end(EXIT_INTERRUPTED)
        except (TrainingError, MemoryError, RuntimeError, *_EXPECTED) as error:
            cause = error.__cause__ if isinstance(error, TrainingError) else error
            if not (isinstance(cause, _EXPECTED) or out_of_memory(cause)):
                if cause is error and "RANK" not in os.environ:
                    raise
                traceback.print_exception(cause)
            end(message=f"transformer train: error: {reason(error)}")
        end()
