"""The cost of a model: its parameters, the floating-point operations of its training (Table 2), of layers (Table 1)."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta

from transformer.config.experiment import Model
from transformer.storage.records import Amount, Positive

SENTENCE = 30  # tokens, of WMT's mean sentence
# FLOP/s in single precision: as the paper has them (§6.1, footnote 5), then peaks by NVIDIA's data sheets, SXM.
SUSTAINED = {"k80": 2.8e12, "k40": 3.7e12, "m40": 6.0e12, "p100": 9.5e12, "v100": 15.7e12, "a100": 19.5e12}
SUSTAINED |= {"a40": 37.4e12, "l4": 30.3e12, "l40s": 91.6e12, "h100": 67e12, "h200": 67e12}


def parameters(model: Model) -> int:
    """Count the trained numbers but for learned positions (Table 3, row E); projections have biases (authors' code)."""
    keys, values = model.h * model.d_k, model.h * model.d_v
    attention = 2 * model.d_model * (keys + values) + 2 * keys + values + model.d_model
    attention += keys if model.attention == "additive" else 0
    feed_forward = 2 * model.d_model * model.d_ff + model.d_ff + model.d_model
    layer_norm = 2 * model.d_model
    encoder_layer = attention + feed_forward + 2 * layer_norm
    decoder_layer = 2 * attention + feed_forward + 3 * layer_norm
    rows = model.embedding_rows + model.target_spaces
    rows += 0 if model.tied else model.embedding_rows + model.output_rows
    last_norms = 2 * layer_norm if model.norm == "pre" else 0
    return rows * model.d_model + model.N * (encoder_layer + decoder_layer) + last_norms


class Lengths(NamedTuple):
    """Sums over sentence pairs of lengths Lₛ and Lₜ in tokens, end of sentence included."""

    source: int  # Σ Lₛ
    target: int  # Σ Lₜ
    source_squares: int  # Σ Lₛ²
    target_squares: int  # Σ Lₜ²
    products: int  # Σ Lₛ Lₜ


def training_flops(model: Model, lengths: Lengths) -> float:
    """Return the FLOPs of the matrix products in learning from these tokens; a multiplication and an addition are two.

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


def planned_flops(model: Model, source: int, target: int, steps: int) -> float:
    """Return the FLOPs of steps on so many tokens each, in sentences of WMT's mean length."""
    lengths = Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)
    return steps * training_flops(model, lengths)


def single_precision(hardware: str) -> float:
    """Return the FLOP/s that a GPU sustains in single precision; NaN for hardware that is not in `SUSTAINED`."""
    words = re.findall(r"[a-z0-9]+", hardware.lower())
    return next((speed for name, speed in SUSTAINED.items() if name in words), math.nan)


class _LayerTime(TypedDict):
    layer: str
    grid: Literal["n", "d"]  # which of the two grows
    n: Positive
    d: Positive
    k: Positive
    r: Positive
    multiply_adds: Positive
    seconds: Annotated[float, Meta(gt=0)]
    quartiles: Amount


class Connection(TypedDict):  # in a stack of layers
    layer: str
    n: Positive
    path: Positive
    sequential: Positive


class Measured(TypedDict):  # layers.json
    times: list[_LayerTime]
    connections: list[Connection]
    hardware: str
    threads: Positive
    versions: dict[str, str]
    commit: str
    date: str


# Multiply-adds of one layer. A single layer with contiguous kernels is a convolutional one, so it has none of its own.
COSTS = {
    "Self-Attention": "2 · n^2 · d",
    "Recurrent": "2 · n · d^2",
    "Convolutional": "k · n · d^2",
    "Self-Attention (restricted)": "2 · r · n · d",
    "Convolutional, separable": "k · n · d + n · d^2",
    "Self-Attention with projections": "2 · n^2 · d + 4 · n · d^2",
    "Self-Attention, additive": "2 · n^2 · d",
}


def _powers(cost: str) -> list[dict[str, int]]:  # the factors of each product of the sum
    factors = (re.findall(r"(\w)(?:\^(\d))?", product) for product in cost.split(" + "))
    return [{base: int(power or 1) for base, power in product} for product in factors]


def multiply_adds(cost: str, sizes: Mapping[str, int]) -> int:
    """Count the multiplications, each with its addition, of one layer; `sizes` are n, d, k and r."""
    values = dict(sizes) | {"2": 2, "4": 4}
    return sum(math.prod(values[base] ** power for base, power in product.items()) for product in _powers(cost))


def growth(cost: str, size: str) -> int:
    """Find the power of `size` ("n" or "d") that rules when only it grows."""
    return max(product.get(size, 0) for product in _powers(cost))
