"""Softmax and dropout for a processor, where PyTorch's are several times as slow; packed rows to padded and back.

A GPU waits for its memory, so layers hand on 16 bits there, and a product applies ReLU itself.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 2**16  # a dropout rate is rounded to a multiple of 1 / STEPS
LOWEST = -80  # e^LOWEST is lost beside 1; to compute what is smaller, or a mask's e^-inf, takes many times as long


class Softmax(torch.autograd.Function):
    """The softmax over the last dimension. Overwrites its input."""

    @staticmethod
    def forward(ctx, scores: Tensor) -> Tensor:
        weights = scores.sub_(scores.amax(dim=-1, keepdim=True)).clamp_(min=LOWEST).exp_()
        F.threshold_(weights, math.exp(LOWEST + 1), 0.0)
        weights /= weights.sum(dim=-1, keepdim=True)
        ctx.mark_dirty(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        product = gradient * weights
        return product.addcmul_(weights, product.sum(dim=-1, keepdim=True), value=-1)


class Dropout(nn.Dropout):
    """§5.4: each number is dropped with probability p, and the others grow by 1 / (1 - p)."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p if self.training else 0.0)


def dropout(x: Tensor, P: float) -> Tensor:
    """Drop numbers of `x`, of any shape; which ones depends on torch's seed alone."""
    if P == 0.0 or x.is_cuda:
        return F.dropout(x, P)
    dropped = round(P * STEPS)
    if dropped >= STEPS:
        return x * 0.0
    # Four numbers share a draw of 64 bits.
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = torch.ge(drawn[: x.numel()].view(x.shape), dropped - STEPS // 2, out=torch.empty(x.shape))
    return x * kept.mul_(STEPS / (STEPS - dropped)).to(x.dtype)


def narrowed(x: Tensor) -> Tensor:
    """Return x in 16 bits if a GPU's products are: half as much to move."""
    return x.to(torch.get_autocast_dtype("cuda")) if x.is_cuda and torch.is_autocast_enabled("cuda") else x


def linear_relu(linear: nn.Linear, x: Tensor) -> Tensor:
    """Return max(0, x W + b): [n, out]. On a GPU the product itself takes the maximum, as it writes."""
    if not x.is_cuda:
        return F.relu(linear(x))
    return ProductReLU.apply(*map(narrowed, (x, linear.weight, linear.bias)))


class ProductReLU(torch.autograd.Function):
    """max(0, x W^T + b) of x [n, in], W [out, in] and b [out], all of one type."""

    @staticmethod
    def forward(ctx, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        out = torch._addmm_activation(b, x, W.T)
        ctx.save_for_backward(x, W, out)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, W, out = ctx.saved_tensors
        gradient = torch.where(out > 0, gradient, 0.0)
        return gradient @ W, gradient.T @ x, gradient.sum(dim=0)


class Pad(torch.autograd.Function):
    """From packed [n, d] to padded [size, d], zero elsewhere: one copy by row; autograd's own would add.

    slots: the places of the first rows; the rows after them are padding of the batch.
    """

    @staticmethod
    def forward(ctx, x: Tensor, slots: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.n = x.shape[0]
        return put_rows(x, slots, size)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return take_rows(gradient, ctx.saved_tensors[0], ctx.n), None, None


class Unpad(torch.autograd.Function):
    """From padded [size, d] to packed [n, d]: the inverse of Pad."""

    @staticmethod
    def forward(ctx, x: Tensor, slots: Tensor, n: int) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = x.shape[0]
        return take_rows(x, slots, n)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return put_rows(gradient, ctx.saved_tensors[0], ctx.size), None, None


def put_rows(x: Tensor, slots: Tensor, size: int) -> Tensor:
    """Return [size, d]: zeros, and at `slots` the first rows of x."""
    return x.new_zeros(size, x.shape[1]).index_copy_(0, slots, x[: len(slots)])


def take_rows(x: Tensor, slots: Tensor, n: int) -> Tensor:
    """Return [n, d]: the rows `slots` of x, then zeros."""
    if n == len(slots):
        return x.index_select(0, slots)
    out = x.new_zeros(n, x.shape[1])
    torch.index_select(x, 0, slots, out=out[: len(slots)])
    return out
