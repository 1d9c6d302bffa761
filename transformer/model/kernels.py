"""Softmax, dropout and matrix products for processors. PyTorch's own softmax and dropout are several times slower."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_STEPS = 2**16  # a dropout rate is rounded to a multiple of 1 / _STEPS
_LOWEST = -80  # exp(-80) is negligible beside 1. Smaller values and exp(-inf) of a mask are slow to compute


class Softmax(torch.autograd.Function):
    """Softmax over the last dimension on a processor. It overwrites its input."""

    @staticmethod
    def forward(ctx, scores: Tensor) -> Tensor:
        weights = scores.sub_(scores.amax(dim=-1, keepdim=True)).clamp_(min=_LOWEST).exp_()
        F.threshold_(weights, math.exp(_LOWEST + 1), 0.0)
        weights /= weights.sum(dim=-1, keepdim=True)
        ctx.mark_dirty(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        product = gradient * weights
        return product.addcmul_(weights, product.sum(dim=-1, keepdim=True), value=-1)


def dropout(x: Tensor, P: float) -> Tensor:
    """Apply dropout to `x` of any shape. Only torch's seed determines the dropped numbers."""
    if P == 0.0 or x.is_cuda:
        return F.dropout(x, P)
    dropped = round(P * _STEPS)
    if dropped >= _STEPS:
        return x * 0.0
    # One random number of 64 bits serves four numbers of x.
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    mask = torch.ge(drawn[: x.numel()].view(x.shape), dropped - _STEPS // 2, out=torch.empty(x.shape))
    return x * mask.mul_(_STEPS / (_STEPS - dropped)).to(x.dtype)


@contextmanager
def onednn_products(dtype: torch.dtype) -> Iterator[None]:
    """Let a processor multiply float32 matrices in `dtype`. oneDNN converts them within the product.

    For the wide matrices of the loss, this is faster than conversions before and after the product. For the model's
    smaller matrices it is slower.
    """
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    if dtype == torch.bfloat16:
        matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


class Dropout(nn.Dropout):
    """§5.4: each number is dropped with probability p. All other numbers are multiplied by 1 / (1 - p)."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p if self.training else 0.0)
