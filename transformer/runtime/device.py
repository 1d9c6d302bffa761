"""The device that computes, a GPU or the processor, and its memory: how many pieces of a batch fit into it."""

import math
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from transformer.files import InputError
from transformer.runtime.process import memory_limits

VARIABLE = "TRANSFORMER_DEVICE"  # "cpu": the processor, whatever GPUs there are
SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # the GPUs of a job or of its step, for the programs in it
DRIVER = "nvidia-smi shows whether the driver works, and which programs use the GPU"
NEWER_DRIVER = "a newer driver, or a PyTorch wheel for this one's CUDA (docs/long-runs.md)"
# The planned part of the memory; the rest is for short-lived tensors and other programs.
SHARE = 0.7
# Bytes per parameter: the weight, its gradient, Adam's two moments; on a processor also three copies of weight and
# moments while a state is saved, as measured (its own, and two of safetensors'). A GPU has the weights in 16 bits, too.
PER_PARAMETER, PER_PARAMETER_CUDA = 4 * (1 + 1 + 2 + 3 * 3), 4 * (1 + 1 + 2) + 2


def best_device() -> torch.device:
    """Return a GPU if there is one, else the processor.

    Raises InputError if this process was given a GPU that PyTorch cannot open: on the processor a training of days
    would take months.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", "cpu"):
        raise InputError(f"{VARIABLE}: expected cpu or nothing, found {chosen!r}")
    if chosen == "cpu":
        return torch.device("cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return torch.device("cuda")
    if given := given_gpu():
        reason, remedy = why([str(message.message) for message in caught])
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
    return next((str(path) for path in gpus_in(devices)), None)


def gpus_in(devices: Path = Path("/dev")) -> list[Path]:
    """Return the device files of NVIDIA's GPUs."""
    return sorted(path for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))


def why(messages: list[str]) -> tuple[str, str]:
    """Return the reason why PyTorch opens no GPU, or too few, and a remedy; messages: PyTorch's warnings."""
    if not torch.backends.cuda.is_built():
        wheel = f"PyTorch {torch.__version__} is built for processors alone"
        return wheel, "install requirements.lock without TORCH_INDEX"
    if not messages:
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as failure:
            messages = [str(failure)]
    if not messages:
        return "some do not answer", "nvidia-smi -L lists those that do"
    words = first_line(messages[0])
    remedy = NEWER_DRIVER if "driver" in words.lower() else DRIVER
    return f"{words} (PyTorch {torch.__version__} for CUDA {torch.version.cuda}, driver {driver()})", remedy


def first_line(message: str) -> str:
    """Return CUDA's message without its advice on debugging."""
    return message.partition("\n")[0].rstrip(".")


def driver(version: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the version of NVIDIA's driver; "none" without one."""
    found = re.search(r"(?:Kernel Module|for \S+)\s+(\d[\d.]*)", version.read_text()) if version.exists() else None
    return found[1] if found else "none"


def available_memory(device: torch.device, threads: int) -> int:
    """Return the bytes for one process: a GPU's free memory, or this process's share, by processors, of the machine's.

    If a container or a batch system grants less, the share is of that, and of the processors granted.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1, threads / len(os.sched_getaffinity(0)))
    return int(min(total * threads // os.cpu_count(), total, *(limit * share for limit in memory_limits())))


def per_parameter(device: torch.device) -> int:
    """Return the bytes that training keeps for each parameter."""
    return PER_PARAMETER_CUDA if device.type == "cuda" else PER_PARAMETER


def pieces(memory: int, model: int, bytes_per_token: float, tokens: float) -> int:
    """Return into how many pieces a process must cut its `tokens`, source and target, to fit each into `memory` bytes.

    model: bytes kept for all parameters. Raises InputError if the model alone does not fit.
    """
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
