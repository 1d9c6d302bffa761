"""The device that computes, its memory and its threads."""

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

_VARIABLE = "TRANSFORMER_DEVICE"  # "cpu": the processor, whatever GPUs there are
_SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # the GPUs of a job or of its step, for the programs in it
DRIVER = "nvidia-smi shows whether the driver works, and which programs use the GPU"
_SHARE = 0.7  # of the memory; the rest is for short-lived tensors and other programs
# Bytes per parameter: the weight, its gradient, Adam's two moments; on a processor also three copies of weight and
# moments while a state is saved (safetensors makes two). A GPU also has the weights in 16 bits.
PER_PARAMETER = {"cpu": 4 * (1 + 1 + 2 + 3 * 3), "cuda": 4 * (1 + 1 + 2) + 2}
_THREADS = 16  # maximum for each processor: with ten thousand on two processors no step ends


def best_device() -> torch.device:
    """Return a GPU if there is one, else the processor. Raises InputError if PyTorch cannot open a GPU it was given."""
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
        raise InputError(f"expected to use a GPU ({given}), found: {reason}; {remedy}; {_VARIABLE}=cpu does without it")
    return torch.device("cpu")


def given_gpu(devices: Path = Path("/dev")) -> str | None:
    """Return the variable or device file that shows an assigned GPU; None without one, or if it is hidden."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # CUDA reads numbers and names; Slurm writes NoDevFiles, and others -1, for none
        return f"CUDA_VISIBLE_DEVICES={visible}" if re.match(r"\s*(\d|GPU-|MIG-)", visible) else None
    for name in _SLURM:
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


def use_threads(count: int | None) -> None:
    """Compute with `count` processor threads; None: one for each processor that this process may use."""
    if (count or 0) > (most := _THREADS * os.cpu_count()):
        raise InputError(f"--threads: expected up to {most}, {_THREADS} for each processor, found {count}")
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
    left = _SHARE * memory - model
    if left <= 0:
        gib = model / _SHARE / 2**30
        raise InputError(f"memory: expected more than {gib:.2g} GiB for model and Adam, found {memory / 2**30:.2g}")
    return math.ceil(tokens * bytes_per_token / left)


def saved_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes that `forward` saves for its backward pass; each storage counts once."""
    storages = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        graph = forward()  # it must live, as addresses identify the storages
    del graph
    return sum(storages.values())
