"""§4, Table 1: how often a layer of each type multiplies. All map one sequence [n, d] to [n, d].

Symbols: n positions, d width, k kernel, r neighbours. Only matrix products are counted; softmax, tanh and biases are
not, nor does the paper count them. Nothing here needs torch.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Term(NamedTuple):
    """`factor` times powers of the sizes."""

    factor: int
    n: int
    d: int
    k: int = 0
    r: int = 0


# By the paper's names, then three more: what §4 says of contiguous kernels, §3.2.2's whole layer, and the additive
# attention that §3.2.1 compares with.
LAYER_TYPES = (
    "Self-Attention",
    "Recurrent",
    "Convolutional",
    "Self-Attention (restricted)",
    "Convolutional, contiguous kernels",
    "Self-Attention with projections",
    "Self-Attention, additive",
)
# Multiply-adds of one layer, as a sum. A single layer with contiguous kernels is a convolutional one, so it has none.
COSTS = {
    "Self-Attention": (Term(2, n=2, d=1),),
    "Recurrent": (Term(2, n=1, d=2),),
    "Convolutional": (Term(1, n=1, d=2, k=1),),
    "Self-Attention (restricted)": (Term(2, n=1, d=1, r=1),),
    "Self-Attention with projections": (Term(2, n=2, d=1), Term(4, n=1, d=2)),
    "Self-Attention, additive": (Term(2, n=2, d=1),),
}


def multiply_adds(cost: tuple[Term, ...], sizes: Mapping[str, int]) -> int:
    """Return the number of multiplications, each with its addition, of one layer; `sizes` are n, d, k and r."""
    return sum(term.factor * math.prod(sizes[size] ** getattr(term, size) for size in "ndkr") for term in cost)


def growth(cost: tuple[Term, ...], size: str) -> int:
    """Return the power of `size` ("n" or "d") that rules when only it grows."""
    return max(getattr(term, size) for term in cost)


def formula(cost: tuple[Term, ...]) -> str:
    """Return `2 · n^2 · d + 4 · n · d^2`."""
    return " + ".join(" · ".join([str(term.factor)] * (term.factor > 1) + powers(term)) for term in cost)


def powers(term: Term) -> list[str]:
    """Return `["k", "n", "d^2"]`, in the paper's order."""
    exponents = {size: getattr(term, size) for size in "krnd"}
    return [size if exponent == 1 else f"{size}^{exponent}" for size, exponent in exponents.items() if exponent]
