"""A CUDA device without a GPU, in this process: fake tensors on it have shapes and types, but no numbers.

To be imported before torch, in a process of its own. The environment's PRETEND is the library made of pretend.cpp. What
would wait for the GPU, because it needs a number, raises an exception.
"""

import ctypes
import os
from collections import Counter

ctypes.CDLL(os.environ["PRETEND"])

import numpy as np  # noqa: E402 (the library comes first)
import torch  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

CUDA = torch.device("cuda", 0)
FAKE = FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False))
GENERATOR = torch.zeros(16, dtype=torch.uint8)
ANSWERS = {  # an H100's, as far as anybody asks
    "is_available": True,
    "is_initialized": False,
    "is_bf16_supported": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_capability": (9, 0),
    "get_rng_state": GENERATOR,
    "set_rng_state": None,
    "manual_seed_all": None,
    "set_device": None,
    "synchronize": None,
    "_lazy_init": None,
    "_exchange_device": 0,
    "_maybe_exchange_device": 0,
}


def install() -> None:
    """Let torch.cuda answer as a GPU's would, and arrays become fake tensors on it."""
    for name, answer in ANSWERS.items():
        for module in (torch.cuda, torch.cuda.random):
            if hasattr(module, name):
                setattr(module, name, lambda *_, answer=answer, **__: answer)
    from transformer.model import packed
    from transformer.training import batches

    packed.to_device = batches.to_device = to_device


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return a fake tensor in the place of packed.to_device's, whose pinned memory has no fake."""
    with FAKE:
        return torch.empty(array.shape, dtype=torch.from_numpy(array[:0]).dtype, device=device)


class Watch(TorchDispatchMode):
    """Counts the operators that give a GPU work, and notes the types that attention is given."""

    def __init__(self):
        super().__init__()
        self.operators: Counter[str] = Counter()
        self.attention: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        self.operators[name] += not (function.is_view or name.startswith("prim."))  # these two are no work for a GPU
        if "attn" in name or "attention" in name:
            tensors = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
            self.attention |= {f"{name} {x.dtype}" for x in tensors}
        return function(*args, **(kwargs or {}))
