"""The device that computes and its memory; §5.2: the processes that train one model together, one per GPU.

NCCL connects GPUs, gloo processors. If a process ends early, gloo's sums fail in the others at once. NCCL's wait:
torchrun ends the processes of the same node within half a minute, NCCL's watchdog those of others after _TIMEOUT.
"""

import logging
import math
import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.process import Interrupted, StopSignals, memory_limits, processors, take_lock
from transformer.storage.files import InputError, out_of_memory

logger = logging.getLogger(__name__)
VARIABLE = "TRANSFORMER_DEVICE"  # "cpu": the processor, whatever GPUs there are
SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # the GPUs of a job or of its step, for the programs in it
DRIVER = "nvidia-smi shows whether the driver works, and which programs use the GPU"
SHARE = 0.7  # the planned part of the memory; the rest is for short-lived tensors and other programs
# Bytes per parameter: the weight, its gradient, Adam's two moments; on a processor also room for three copies of weight
# and moments while a state is saved (safetensors makes two). A GPU has the weights in 16 bits, too.
PER_PARAMETER = {"cpu": 4 * (1 + 1 + 2 + 3 * 3), "cuda": 4 * (1 + 1 + 2) + 2}
_THREADS = 16  # of each processor, at most: ten thousand of two never finish a step
_TIMEOUT = timedelta(minutes=10)  # of a process that lives but does not answer; longer than any evaluation or save


def best_device() -> torch.device:
    """Return a GPU if there is one, else the processor. Raises InputError if PyTorch cannot open a GPU it was given."""
    if (asked := os.environ.get(VARIABLE, "")) not in ("", "cpu"):
        raise InputError(f"{VARIABLE}: expected cpu or nothing, found {asked}")
    if asked:
        return torch.device("cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return torch.device("cuda")
    if given := given_gpu():
        reason, remedy = reason_unusable([str(message.message) for message in caught])
        raise InputError(f"expected to use a GPU ({given}), found: {reason}; {remedy}; {VARIABLE}=cpu does without it")
    return torch.device("cpu")


def given_gpu(devices: Path = Path("/dev")) -> str | None:
    """Return the evidence that this process has a GPU; None without any, or if the processor is asked for."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # CUDA reads numbers and names; Slurm writes NoDevFiles, and others -1, for none
        return f"CUDA_VISIBLE_DEVICES={visible}" if re.match(r"\s*(\d|GPU-|MIG-)", visible) else None
    for name in SLURM:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    return min(map(str, devices.glob("nvidia[0-9]*")), default=None)


def reason_unusable(messages: list[str]) -> tuple[str, str]:
    """Return the reason why PyTorch opens no GPU, or too few, and a remedy; messages: PyTorch's warnings."""
    if not torch.backends.cuda.is_built():
        wheel = f"PyTorch {torch.__version__} is built for processors alone"
        return wheel, "install requirements.lock without TORCH_INDEX"
    if not messages:
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as failure:
            messages = [str(failure)]
        else:
            return "some do not answer", "nvidia-smi -L lists those that do"
    words = messages[0].partition("\n")[0].rstrip(".")  # advice on debugging follows
    newer = "a newer driver, or a PyTorch wheel for this one's CUDA (docs/long-runs.md)"
    remedy = newer if "driver" in words.lower() else DRIVER
    return f"{words} (PyTorch {torch.__version__} for CUDA {torch.version.cuda})", remedy


# Memory, and threads.


def use_threads(count: int | None) -> None:
    """Compute with so many processor threads; None: one for each processor that this process may use."""
    if (count or 0) > (most := _THREADS * os.cpu_count()):
        raise InputError(f"--threads: expected {most} at most, {_THREADS} for each processor, found {count}")
    torch.set_num_threads(count or processors())


def available_memory(device: torch.device, threads: int) -> int:
    """Return the bytes for one process: a GPU's free memory, or a share, by processors, of what it is granted."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1, threads / processors())
    return int(min(total * threads // os.cpu_count(), total, *(limit * share for limit in memory_limits())))


def pieces(memory: int, model: int, bytes_per_token: float, tokens: float) -> int:
    """Return into how many pieces a process must cut its `tokens` to fit each into `memory` bytes, less the model's."""
    left = SHARE * memory - model
    if left <= 0:
        gib = model / SHARE / 2**30
        raise InputError(f"memory: expected more than {gib:.2g} GiB for model and Adam, found {memory / 2**30:.2g}")
    return math.ceil(tokens * bytes_per_token / left)


def saved_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes that `forward` keeps for its backward pass, each storage counted once."""
    storages = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        kept = forward()  # the graph must live while storages are told apart by address
    del kept
    return sum(storages.values())


# Several processes.


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
    except RuntimeError as error:
        if isinstance(error, torch.AcceleratorError) or out_of_memory(error):
            raise
        reason = str(error).split("\n")[0]
        raise ConnectionError(f"another process of this training has ended; its message says why ({reason})") from error


def _variable(name: str, least: int, most: int) -> int:
    """Return the number in one of torchrun's environment variables."""
    text = os.environ.get(name, "nothing")
    if not (text.isdecimal() and least <= int(text) <= most):
        raise InputError(f"{name}: expected a number from {least} to {most}, as torchrun sets it, found {text}")
    return int(text)


@contextmanager
def joined() -> Iterator[World]:
    """Join the world of torchrun's environment variables. Raises InputError if they are wrong, or GPUs too few."""
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
        dist.barrier()  # whoever left first would look dead to the others
    dist.destroy_process_group()


def end(code: int = 0, message: str = "") -> None:
    """End this process with `code`, or with a message and 1; alone and with neither, return.

    One of several ends without Python's own shutdown: to disconnect from a partner that is gone can take for ever, and
    gloo's threads may still be releasing tensors, which aborts a Python that is shutting down.
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
    """Hold `folder`/lock, which the system frees when its holder dies; wait while another process holds it.

    When Snakemake is killed its jobs live on: a second training of the same run would write over the first one's files.
    Raises Interrupted on a stop signal to any process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
        waited = 0
        while not world.agree(world.rank == 0 and take_lock(file)):
            for signal in filter(None, world.gather(stop.received)):
                raise Interrupted(f"{signal}: waiting for {folder}")
            if world.rank == 0 and waited % 60 == 0:  # once a minute
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
