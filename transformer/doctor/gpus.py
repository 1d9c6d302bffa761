"""Checks of a machine's GPUs, and of PyTorch's way to them."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.doctor.finding import Finding, error, ok, warning
from transformer.runtime.device import DRIVER, first_line, gpus_in, why
from transformer.text import origin

COMPILER = "it needs a C compiler and Python's headers (Debian: gcc python3-dev; conda: c-compiler)"
SIZE = 1024  # rows and columns of the matrices
ERROR = 1e-2  # relative error of the product above which the GPU is broken; bfloat16's own is 3e-3
FREE = 0.9  # share of the memory below which other programs use the GPU, and trainings have less


def check_gpus(asked: int | None = None, devices: Path = Path("/dev")) -> Iterator[Finding]:
    """Check that PyTorch sees the GPUs that the machine has, or that were asked for, and that each works."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    there = len(gpus_in(devices))
    if seen < (there if asked is None else asked):
        reason, fix = why_here(there, [str(message.message) for message in caught])
        expected = f"{there} here" if asked is None else f"{asked} asked for"
        level = warning if seen and asked is None else error
        yield level("GPUs", f"{expected}, PyTorch sees {seen}: {reason}", fix)
    elif asked is not None and seen > asked:
        message = f"{asked} asked for, PyTorch sees {seen}: several jobs may use one GPU"
        fix = "gres.conf with File= for each GPU and ConstrainDevices; tell who runs the cluster"
        yield warning("GPUs", message, fix)
    elif not seen:
        yield ok("GPUs", "none; what trains here trains on the processor")
    for number in range(seen):
        found = check_gpu(number)
        yield found
        if found.level != "error":
            yield check_compiler(torch.device("cuda", number))
    if seen > 1 and not dist.is_nccl_available():
        message = "this PyTorch has no NCCL: GPUs cannot train together"
        yield error("GPUs", message, "install requirements.lock on Linux")


def why_here(there: int, messages: list[str]) -> tuple[str, str]:
    """Return why PyTorch sees fewer GPUs than expected, and what mends it; there: how many the machine has."""
    if torch.backends.cuda.is_built() and not there:
        return "no /dev/nvidia0", "nvidia-smi on that machine; in a job, its partition's gres and the profile's gpu"
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.backends.cuda.is_built() and not messages and chosen is not None:
        return f"CUDA_VISIBLE_DEVICES is {chosen!r}", "unset CUDA_VISIBLE_DEVICES, unless that is what you want"
    return why(messages)


def check_gpu(number: int) -> Finding:
    """Check that a GPU multiplies correctly, has bfloat16, and its memory is free."""
    subject = f"GPU {number}"
    try:
        x = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(1))
        there = x.to(f"cuda:{number}", torch.bfloat16 if has_bfloat16(number) else torch.float32)
        expected = x.double() @ x.double()
        off = ((there @ there).cpu().double() - expected).norm() / expected.norm()
        free, total = torch.cuda.mem_get_info(number)
    except RuntimeError as failure:
        return error(subject, first_line(str(failure)), DRIVER)
    name = f"{torch.cuda.get_device_name(number)}, {free / 2**30:.3g} of {total / 2**30:.3g} GiB free"
    if not off < ERROR:
        message = f"{name}: a product of matrices is wrong by {off:.2g}"
        return error(subject, message, "another GPU; tell who runs the machine")
    if not has_bfloat16(number):
        message = f"{name}: no bfloat16, so that training takes float32 and is slower"
        return warning(subject, message, "a GPU of 2020 or later")
    if free < FREE * total:
        return warning(subject, f"{name}: other programs use it", "nvidia-smi names them")
    return ok(subject, f"{name}, multiplies in bfloat16")


def check_compiler(device: torch.device) -> Finding:
    """Check that code can be compiled for a device, as a training's step is; without, the step takes longer."""
    subject = f"compiler for {device}"
    try:
        x = torch.arange(SIZE, dtype=torch.float32, device=device)
        same = torch.equal(torch.compile(two_lines)(x), two_lines(x))
    except Exception as failure:  # of Dynamo, Inductor, Triton or the C compiler, each with its own kinds
        return warning(subject, f"cannot compile, so that training is slower: {origin(failure)}", COMPILER)
    if not same:
        return error(subject, "compiled code computes something else", "another GPU; tell who runs the machine")
    return ok(subject, "compiles, and computes the same")


def two_lines(x: Tensor) -> Tensor:
    y = x * 2
    return y + 1


def has_bfloat16(number: int) -> bool:
    """Return whether a GPU itself has bfloat16, which PyTorch can also emulate."""
    with torch.cuda.device(number):
        return torch.cuda.is_bf16_supported(including_emulation=False)
