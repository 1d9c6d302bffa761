"""Run one part of the GPU's code on a CUDA device without a GPU, and print the observations as JSON.

    export PRETEND=pretend.so PYTHONPATH=.  # pretend.cpp, compiled as test_without_a_gpu.py does
    python tests/gpu/trace.py step base

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
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from msgspec.structs import replace
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
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
from transformer.training import loss
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


def learner_of(name: str, **changes) -> Learner:
    """Return the learner of a row's model at the paper's size, except for `changes`, on random sentences."""
    work = of_paper(name, PAIRS)
    experiment = replace(work.experiment, model=replace(work.experiment.model, **changes))
    measures_memory = patch.object(Learner, "accumulations", lambda *_: 1)
    compiles = patch.object(
        Learner, "compile", lambda learner: setattr(learner, "capacity", learner.largest_piece(learner.batches_of(0)))
    )
    moves = patch.object(torch.nn.Module, "to", lambda model, _: model)  # fake parameters are made on the right device
    with FAKE, CUDA, measures_memory, compiles, moves:
        return Learner(experiment, work.text, None, World(0, 1, CUDA), 0)


def update(learner: Learner, batch: np.ndarray) -> bool:
    """Make one step. Return true if the gradients are still views of one buffer."""
    with FAKE:
        learner.update("step 1", batch, 1, False)
    return all(parameter.grad._base is learner.gradients for parameter in learner.parameters)


def step(name: str) -> dict:
    """Train the model for one uncompiled step at full size."""
    learner = learner_of(name)
    learner.capacity = None
    with Watch() as seen:
        views = update(learner, learner.batches_of(0)[0])
    return {"views": views, "parameters": len(learner.parameters), "operators": seen.operators.total()}


def compiled(name: str) -> dict:
    """Compile the step of two layers up to Inductor's input graphs, for the most different batches."""
    learner, graphs = learner_of(name, N=2), {"forward": [], "backward": []}

    def keep(kind: str) -> Callable:
        def compiler(graph: torch.fx.GraphModule, _) -> Callable:
            graphs[kind].append(graph)
            return make_boxed_func(graph)

        return compiler

    backend = aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    with patch.object(torch, "compile", partial(torch.compile, backend=backend)):
        learner.compiled = loss.compiled()
    batches = sorted(learner.batches_of(0), key=lambda batch: learner.text.lengths[:, batch].max())
    chosen = [batches[0], batches[len(batches) // 2], batches[-1]]
    views = all([update(learner, batch) for batch in chosen])
    (forward,), attention = graphs["forward"], torch.ops.higher_order.flex_attention
    nodes = forward.graph.find_nodes(op="call_function", target=attention)
    return {
        "longest": [int(learner.text.lengths[:, batch].max()) for batch in chosen],
        "pairs": [len(batch) for batch in chosen],
        "views": views,
        "backward": len(graphs["backward"]),
        "breaks": sum(counters["graph_break"].values()),
        "attention": sorted({str(x.meta["val"].dtype) for node in nodes for x in node.args[:3]}),
    }


if __name__ == "__main__":
    _, part, model = sys.argv
    # A step's numbers go to the processor through pinned memory and an event. These have no fake.
    with patch.object(training_step, "copied", lambda numbers: (numbers, None)):
        print(json.dumps(globals()[part](model)))
