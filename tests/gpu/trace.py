"""Train a model for one step on a CUDA device without a GPU, and print the observations as JSON.

    export PRETEND=pretend.so PYTHONPATH=.  # pretend.cpp, compiled as test_without_a_gpu.py does
    python tests/gpu/trace.py base

Fake tensors on the device have shapes and types, but no numbers. Code that would wait for a number from the GPU raises
an exception.
"""

# ruff: noqa: E402 (the library must load before torch, and torch's answers before this project)
import ctypes
import os

ctypes.CDLL(os.environ["PRETEND"])

import json
import sys
from collections import Counter
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

CUDA = torch.device("cuda", 0)
FAKE = FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False))
ANSWERS = {  # an H100's properties; only these are read
    **{"is_available": True, "is_initialized": False, "is_bf16_supported": True, "device_count": 1},
    **{"current_device": 0, "get_device_capability": (9, 0), "get_rng_state": torch.zeros(16, dtype=torch.uint8)},
    **{"set_rng_state": None, "manual_seed_all": None, "set_device": None, "synchronize": None, "_lazy_init": None},
    **{"_exchange_device": 0, "_maybe_exchange_device": 0},
}
for name, answer in ANSWERS.items():
    for module in (torch.cuda, torch.cuda.random):
        if hasattr(module, name):
            setattr(module, name, lambda *_, answer=answer, **__: answer)

from benchmarks.workload import of_paper
from transformer.model import packed
from transformer.training import step as training_step
from transformer.training.distributed import World
from transformer.training.step import Learner


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return a fake tensor instead of packed.to_device's, because pinned memory has no fake."""
    with FAKE:
        return torch.empty(array.shape, dtype=torch.from_numpy(array[:0]).dtype, device=device)


packed.to_device = to_device


class Watch(TorchDispatchMode):
    """A counter of the operators that give work to a GPU."""

    def __init__(self):
        super().__init__()
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        self.operators[name] += not (function.is_view or name.startswith("prim."))  # neither is work for a GPU
        return function(*args, **(kwargs or {}))


PAIRS = 20_000  # random sentences for about twenty batches


def learner_of(name: str) -> Learner:
    """Return the learner of a row's model at the paper's size, on random sentences."""
    work = of_paper(name, PAIRS)
    measures_memory = patch.object(Learner, "accumulations", lambda *_: 1)
    compiles = patch.object(Learner, "compile", lambda learner: setattr(learner, "capacity", None))
    moves = patch.object(torch.nn.Module, "to", lambda model, _: model)  # fake parameters are made on the right device
    with FAKE, CUDA, measures_memory, compiles, moves:
        return Learner(work.experiment, work.text, None, World(0, 1, CUDA), 0)


def step(name: str) -> dict:
    """Train the model for one uncompiled step at full size. `views`: the gradients are still views of one buffer."""
    learner = learner_of(name)
    with Watch() as seen, FAKE:
        learner.update("step 1", learner.batches_of(0)[0], 1, False)
    views = all(parameter.grad._base is learner.gradients for parameter in learner.parameters)
    return {"views": views, "operators": seen.operators.total()}


if __name__ == "__main__":
    # A step's numbers go to the processor through pinned memory and an event. These have no fake.
    with patch.object(training_step, "copied", lambda numbers: (numbers, None)):
        print(json.dumps(step(sys.argv[1])))
