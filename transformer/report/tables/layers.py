"""§4, Table 1: a layer of each type. All map one sequence [n, d] to [n, d].

Symbols: n positions, d width, k kernel, r neighbours.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.model.attention import attention

QUERIES = 64  # of additive attention, which holds d numbers for each of them and each key


class Attention(nn.Module):
    """Attention of §3.2.1 alone, Q = K = V = x: what O(n^2 · d) counts. h heads of width d / h multiply as much."""

    def forward(self, x: Tensor) -> Tensor:
        return attend(x[None], x[None], x[None])[0]


class Projected(nn.Module):
    """Attention of §3.2.2, with its projections W^Q, W^K, W^V and W^O."""

    def __init__(self, d: int):
        super().__init__()
        self.inputs = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(3))
        self.output = nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(attend(*(projection(x)[None] for projection in self.inputs))[0])


class Additive(nn.Module):
    """Additive attention of §3.2.1 alone, Q = K = V = x, so many queries at a time that they fit into memory."""

    def __init__(self, d: int):
        super().__init__()
        self.additive = nn.Parameter(torch.randn(1, d))

    def forward(self, x: Tensor) -> Tensor:
        K = x[None, None]
        parts = x.split(QUERIES)
        heads = [attention(Q[None, None], K, K, None, False, 0.0, additive=self.additive) for Q in parts]
        return torch.cat(heads, dim=2)[0, 0]


class Restricted(nn.Module):
    """Attention of §4 in which each position sees the r around it, itself among them, and multiplies no other."""

    def __init__(self, r: int):
        super().__init__()
        self.r = r

    def forward(self, x: Tensor) -> Tensor:
        ends = (self.r // 2, (self.r - 1) // 2)  # zeros beyond the sequence, which the mask hides
        K = F.pad(x, (0, 0, *ends)).unfold(0, self.r, 1).transpose(1, 2)  # [n, r, d], a view
        mask = F.pad(x.new_zeros(len(x)), ends, value=-math.inf).unfold(0, self.r, 1)
        return attend(x[:, None], K, K, mask[:, None, None])[:, 0]


class Recurrent(nn.RNN):
    """A layer h_t = tanh(W x_t + U h_{t-1} + b). `state`, [1, d], precedes the sequence; zero if not given."""

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return super().forward(x, state)[0]


class Convolutional(nn.Conv1d):
    """A layer whose positions see themselves and k - 1 before, `dilation` apart; zeros precede the sequence."""

    def __init__(self, d: int, k: int, dilation: int = 1):
        super().__init__(d, d, k, dilation=dilation)
        self.before = (k - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x.T, (self.before, 0))).T


def attend(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the model's attention with one head: Q [B, L_q, d], K and V [B, L_k, d] to [B, L_q, d]."""
    return attention(Q[:, None], K[:, None], V[:, None], mask, causal=False, P_drop=0.0)[:, 0]


# How to make layer number `level` of a stack, by d, k, r and level.
LAYERS: dict[str, Callable[[int, int, int, int], nn.Module]] = {
    "Self-Attention": lambda d, k, r, level: Attention(),
    "Recurrent": lambda d, k, r, level: Recurrent(d, d),
    "Convolutional": lambda d, k, r, level: Convolutional(d, k, k**level),
    "Self-Attention (restricted)": lambda d, k, r, level: Restricted(r),
    "Convolutional, contiguous kernels": lambda d, k, r, level: Convolutional(d, k),
    "Self-Attention with projections": lambda d, k, r, level: Projected(d),
    "Self-Attention, additive": lambda d, k, r, level: Additive(d),
}
