"""The memory that a training has, and the number of pieces into which its batches must be cut to fit."""

import math
import os
from collections.abc import Callable

import torch
from torch import Tensor

from transformer.files import InputError
from transformer.runtime.cgroups import granted

# The part of the memory that is planned with; the rest is for what exists only for a moment, and for other programs.
SHARE = 0.7
# Bytes per parameter: the weight, its gradient, Adam's two moments; and on a processor, where they lie beside them, the
# three copies of weight and moments that a save holds at most, as measured: its own, and two of safetensors' while it
# writes. A GPU has the weights in 16 bits, too.
PER_PARAMETER, PER_PARAMETER_CUDA = 4 * (1 + 1 + 2 + 3 * 3), 4 * (1 + 1 + 2) + 2


def available(device: torch.device, threads: int) -> int:
    """Return the bytes for one process: what its GPU has free, or its share, by processors, of the machine's memory.

    Where a container or a batch system grants less, the share is of that, and of the processors granted.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = min(1, threads / len(os.sched_getaffinity(0)))
    return int(min(total * threads // os.cpu_count(), total, *(limit * share for limit in granted())))


def per_parameter(device: torch.device) -> int:
    """Return the bytes that training keeps for each parameter in the device's memory."""
    return PER_PARAMETER_CUDA if device.type == "cuda" else PER_PARAMETER


def pieces(memory: int, model: int, bytes_per_token: float, tokens: float) -> int:
    """Return into how many pieces a process must cut its `tokens`, source and target, to fit each into `memory` bytes.

    model: bytes of all that is kept for each parameter. Raises InputError where the model alone does not fit.
    """
    room = SHARE * memory - model
    if room <= 0:
        gib = model / SHARE / 2**30
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
