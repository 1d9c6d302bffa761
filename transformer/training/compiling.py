"""A GPU's step, compiled: one graph of model and loss. If that fails, or is wrong, the training goes on without."""

import importlib
import math
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from transformer.model.transformer import Transformer
from transformer.text import origin, out_of_memory
from transformer.training.batches import Batch
from transformer.training.loss import batch_losses

GRAPHS = 64  # compiled at most: nearly all batches are padded to one size, and a larger one has a graph of its own
# Greatest relative errors of losses, in a batch of TOKENS target tokens, and of gradients' norms. On untrained models
# two draws of dropout were 0.003 and 0.19 apart at most with 4,000 tokens, 0.016 and 0.42 with 100, 0.029 and 0.66 with
# 25. A wrong mask, sum or scale is far off.
LOSS, TOKENS, GRADIENT = 0.01, 4000, 0.9

Losses = Callable[[Transformer, Batch, float, torch.dtype], tuple[Tensor, Tensor]]


def prepare(cache: Path, threads: int) -> None:
    """Set the compiler's cache, so that a resumed training finds it, and its processes; the environment comes first.

    Else each process would start a compiler for each processor of the machine.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache.resolve()))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))


def compiled() -> Losses:
    """Return `batch_losses` as one compiled graph for all batches of one size."""
    importlib.import_module("torch.nn.attention.flex_attention")  # not while the code that uses it is being compiled
    compute = torch.compile(batch_losses, fullgraph=True, dynamic=False)

    def losses(model: Transformer, batch: Batch, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        with torch._dynamo.config.patch(recompile_limit=GRAPHS):
            return compute(model, batch, epsilon, dtype)

    return losses


def compiler_fault(
    compute: Losses, model: Transformer, batch: Batch, padded: Batch, epsilon: float, dtype: torch.dtype
) -> str | None:
    """Compile, and compute losses and gradients of one batch; return the reason of a failure, or None.

    padded: the same pairs for padded attention, uncompiled, to compare with. A GPU's own failure is raised.
    """
    try:
        found = measured(compute, model, batch, epsilon, dtype)
    except torch.AcceleratorError:
        raise
    except Exception as error:  # of Dynamo, Inductor, Triton or the C compiler that they call, each with its own kinds
        if out_of_memory(error):
            raise
        return origin(error)
    loss = LOSS * max(1.0, math.sqrt(TOKENS / len(padded.target.ids)))
    return difference(found, measured(batch_losses, model, padded, epsilon, dtype), loss)


def measured(compute: Losses, model: Transformer, batch: Batch, epsilon: float, dtype: torch.dtype) -> dict[str, float]:
    """Return both losses, and the norm of each parameter's gradient; without residuals that is rounding, left out."""
    losses = compute(model, batch, epsilon, dtype)
    names, parameters = zip(*model.named_parameters(), strict=True)
    norms = torch._foreach_norm(torch.autograd.grad(losses[0], parameters))
    numbers = torch.stack([*losses, *norms]).detach().tolist()
    found = dict(zip(("smoothed loss", "plain loss", *names), numbers, strict=True))
    return found if model.config.residual else {name: found[name] for name in ("smoothed loss", "plain loss")}


def difference(found: dict[str, float], expected: dict[str, float], loss: float) -> str | None:
    """Name the first number whose error is more than dropout explains; loss: the greatest relative error of losses."""
    for name, number in expected.items():
        if not abs(found[name] - number) <= (loss if name.endswith(" loss") else GRADIENT) * abs(number):
            kind = name if name.endswith(" loss") else f"gradient of {name}"
            return f"{kind}: expected about {number:.4g}, as uncompiled, found {found[name]:.4g}"
    return None
