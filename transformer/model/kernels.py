"""§3.2.1 and §5.4 for speed: flash attention on a GPU; softmax and dropout on a processor, where PyTorch's are slow.

Measured on two cores at a sentence's length: softmax over 14 places is eight times as fast written out, a dropout mask
of 16-bit numbers seven times as fast as Bernoulli draws.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from transformer.config.experiment import Model

STEPS = 2**16  # a dropout rate is rounded to a multiple of 1 / STEPS
LOWEST = -80  # e^LOWEST is lost beside 1; to compute what is smaller, or a mask's e^-inf, takes many times as long


def weighted_sum(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, P_drop: float) -> Tensor:
    """§3.2.1, equation 1, in float32 or better: products as small as these are not worth converting to bfloat16.

    mask: None, or added to the scores [B, h, L_q, L_k], to which it must broadcast. See model.attention.
    """
    with torch.autocast("cpu", enabled=False):
        dtype = torch.promote_types(Q.dtype, torch.float32)
        q, k, v = (x.to(dtype, memory_format=torch.contiguous_format).flatten(0, 1) for x in (Q, K, V))
        shape, beta = (*Q.shape[:-1], K.shape[-2]), float(mask is not None)
        added = q.new_zeros(1, 1, 1) if mask is None else mask.to(dtype).expand(shape).reshape(-1, *shape[2:])
        scores = torch.baddbmm(added, q, k.mT, beta=beta, alpha=Q.shape[-1] ** -0.5)
        return torch.bmm(dropout(Softmax.apply(scores), P_drop), v).view(*Q.shape[:-1], V.shape[-1])


def flash(
    Q: Tensor, K: Tensor, V: Tensor, q_offsets: Tensor, k_offsets: Tensor, L_q: int, L_k: int, causal: bool
) -> Tensor:
    """Equation 1 on a GPU, without padding. Q: [n_q, h, d]. K, V: [n_k, h, d]. Returns [n_q, h, d].

    offsets: [B + 1] int32, where each sentence begins. L: what no sentence is longer than. See `flashes`.
    """
    window = (-1, 0) if causal else (-1, -1)
    return varlen_attn(Q, K, V, q_offsets, k_offsets, L_q, L_k, window_size=window)


def flashes(model: Model, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `flash` can train this model there: it knows 16 bits, heads of one width, and no dropout."""
    like_heads = model.d_k == model.d_v and model.d_k <= 256 and model.d_k % 8 == 0
    return device.type == "cuda" and dtype == torch.bfloat16 and like_heads and model.P_drop_attention == 0


class Softmax(torch.autograd.Function):
    """softmax over the last dimension. Overwrites its input."""

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
    """Any shape. What is dropped depends on torch's seed alone."""
    if P == 0.0 or x.is_cuda:
        return F.dropout(x, P)
    return x * dropout_mask(x.shape, P).to(x.dtype)


def dropout_mask(shape: torch.Size, P: float) -> Tensor:
    """0 where a number is dropped, 1 / (1 - P) elsewhere."""
    dropped = round(P * STEPS)
    if dropped >= STEPS:
        return torch.zeros(shape)
    drawn = torch.empty((shape.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = torch.ge(drawn[: shape.numel()].view(shape), dropped - STEPS // 2, out=torch.empty(shape))
    return kept.mul_(STEPS / (STEPS - dropped))


class Pad(torch.autograd.Function):
    """Packed [n, d] to padded [size, d], zero elsewhere. Each way is one copy by row (autograd's own would add).

    slots: where the first rows go; what is behind them only fills up a batch.
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
    """Padded [size, d] to packed [n, d]: the inverse of Pad."""

    @staticmethod
    def forward(ctx, x: Tensor, slots: Tensor, n: int) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = x.shape[0]
        return take_rows(x, slots, n)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return put_rows(gradient, ctx.saved_tensors[0], ctx.size), None, None


def put_rows(x: Tensor, slots: Tensor, size: int) -> Tensor:
    """[size, d], zero but for the rows `slots`, which are the first ones of x."""
    return x.new_zeros(size, x.shape[1]).index_copy_(0, slots, x[: len(slots)])


def take_rows(x: Tensor, slots: Tensor, n: int) -> Tensor:
    """[n, d]: the rows `slots` of x; then zeros."""
    if n == len(slots):
        return x.index_select(0, slots)
    out = x.new_zeros(n, x.shape[1])
    torch.index_select(x, 0, slots, out=out[: len(slots)])
    return out
