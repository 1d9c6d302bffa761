"""Batch normalisation (Ioffe & Szegedy 2015) instead of LayerNorm: `norm: batch`, a row of Table 5.

In training, each dimension is normalised by its mean and variance over the tokens that all processes handle at the same
time. Padding does not count. The result does not depend on the number of processes, but it depends on the number of
pieces: if each process handles several pieces of a batch in turn, all first pieces share one set of statistics, all
second pieces another one, and so on. In training, an output depends on later tokens of its sentence and on other
sentences, even in the decoder. In evaluation mode it does not, because the running statistics are fixed.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

EPSILON, MOMENTUM = 1e-5, 0.1  # PyTorch's defaults


class BatchNorm(nn.Module):
    """Normalisation, gain and bias in float32. The running statistics are saved with the weights."""

    def __init__(self, d_model: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))
        self.momentum = MOMENTUM  # the weight of the newest statistics in the running statistics

    @staticmethod
    def all_reduce(x: Tensor) -> Tensor:
        """Return the sum of x over all processes. This method is for one process; a training replaces it."""
        return x

    def forward(self, x: Tensor, count: int | None = None) -> Tensor:
        """Normalise x [n, d_model]. count: the number of tokens, if rows of padding follow them."""
        x = x.to(self.weight.dtype)
        if self.training:
            mean, variance, total = self.statistics(x.detach()[:count])
            x = _Normalised.apply(x, mean, (variance + EPSILON).rsqrt(), count, total, self.all_reduce)
        else:
            x = (x - self.running_mean) * (self.running_var + EPSILON).rsqrt()
        return x * self.weight + self.bias

    @torch.no_grad()
    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, variance [d_model] and number of all processes' tokens; update the running statistics.

        x: [n, d_model], the tokens of this process.
        """
        sums = self.all_reduce(torch.cat([x.sum(dim=0), x.new_full((1,), len(x))]))
        mean, total = sums[:-1] / sums[-1], sums[-1]
        variance = self.all_reduce((x - mean).square_().sum(dim=0)) / total
        self.running_mean.lerp_(mean, self.momentum)
        # Like in PyTorch, the running variance is unbiased. The variance of a single token is 0.
        self.running_var.lerp_(variance * total / (total - 1).clamp(min=1), self.momentum)
        return mean, variance, total


class _Normalised(torch.autograd.Function):
    """(x - mean) * scale. The gradient also passes through mean and scale to the tokens of all processes."""

    @staticmethod
    def forward(
        ctx, x: Tensor, mean: Tensor, scale: Tensor, count: int | None, total: Tensor, all_reduce: Callable
    ) -> Tensor:
        y = (x - mean).mul_(scale)
        ctx.save_for_backward(y, scale, total)
        ctx.count, ctx.all_reduce = count, all_reduce
        return y

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        y, scale, total = ctx.saved_tensors
        through_mean, through_scale = ctx.all_reduce(torch.stack([gradient.sum(dim=0), (gradient * y).sum(dim=0)]))
        result = gradient.clone()
        result[: ctx.count] -= (through_mean + y[: ctx.count] * through_scale) / total
        return result.mul_(scale), None, None, None, None, None


def batch_norms(model: nn.Module) -> list[BatchNorm]:
    """Return the model's batch normalisations in the order of a forward pass."""
    return [module for module in model.modules() if isinstance(module, BatchNorm)]


def take_part(model: nn.Module) -> None:
    """Join the sums of the other processes, forward and backward, if this process has no tokens."""
    norms = batch_norms(model)
    for norm in norms:
        norm.statistics(norm.weight.new_empty(0, len(norm.weight)))
    for norm in reversed(norms):
        norm.all_reduce(norm.weight.new_zeros(2, len(norm.weight)))
