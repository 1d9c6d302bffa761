"""Softmax and dropout for processors. PyTorch's own kernels are several times slower there."""

import math

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


class Dropout(nn.Dropout):
    """§5.4: each number is dropped with probability p. All other numbers are multiplied by 1 / (1 - p)."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p if self.training else 0.0)
