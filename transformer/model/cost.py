"""Floating-point operations of a training (Table 2) and of layers (Table 1). This module does not import torch."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from transformer.config.experiment import Model

SENTENCE = 30  # tokens in WMT's mean sentence
# FLOP/s in single precision: the paper's values (§6.1, footnote 5), then peaks in NVIDIA's data sheets (SXM).
SUSTAINED = {"k80": 2.8e12, "k40": 3.7e12, "m40": 6.0e12, "p100": 9.5e12, "v100": 15.7e12, "a100": 19.5e12}
SUSTAINED |= {"a40": 37.4e12, "l4": 30.3e12, "l40s": 91.6e12, "h100": 67e12, "h200": 67e12}


class Lengths(NamedTuple):
    """Sums over sentence pairs. The lengths Lₛ and Lₜ are in tokens and include the end of sentence."""

    source: int  # Σ Lₛ
    target: int  # Σ Lₜ
    source_squares: int  # Σ Lₛ²
    target_squares: int  # Σ Lₜ²
    products: int  # Σ Lₛ Lₜ


def training_flops(model: Model, lengths: Lengths) -> float:
    """Return the FLOPs of a Transformer's matrix products in a training on these tokens. A multiply-add is two FLOPs.

    Backward costs twice as much as forward. With S = Σ Lₛ, T = Σ Lₜ and V output rows, forward costs:

        2 N (3P + F) (S + T) + 2 V d_model T + 2 N h (d_k + d_v) (Σ Lₛ² + Σ Lₜ² + Σ Lₛ Lₜ)

        P = d_model h (d_k + d_v)     F = 2 d_model d_ff

    The projections of self-attention cost 2P per token. Cross-attention adds P per token: keys and values of a source
    token, query and output of a target token. The last term is Q Kᵀ and its product with V in all three attentions,
    masked or not. Additive scores count like dot products. LayerNorm, exponentials, biases, dropout and the optimiser
    are not matrix products.
    """
    projections = model.d_model * model.h * (model.d_k + model.d_v)
    feed_forward = 2 * model.d_model * model.d_ff
    layers = 2 * model.N * (3 * projections + feed_forward) * (lengths.source + lengths.target)
    softmax = 2 * model.output_rows * model.d_model * lengths.target
    pairs = lengths.source_squares + lengths.target_squares + lengths.products
    return 3.0 * (layers + softmax + 2 * model.N * model.h * (model.d_k + model.d_v) * pairs)


def mean_lengths(source: int, target: int) -> Lengths:
    """Return the sums for these numbers of tokens in sentences of WMT's mean length."""
    return Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)


def single_precision(hardware: str) -> float:
    """Return a GPU's FLOP/s in single precision. Return NaN for hardware that is not in `SUSTAINED`."""
    words = re.findall(r"[a-z0-9]+", hardware.lower())
    return next((speed for name, speed in SUSTAINED.items() if name in words), math.nan)


class Product(NamedTuple):
    """A coefficient times powers of sizes (n positions, width d, kernel k, r neighbours), for example 2 · n^2 · d."""

    coefficient: int
    powers: dict[str, int]

    def __str__(self) -> str:
        factors = [str(self.coefficient)] * (self.coefficient > 1)
        return " · ".join(factors + [size if power == 1 else f"{size}^{power}" for size, power in self.powers.items()])


# Multiply-adds of one layer: a sum of products. "Convolutional" has contiguous kernels.
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
    """Count the multiply-adds of one layer. sizes: n, d, k and r."""
    return sum(c * math.prod(sizes[size] ** power for size, power in powers.items()) for c, powers in cost)


def growth(cost: list[Product], size: str) -> int:
    """Return the dominating power of `size` ("n" or "d") when only this size grows."""
    return max(product.powers.get(size, 0) for product in cost)
