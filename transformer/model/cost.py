"""Costs that need no torch: the floating-point operations of a training (Table 2) and of layers (Table 1)."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from transformer.config.experiment import Model

SENTENCE = 30  # tokens, of WMT's mean sentence
# FLOP/s in single precision: as the paper has them (§6.1, footnote 5), then peaks by NVIDIA's data sheets, SXM.
SUSTAINED = {"k80": 2.8e12, "k40": 3.7e12, "m40": 6.0e12, "p100": 9.5e12, "v100": 15.7e12, "a100": 19.5e12}
SUSTAINED |= {"a40": 37.4e12, "l4": 30.3e12, "l40s": 91.6e12, "h100": 67e12, "h200": 67e12}


class Lengths(NamedTuple):
    """Sums over sentence pairs of lengths Lₛ and Lₜ in tokens, end of sentence included."""

    source: int  # Σ Lₛ
    target: int  # Σ Lₜ
    source_squares: int  # Σ Lₛ²
    target_squares: int  # Σ Lₜ²
    products: int  # Σ Lₛ Lₜ


def training_flops(model: Model, lengths: Lengths) -> float:
    """Return the FLOPs of a Transformer's matrix products in learning from these tokens; a multiply-add is two.

    Backward costs twice as much as forward, which is, with S = Σ Lₛ, T = Σ Lₜ and V rows under the softmax:

        2 N (3P + F) (S + T) + 2 V d_model T + 2 N h (d_k + d_v) (Σ Lₛ² + Σ Lₜ² + Σ Lₛ Lₜ)

        P = d_model h (d_k + d_v)     F = 2 d_model d_ff

    A token's self-attention projects 2P; cross-attention adds P: a source token's keys and values, a target token's
    query and output. The last term is Q Kᵀ and its product with V in all three attentions, masked or not; additive
    scores count as much. LayerNorm, exponentials, biases, dropout and the optimiser are no matrix products.
    """
    projections = model.d_model * model.h * (model.d_k + model.d_v)
    feed_forward = 2 * model.d_model * model.d_ff
    layers = 2 * model.N * (3 * projections + feed_forward) * (lengths.source + lengths.target)
    softmax = 2 * model.output_rows * model.d_model * lengths.target
    pairs = lengths.source_squares + lengths.target_squares + lengths.products
    return 3.0 * (layers + softmax + 2 * model.N * model.h * (model.d_k + model.d_v) * pairs)


def mean_lengths(source: int, target: int) -> Lengths:
    """Return the sums for so many tokens in sentences of WMT's mean length."""
    return Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)


def single_precision(hardware: str) -> float:
    """Return the FLOP/s that a GPU sustains in single precision; NaN for hardware that is not in `SUSTAINED`."""
    words = re.findall(r"[a-z0-9]+", hardware.lower())
    return next((speed for name, speed in SUSTAINED.items() if name in words), math.nan)


class Product(NamedTuple):
    """A coefficient times powers of n positions, width d, kernel k and r neighbours: 2 · n^2 · d."""

    coefficient: int
    powers: dict[str, int]

    def __str__(self) -> str:
        factors = [str(self.coefficient)] * (self.coefficient > 1)
        return " · ".join(factors + [size if power == 1 else f"{size}^{power}" for size, power in self.powers.items()])


# Multiply-adds of one layer: a sum of products. A layer with contiguous kernels is a convolutional one.
COSTS = {
    "Self-Attention": [Product(2, {"n": 2, "d": 1})],
    "Recurrent": [Product(2, {"n": 1, "d": 2})],
    "Convolutional": [Product(1, {"k": 1, "n": 1, "d": 2})],
    "Self-Attention (restricted)": [Product(2, {"r": 1, "n": 1, "d": 1})],
    "Convolutional, separable": [Product(1, {"k": 1, "n": 1, "d": 1}), Product(1, {"n": 1, "d": 2})],
    "Self-Attention with projections": [Product(2, {"n": 2, "d": 1}), Product(4, {"n": 1, "d": 2})],
    "Self-Attention, additive": [Product(2, {"n": 2, "d": 1})],
}


def multiply_adds(cost: list[Product], sizes: Mapping[str, int]) -> int:
    """Count the multiplications, each with its addition, of one layer; `sizes` are n, d, k and r."""
    return sum(c * math.prod(sizes[size] ** power for size, power in powers.items()) for c, powers in cost)


def growth(cost: list[Product], size: str) -> int:
    """Return the power of `size` ("n" or "d") that dominates when only it grows."""
    return max(product.powers.get(size, 0) for product in cost)
