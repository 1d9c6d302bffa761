"""The command `train`: one training run (§5). PyTorch is imported late, because it takes seconds to load."""

import logging
import os
import traceback
from pathlib import Path

from cyclopts.types import PositiveFloat, PositiveInt

from transformer.layout import Data, Run
from transformer.process import EXIT_INTERRUPTED, Interrupted, StopSignals
from transformer.storage.files import InputError, out_of_memory, reason, write

logger = logging.getLogger(__name__)
_EXPECTED = (InputError, FloatingPointError, OSError)  # errors that one line explains, without a traceback


def train(run: Path, /, *, data: Path, threads: PositiveInt, memory: PositiveFloat | None = None) -> None:
    """Train one run (§5), or resume an interrupted run.

    python -m transformer train results/demo/runs/en-de/base/1 --data results/demo/data/en-de --threads 2
    torchrun --standalone --nproc-per-node 8 -m transformer train RUN --data DATA --threads 4

    A finished training is not repeated; to train again, delete RUN/state and RUN/run.json. Batches do not depend on the
    number of processes. If any process receives TERM, INT, HUP, USR1 or USR2, the state is saved and all processes end
    with exit code 75.
    torchrun itself exits with 1, and forwards USR1 and USR2 only with an option (see workflow/scripts/train-node).

    Args:
        run: folder of the run; positional, because torchrun reads --run as its own option
        data: folder of the task's data
        threads: number of CPU threads per process
        memory: memory per process in GiB; default: the available memory
    """
    from transformer.device import use_threads
    from transformer.training.distributed import end
    from transformer.training.loop import TrainingError, train_and_publish

    use_threads(threads)
    folder = Run(run)
    with StopSignals() as stop:  # until the end: torchrun sends TERM to all processes as soon as one has ended
        try:
            train_and_publish(folder, Data(data), threads, memory, stop)
        except Interrupted as interruption:
            if os.environ.get("RANK", "0") == "0":
                # workflow/scripts/train reads this file. Each job of a batch system has its own file.
                write(folder.interrupted(os.environ.get("SLURM_JOB_ID")), f"{interruption}\n")
            logger.info("transformer train: interrupted by %s; the same command resumes the training", interruption)
            end(EXIT_INTERRUPTED)
        except (TrainingError, MemoryError, RuntimeError, *_EXPECTED) as error:
            cause = error.__cause__ if isinstance(error, TrainingError) else error
            if not (isinstance(cause, _EXPECTED) or out_of_memory(cause)):
                if cause is error and "RANK" not in os.environ:
                    raise
                traceback.print_exception(cause)
            end(message=f"transformer train: error: {reason(error)}")
        end()
