"""§4, Table 1: a layer of each type, and what it multiplies. All map one sequence [n, d] to [n, d].

Symbols: n positions, d width, k kernel, r neighbours.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.model.attention import attention


class Attention(nn.Module):
    """§3.2.1 alone, Q = K = V = x: what O(n^2 · d) counts. h heads of width d / h multiply as much as this one."""

    def forward(self, x: Tensor) -> Tensor:
        return attend(x[None], x[None], x[None])[0]


class Projected(nn.Module):
    """§3.2.2: the same between its projections W^Q, W^K, W^V and W^O."""

    def __init__(self, d: int):
        super().__init__()
        self.inputs = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(3))
        self.output = nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(attend(*(projection(x)[None] for projection in self.inputs))[0])


class Restricted(nn.Module):
    """§4: each position sees the r around it, itself among them. No other is multiplied; beyond the ends are zeros."""

    def __init__(self, r: int):
        super().__init__()
        self.r = r

    def forward(self, x: Tensor) -> Tensor:
        ends = (self.r // 2, (self.r - 1) // 2)
        K = F.pad(x, (0, 0, *ends)).unfold(0, self.r, 1).transpose(1, 2)  # [n, r, d], a view
        mask = F.pad(x.new_zeros(len(x)), ends, value=-math.inf).unfold(0, self.r, 1)
        return attend(x[:, None], K, K, mask[:, None, None])[:, 0]


class Recurrent(nn.RNN):
    """h_t = tanh(W x_t + U h_{t-1} + b). `state` is what precedes the sequence: [1, d], zero if not given."""

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return super().forward(x, state)[0]


class Convolutional(nn.Conv1d):
    """Each position sees itself and k - 1 before it, `dilation` apart; zeros precede the sequence."""

    def __init__(self, d: int, k: int, dilation: int = 1):
        super().__init__(d, d, k, dilation=dilation)
        self.before = (k - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x.T, (self.before, 0))).T


def attend(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """The model's attention with one head: Q [B, L_q, d], K and V [B, L_k, d] to [B, L_q, d]."""
    return attention(Q[:, None], K[:, None], V[:, None], mask, causal=False, P_drop=0.0)[:, 0]


class Term(NamedTuple):
    """`factor` times powers of the sizes."""

    factor: int
    n: int
    d: int
    k: int = 0
    r: int = 0


class LayerType(NamedTuple):
    """How to make layer number `level` of a stack, by d, k, r and level; and the multiply-adds of one, as a sum."""

    layer: Callable[[int, int, int, int], nn.Module]
    cost: tuple[Term, ...] = ()  # none: another type's single layer is the same


# By the paper's names, then two more: what §4 says of contiguous kernels, and §3.2.2's whole layer.
# Counted are matrix products. Softmax, tanh and biases are not, nor by the paper.
LAYER_TYPES = {
    "Self-Attention": LayerType(lambda d, k, r, level: Attention(), (Term(2, n=2, d=1),)),
    "Recurrent": LayerType(lambda d, k, r, level: Recurrent(d, d), (Term(2, n=1, d=2),)),
    "Convolutional": LayerType(lambda d, k, r, level: Convolutional(d, k, k**level), (Term(1, n=1, d=2, k=1),)),
    "Self-Attention (restricted)": LayerType(lambda d, k, r, level: Restricted(r), (Term(2, n=1, d=1, r=1),)),
    "Convolutional, contiguous kernels": LayerType(lambda d, k, r, level: Convolutional(d, k)),
    "Self-Attention with projections": LayerType(
        lambda d, k, r, level: Projected(d), (Term(2, n=2, d=1), Term(4, n=1, d=2))
    ),
}


def multiply_adds(cost: tuple[Term, ...], sizes: Mapping[str, int]) -> int:
    """Multiplications, each with its addition, of one layer; `sizes` are n, d, k and r."""
    return sum(term.factor * math.prod(sizes[size] ** getattr(term, size) for size in "ndkr") for term in cost)


def growth(cost: tuple[Term, ...], size: str) -> int:
    """The power of `size` ("n" or "d") that rules when only it grows."""
    return max(getattr(term, size) for term in cost)


def formula(cost: tuple[Term, ...]) -> str:
    """`2 · n^2 · d + 4 · n · d^2`."""
    return " + ".join(" · ".join([str(term.factor)] * (term.factor > 1) + powers(term)) for term in cost)


def powers(term: Term) -> list[str]:
    """`["k", "n", "d^2"]`, in the paper's order."""
    exponents = {size: getattr(term, size) for size in "krnd"}
    return [size if exponent == 1 else f"{size}^{exponent}" for size, exponent in exponents.items() if exponent]
