"""The memory that a training has, and the number of pieces into which its batches must be cut to fit."""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from transformer.common.files import InputError
from transformer.runtime.cgroups import granted

# The part of the memory that is planned with; the rest is for what exists only for a moment, and for other programs.
SHARE = 0.7
# Bytes per parameter: the weight, its gradient, Adam's two moments; and the three copies of weight and moments that a
# save holds at most, as measured: its own, and two of safetensors' while it writes.
PER_PARAMETER = 4 * (1 + 1 + 2 + 3 * 3)


def available(device: torch.device, threads: int) -> int:
    """Return the bytes for one process: its GPU's memory, or its share, by processors, of the machine's.

    Where a container or a batch system grants less, the share is of that, and of the processors granted.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1, threads / len(os.sched_getaffinity(0)))
    return int(min(total * threads // os.cpu_count(), total, *(limit * share for limit in granted())))


def pieces(memory: int, parameters: int, bytes_per_token: float, tokens: int) -> int:
    """Return into how many pieces a process must cut its `tokens`, source and target, to fit each into `memory` bytes.

    Raises InputError where the model alone does not fit.
    """
    room = SHARE * memory - PER_PARAMETER * parameters
    if room <= 0:
        gib = PER_PARAMETER * parameters / SHARE / 2**30
        raise InputError(f"memory: expected more than {gib:.2g} GiB for model and Adam, found {memory / 2**30:.2g}")
    return math.ceil(tokens * bytes_per_token / room)


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
