"""§5.2 The processes that train one model together, one per GPU; torchrun starts them.

    torchrun --standalone --nproc-per-node 8 -m transformer train ...

NCCL connects GPUs, gloo processors. If a process ends early, gloo's sums fail in the others at once. NCCL's wait:
torchrun ends the processes of the same node within half a minute, but those of other nodes are only ended after
TIMEOUT, by NCCL's own watchdog, with its words instead of ours.
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.files import InputError
from transformer.runtime.device import best_device
from transformer.runtime.process import Interrupted, StopSignals, flush_messages, take_lock
from transformer.text import out_of_memory

logger = logging.getLogger(__name__)
REMINDER = 60  # seconds between two messages that a lock is waited for
TIMEOUT = timedelta(minutes=10)  # of a process that lives but does not answer; longer than any evaluation or save


@dataclass(frozen=True)
class World:
    """This process among the `size` that train together; alone, rank 0 of 1."""

    rank: int
    size: int
    device: torch.device

    def sum(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over all processes. Raises ConnectionError if one of them has ended."""
        if self.size > 1:
            with watched():
                dist.all_reduce(tensor)
        return tensor

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Replace these tensors by those of rank 0."""
        if self.size > 1:
            with watched():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def agree(self, value: Any) -> Any:
        """Return rank 0's value, a plain one such as a number or a dict."""
        return self.gather(value)[0]

    def gather(self, value: Any) -> list:
        """Return the values of all processes, in the order of their ranks."""
        if self.size == 1:
            return [value]
        values = [None] * self.size
        with watched():
            dist.all_gather_object(values, value)
        return values


@contextmanager
def watched() -> Iterator[None]:
    """Raise ConnectionError if a partner is gone, unless it is this process's own GPU that failed."""
    try:
        yield
    except (torch.AcceleratorError, torch.OutOfMemoryError):
        raise
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        reason = str(error).split("\n")[0]
        raise ConnectionError(f"another process of this training has ended; its message says why ({reason})") from error


@contextmanager
def joined() -> Iterator[World]:
    """Join the world that torchrun's environment variables describe. Raises InputError if GPUs are too few."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    device = best_device()
    if size == 1:
        yield World(0, 1, device)
        return
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if device.type == "cpu":
        dist.init_process_group("gloo", timeout=TIMEOUT)
    elif local < torch.cuda.device_count():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=TIMEOUT, device_id=device)
    else:
        raise InputError(f"process {local + 1} of this machine: expected a GPU, found {torch.cuda.device_count()}")
    yield World(rank, size, device)
    with watched():
        dist.barrier()  # whoever left first would look dead to the others
    dist.destroy_process_group()


def end(code: int = 0) -> None:
    """End this process with `code`; alone and with 0, return.

    One of several processes ends at once, without Python's own shutdown: to disconnect from a partner that is gone can
    take for ever, and gloo's threads may still be releasing tensors, which aborts a Python that is shutting down.
    """
    if "RANK" in os.environ:
        sys.stdout.flush()
        flush_messages()
        os._exit(code)
    if code:
        sys.exit(code)


@contextmanager
def locked(folder: Path, world: World, stop: StopSignals) -> Iterator[None]:
    """Hold `folder`/lock, which the system frees when its holder dies; wait while another process holds it.

    When Snakemake is killed its jobs live on: a second training of the same run would write over the first one's files.
    Rank 0 takes the lock, and all wait for it. Raises Interrupted on a stop signal to any process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        waited = 0
        while not world.agree(world.rank == 0 and take_lock(file)):
            for signal in filter(None, world.gather(stop.received)):
                raise Interrupted(f"{signal}: waiting for {folder}")
            if world.rank == 0 and waited % REMINDER == 0:
                file.seek(0)
                logger.info("waiting: %s is in use by %s", folder, file.read() or "another process")
            waited += 1
            time.sleep(1)
        if world.rank == 0:
            job = os.environ.get("SLURM_JOB_ID")
            file.truncate(0)
            file.write(f"{f'job {job}, ' if job else ''}process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield
