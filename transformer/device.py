"""The compute device, its memory and its threads."""

import math
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from transformer.process import memory_limits, processors
from transformer.storage.files import InputError

_VARIABLE = "TRANSFORMER_DEVICE"  # "cpu" selects the processor even if there is a GPU
_SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # Slurm's lists of the GPUs of a job and of a step
DRIVER = "nvidia-smi shows whether the driver works, and which programs use the GPU"
_SHARE = 0.7  # share of the memory budget; the rest is for temporary tensors and other programs
# Bytes per parameter: the weight, its gradient, Adam's two moments; on a processor also three copies of weight and
# moments during the save of a state (safetensors makes two). A GPU also has the weights in 16 bits.
PER_PARAMETER = {"cpu": 4 * (1 + 1 + 2 + 3 * 3), "cuda": 4 * (1 + 1 + 2) + 2}
_THREADS = 16  # maximum per processor: with ten thousand threads on two processors, no step ends


def best_device() -> torch.device:
    """Return a GPU if there is one, else the processor. Raises InputError if PyTorch cannot use an assigned GPU."""
    if (asked := os.environ.get(_VARIABLE, "")) not in ("", "cpu"):
        raise InputError(f"{_VARIABLE}: expected cpu or nothing, found {asked}")
    if asked:
        return torch.device("cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return torch.device("cuda")
    if given := given_gpu():
        reason, remedy = reason_unusable([str(message.message) for message in caught])
        raise InputError(f"expected a usable GPU ({given}), found: {reason}; {remedy}; or set {_VARIABLE}=cpu")
    return torch.device("cpu")


def given_gpu(devices: Path = Path("/dev")) -> str | None:
    """Return the variable or device file that shows an assigned GPU. Return None if no GPU is assigned or visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # numbers and names are GPUs; NoDevFiles (from Slurm) and -1 mean that no GPU is assigned
        return f"CUDA_VISIBLE_DEVICES={visible}" if re.match(r"\s*(\d|GPU-|MIG-)", visible) else None
    for name in _SLURM:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    return min(map(str, devices.glob("nvidia[0-9]*")), default=None)


def reason_unusable(messages: list[str]) -> tuple[str, str]:
    """Return the reason why PyTorch finds no GPU or too few GPUs, and a remedy. messages: PyTorch's warnings."""
    if not torch.backends.cuda.is_built():
        wheel = f"PyTorch {torch.__version__} is built for processors only"
        return wheel, "install requirements.lock without TORCH_INDEX"
    if not messages:
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as failure:
            messages = [str(failure)]
        else:
            return "some GPUs do not respond", "nvidia-smi -L lists the GPUs that respond"
    words = messages[0].partition("\n")[0].rstrip(".")  # further lines are advice on debugging
    newer = "install a newer driver, or a PyTorch wheel for this driver's CUDA (docs/long-runs.md)"
    remedy = newer if "driver" in words.lower() else DRIVER
    return f"{words} (PyTorch {torch.__version__} for CUDA {torch.version.cuda})", remedy


def use_threads(count: int | None) -> None:
    """Use `count` processor threads. The default is one thread per available processor."""
    if (count or 0) > (limit := _THREADS * os.cpu_count()):
        raise InputError(f"--threads: expected up to {limit} ({_THREADS} per processor), found {count}")
    torch.set_num_threads(count or processors())


def available_memory(device: torch.device, threads: int) -> int:
    """Return the memory budget of a process in bytes: a GPU's free memory, or main memory in proportion to threads."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1, threads / processors())
    return int(min(total * threads // os.cpu_count(), total, *(limit * share for limit in memory_limits())))


def pieces(memory: int, model: int, bytes_per_token: float, tokens: float) -> int:
    """Return the number of pieces of a process's `tokens`, so that each piece and the model fit into `memory` bytes."""
    left = _SHARE * memory - model
    if left <= 0:
        gib = model / _SHARE / 2**30
        raise InputError(f"memory: expected more than {gib:.2g} GiB for model and Adam, found {memory / 2**30:.2g}")
    return math.ceil(tokens * bytes_per_token / left)


def saved_bytes(forward: Callable[[], object]) -> int:
    """Return the number of bytes that `forward` saves for its backward pass. Each storage counts once."""
    storages = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        graph = forward()  # the graph must stay alive, because addresses identify the storages
    del graph
    return sum(storages.values())
