"""The cost of a model: its parameters, and the floating-point operations of its training (Table 2)."""

from typing import NamedTuple

from transformer.config.experiment import Model


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
