"""A GPU's step, compiled: one graph of model and loss. Where it cannot be compiled, the training goes on without."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from transformer.common.text import origin, out_of_memory
from transformer.model.transformer import Transformer
from transformer.training.batches import Batch
from transformer.training.loss import batch_losses

GRAPHS = 64  # compiled at most: nearly all batches are filled up to one size, and a larger one has a graph of its own

Losses = Callable[[Transformer, Batch, float, torch.dtype], tuple[Tensor, Tensor]]


def prepare(cache: Path, threads: int) -> None:
    """Tell the compiler where to keep its work, so that a training that goes on finds it, and how many may work on it.

    Else each process would start a compiler for each processor of the machine. What the environment says comes first.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache.resolve()))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))


def compiled() -> Losses:
    """Return `batch_losses` as one compiled graph, which serves all batches of one size."""
    importlib.import_module("torch.nn.attention.flex_attention")  # not while the code that uses it is being compiled
    compute = torch.compile(batch_losses, fullgraph=True, dynamic=False)

    def losses(model: Transformer, batch: Batch, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        with torch._dynamo.config.patch(recompile_limit=GRAPHS):
            return compute(model, batch, epsilon, dtype)

    return losses


def tried(compute: Losses, model: Transformer, batch: Batch, epsilon: float, dtype: torch.dtype) -> str | None:
    """Compile losses and gradients, and compute them for one batch; return why that failed, or None.

    What the gradients held is lost. A GPU that fails, or has too little memory, raises its own error.
    """
    try:
        compute(model, batch, epsilon, dtype)[0].backward()
    except torch.AcceleratorError:
        raise
    except Exception as error:  # of Dynamo, Inductor, Triton or the C compiler that they call, each with its own kinds
        if out_of_memory(error):
            raise
        return origin(error)
    return None
