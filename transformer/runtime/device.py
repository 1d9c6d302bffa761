"""The device that computes: the GPU that this process was given, or else the processor."""

import os
import re
import warnings
from pathlib import Path

import torch

from transformer.files import InputError

VARIABLE = "TRANSFORMER_DEVICE"  # "cpu": the processor, whatever GPUs there are
SLURM = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # the GPUs of a job or of its step, for the programs in it
DRIVER = "nvidia-smi shows whether the driver works, and which programs use the GPU"
NEWER_DRIVER = "a newer driver, or a PyTorch wheel for this one's CUDA (docs/long-runs.md)"


def best_device() -> torch.device:
    """Return the GPU where there is one, else the processor.

    Raises InputError where this process was given a GPU that PyTorch cannot open: on the processor a training of days
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
    """Return what says that this process has a GPU; None where nothing does, or the processor is asked for."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # CUDA reads numbers and names; Slurm writes NoDevFiles, and others -1, for none
        return f"CUDA_VISIBLE_DEVICES={visible}" if re.match(r"\s*(\d|GPU-|MIG-)", visible) else None
    for name in SLURM:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    return next((str(path) for path in gpus_in(devices)), None)


def gpus_in(devices: Path = Path("/dev")) -> list[Path]:
    """Return the files of NVIDIA's GPUs among a machine's devices."""
    return sorted(path for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))


def why(messages: list[str]) -> tuple[str, str]:
    """Return why PyTorch opens no GPU, or fewer than there are, and what mends it.

    messages: what PyTorch warned of when it was asked for GPUs, which has CUDA's own words.
    """
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
    """Return what CUDA says, without its advice on debugging."""
    return message.partition("\n")[0].rstrip(".")


def driver(version: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the version of NVIDIA's driver, as the kernel tells it; "none" where it has none."""
    found = re.search(r"(?:Kernel Module|for \S+)\s+(\d[\d.]*)", version.read_text()) if version.exists() else None
    return found[1] if found else "none"
