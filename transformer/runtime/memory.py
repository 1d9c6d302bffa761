"""How much memory a training has, and into how many pieces its batches must be cut to fit."""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from transformer.common.files import InputError
from transformer.runtime.cgroups import granted

# Of the memory, the part that is planned with; the rest is for what exists only for a moment, and for others.
SHARE = 0.7
# Bytes per parameter: the weight, its gradient, Adam's two moments, and of three of them the three copies that a save
# holds at most, as measured: its own, and two of safetensors' while it is written.
PER_PARAMETER = 4 * (1 + 1 + 2 + 3 * 3)


def available(device: torch.device, threads: int) -> int:
    """Bytes for one process: its GPU's memory, or of the machine's the same part as it has of the processors.

    So too of what a container or a batch system grants, and of the processors in it.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    parts = [total * threads // os.cpu_count(), total]
    for limit in granted():
        parts.append(limit * min(1, threads / len(os.sched_getaffinity(0))))
    return int(min(parts))


def pieces(memory: int, parameters: int, bytes_per_token: float, tokens: int) -> int:
    """Into how many pieces a process cuts its `tokens`, source and target, so that a piece fits into `memory` bytes.

    Raises InputError where the model alone does not fit.
    """
    room = SHARE * memory - PER_PARAMETER * parameters
    if room <= 0:
        gib = PER_PARAMETER * parameters / SHARE / 2**30
        raise InputError(f"memory: expected more than {gib:.2g} GiB for model and Adam, found {memory / 2**30:.2g}")
    return math.ceil(tokens * bytes_per_token / room)


def saved_bytes(forward: Callable[[], object]) -> int:
    """Bytes that `forward` keeps for its backward pass, each storage counted once."""
    storages = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        kept = forward()  # the graph must live while storages are told apart by address
    del kept
    return sum(storages.values())
