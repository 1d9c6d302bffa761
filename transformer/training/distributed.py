"""§5.2 The processes that train one model together, one per GPU.

NCCL connects GPUs, and gloo connects processors. If a process ends early, gloo's sums fail at once in all other
processes. NCCL's sums wait: torchrun ends the processes of the same node within half a minute, and NCCL's watchdog ends
the processes of other nodes after _TIMEOUT.
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

from transformer.device import best_device
from transformer.process import Interrupted, StopSignals, take_lock
from transformer.storage.files import InputError, out_of_memory

logger = logging.getLogger(__name__)
_TIMEOUT = timedelta(minutes=10)  # for a process that does not answer; longer than any evaluation or save


@dataclass(frozen=True)
class World:
    """This process and the number of processes that train together. A single process is rank 0 of size 1."""

    rank: int
    size: int
    device: torch.device

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over all processes. Raises ConnectionError if a process has ended."""
        if self.size > 1:
            with watched():
                dist.all_reduce(tensor)
        return tensor

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Replace these tensors by the tensors of rank 0."""
        if self.size > 1:
            with watched():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def broadcast_object(self, value: Any) -> Any:
        """Return rank 0's value, a plain object such as a number or a dict."""
        return self.gather(value)[0]

    def gather(self, value: Any) -> list:
        """Return the values of all processes in the order of their ranks."""
        if self.size == 1:
            return [value]
        values = [None] * self.size
        with watched():
            dist.all_gather_object(values, value)
        return values


@contextmanager
def watched() -> Iterator[None]:
    """Raise ConnectionError if another process has ended. An error of this process's own GPU stays unchanged."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.AcceleratorError) or out_of_memory(error):
            raise
        reason = str(error).split("\n")[0]
        raise ConnectionError(f"another process of this training has ended; see its own error ({reason})") from error


def _variable(name: str, least: int, most: int) -> int:
    """Return the number in one of torchrun's environment variables."""
    text = os.environ.get(name, "nothing")
    if not (text.isdecimal() and least <= int(text) <= most):
        raise InputError(f"{name}: expected a number from {least} to {most} (torchrun sets it), found {text}")
    return int(text)


@contextmanager
def joined() -> Iterator[World]:
    """Join the processes of torchrun's environment variables. Raises InputError on wrong values or missing GPUs."""
    size = _variable("WORLD_SIZE", 1, 100_000) if "WORLD_SIZE" in os.environ else 1
    device = best_device()
    if size == 1:
        yield World(0, 1, device)
        return
    rank, local = (_variable(name, 0, size - 1) for name in ("RANK", "LOCAL_RANK"))
    address = os.environ.get("MASTER_ADDR", ""), _variable("MASTER_PORT", 1, 65_535)
    try:
        socket.getaddrinfo(*address)
    except (OSError, UnicodeError) as error:
        raise InputError(f"MASTER_ADDR: expected rank 0's machine, found {address[0] or 'nothing'}: {error}") from error
    if device.type == "cpu":
        dist.init_process_group("gloo", timeout=_TIMEOUT)
    elif local < torch.cuda.device_count():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=_TIMEOUT, device_id=device)
    else:
        raise InputError(f"process {local + 1} of this machine: expected a GPU, found {torch.cuda.device_count()}")
    yield World(rank, size, device)
    with watched():
        dist.barrier()  # without it, other processes could report this process as ended
    dist.destroy_process_group()


def end(code: int = 0, message: str = "") -> None:
    """End this process with `code`, or with a message and exit code 1. Without both, a single process returns.

    One of several processes skips Python's shutdown, because a disconnection from a lost process can hang forever.
    Also, gloo's threads may still release tensors, which would abort Python during its shutdown.
    """
    if "RANK" in os.environ:
        if message:
            logger.error(message)
        sys.stdout.flush()
        os._exit(1 if message else code)
    if message or code:
        sys.exit(message or code)


@contextmanager
def locked(folder: Path, world: World, stop: StopSignals) -> Iterator[None]:
    """Hold `folder`/lock, and wait while another process holds it. The system frees the lock when its holder ends.

    Jobs continue when Snakemake is killed. Without the lock, a second training of the same run would overwrite the
    files of the first training. Raises Interrupted on a stop signal to any process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        waited = 0
        while not world.broadcast_object(world.rank == 0 and take_lock(file)):
            for signal in filter(None, world.gather(stop.received)):
                raise Interrupted(f"{signal}: waiting for {folder}")
            if world.rank == 0 and waited % 60 == 0:  # once a minute
                file.seek(0)
                logger.info("waiting: %s is locked by %s", folder, file.read() or "another process")
            waited += 1
            time.sleep(1)
        if world.rank == 0:
            job = os.environ.get("SLURM_JOB_ID")
            file.truncate(0)
            file.write(f"{f'job {job}, ' if job else ''}process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield
