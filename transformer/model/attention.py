"""§3.2 Attention: three implementations of equation 1, softmax(Q K^T / sqrt(d_k)) V, and the layers that use them.

    attention         padded sentences; for Table 5 also with additive scores instead of dot products
    _block_attention  sentences packed end to end, in a GPU's compiled step
    cached_attention  the next token of each hypothesis, in beam search

Shapes: B sentences, L tokens in the longest sentence, n tokens in all sentences.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transformer.config.experiment import Model
from transformer.model.kernels import Softmax, dropout
from transformer.model.packed import BLOCK, Blocks, Packed

# cuDNN prepares a kernel for each new shape. Each step of a small model has a new shape, so it took ten times as long.
# Large models were not measured.
torch.backends.cuda.enable_cudnn_sdp(False)
_SUMS = 2**25  # maximum number of sums of queries and keys in memory for additive scores

# The kernels' tiles equal the tables' blocks (names with digits: backward). The mask declares blocks of 128: on some
# GPUs PyTorch prefers tiles of 128 and compares these tiles with the mask's blocks, regardless of the options.
_TILES = dict.fromkeys(("BLOCK_M", "BLOCK_N", "BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2"), BLOCK)
_TILES |= {"SPARSE_Q_BLOCK_SIZE": BLOCK, "SPARSE_KV_BLOCK_SIZE": BLOCK}
_DECLARED = (128, 128)


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None,
    causal: bool,
    P_drop: float,
    scale: float | None = None,
    additive: Tensor | None = None,
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d_k) + mask) V over padded sentences (§3.2.1, equation 1): [B, h, L_q, d_v].

    Q: [B, h, L_q, d_k]. K: [B, h, L_k, d_k]. V: [B, h, L_k, d_v]. mask: broadcast to [B, h, L_q, L_k]. causal: position
    i attends to positions up to i (§3.2.3). scale: replaces 1 / sqrt(d_k). additive: for `_additive_scores`.
    """
    scale = Q.shape[-1] ** -0.5 if scale is None else scale
    if Q.is_cuda and additive is None:  # a fused kernel; on a processor the explicit equation is faster
        return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, is_causal=causal, dropout_p=P_drop, scale=scale)
    if causal:
        later = Q.new_full((Q.shape[-2], K.shape[-2]), -math.inf).triu(1)
        mask = later if mask is None else mask + later
    # In float32 or better: conversion to bfloat16 costs more than these small products gain.
    with torch.autocast(Q.device.type, enabled=False):
        dtype = torch.promote_types(Q.dtype, torch.float32)
        q, k, v = (x.to(dtype, memory_format=torch.contiguous_format).flatten(0, 1) for x in (Q, K, V))
        shape, beta = (*Q.shape[:-1], K.shape[-2]), float(mask is not None)
        added = q.new_zeros(1, 1, 1) if mask is None else mask.to(dtype).expand(shape).reshape(-1, *shape[2:])
        if additive is None:
            scores = torch.baddbmm(added, q, k.mT, beta=beta, alpha=scale)
        else:
            scores = _additive_scores(Q.to(dtype), K.to(dtype), additive).flatten(0, 1) + added
        return torch.bmm(dropout(Softmax.apply(scores), P_drop), v).view(*Q.shape[:-1], V.shape[-1])


class MultiHead(nn.Module):
    """§3.2.2: the base of self-attention and cross-attention.

    One matrix contains all projections of the same input: W^Q, W^K and W^V in self-attention, W^K and W^V in
    cross-attention.
    """

    def __init__(self, config: Model):
        super().__init__()
        self.h, self.d_k, self.d_v = config.h, config.d_k, config.d_v
        self.P_drop = config.P_drop_attention
        self.scale = config.d_k**-0.5 if config.scaled else 1.0
        self.output = nn.Linear(config.h * config.d_v, config.d_model)  # W^O
        self.additive = nn.Parameter(torch.empty(config.h, config.d_k)) if config.attention == "additive" else None

    def mix(
        self, Q: Tensor, K: Tensor, V: Tensor, queries: Packed, keys: Packed, blocks: Blocks | None, causal: bool
    ) -> Tensor:
        """Return Concat(head_1, ..., head_h), packed: [n_q, h * d_v]. blocks: None for padded attention."""
        if blocks is not None:
            heads = (x.view(len(x), self.h, -1) for x in (Q, K, V))
            return _block_attention(*heads, queries, keys, blocks, causal, self.scale).flatten(1)
        # Causal attention needs no padding mask, because padding follows all tokens of its sentence.
        mask = None if causal else keys.mask
        heads = self.attend(self.heads(Q, queries), self.heads(K, keys), self.heads(V, keys), mask, causal)
        return queries.from_grid(heads.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor, packed: Packed) -> Tensor:
        """Convert packed [n, h * d] to padded [B, h, L, d]."""
        return packed.to_grid(x).unflatten(2, (self.h, -1)).transpose(1, 2)

    def attend(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        return attention(Q, K, V, mask, causal, self.P_drop if self.training else 0.0, self.scale, self.additive)


class SelfAttention(MultiHead):
    """§3.2.3: queries, keys and values all come from the previous layer."""

    def __init__(self, config: Model, causal: bool):
        super().__init__(config)
        self.causal = causal
        self.widths = [config.h * config.d_k, config.h * config.d_k, config.h * config.d_v]
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths))

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        Q, K, V = self.query_key_value(x).split(self.widths, dim=-1)
        return self.output(self.mix(Q, K, V, packed, packed, packed.own, self.causal))


class CrossAttention(MultiHead):
    """§3.2.3: queries come from the decoder, keys and values from the memory."""

    def __init__(self, config: Model):
        super().__init__(config)
        self.widths = [config.h * config.d_k, config.h * config.d_v]
        self.query = nn.Linear(config.d_model, config.h * config.d_k)
        self.key_value = nn.Linear(config.d_model, sum(self.widths))

    def forward(self, x: Tensor, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        K, V = self.key_value(memory).split(self.widths, dim=-1)
        return self.output(self.mix(self.query(x), K, V, target, source, target.memory, causal=False))


def _additive_scores(Q: Tensor, K: Tensor, additive: Tensor) -> Tensor:
    """Return additive · tanh(Q_i + K_j), [B, h, L_q, L_k] (§3.2.1; Bahdanau et al., 2015). additive: [h, d_k].

    The sums [B, h, L_q, L_k, d_k] of a batch of §5.1 need gigabytes. So they are computed for a few queries at a time,
    and recomputed for the gradient.
    """

    def scores(Q: Tensor) -> Tensor:
        return torch.einsum("bhqkd,hd->bhqk", torch.tanh(Q[:, :, :, None] + K[:, :, None]), additive)

    recomputed = partial(checkpoint, scores, use_reentrant=False, preserve_rng_state=False)
    score = recomputed if torch.is_grad_enabled() else scores
    return torch.cat([score(part) for part in Q.split(max(1, _SUMS // K.numel()), dim=2)], dim=2)


def cached_attention(
    Q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, additive: Tensor | None = None
) -> Tensor:
    """Compute equation 1 for one query of each of K hypotheses over M cached positions: [B * K, h * d_v].

    Q: [B * K, h * d_k], already scaled. keys: [B, h, d_k, M]. values: [B, h, M, d_v]. mask: broadcast to [B, h, K, M].
    """
    B, h, d_k, M = keys.shape
    queries = Q.view(B, -1, h, d_k).transpose(1, 2)
    if additive is None:  # for a single sentence, torch.bmm is faster than @, which also views and expands its operands
        scores = torch.bmm(queries.reshape(B * h, -1, d_k), keys.flatten(0, 1)).view(B, h, -1, M)
    else:
        scores = _additive_scores(queries, keys.mT, additive)
    if mask is not None:
        scores += mask
    heads = torch.bmm(scores.softmax(dim=-1).flatten(0, 1), values.flatten(0, 1))
    return heads.view(B, h, -1, values.shape[3]).transpose(1, 2).reshape(Q.shape[0], -1)


def _block_attention(
    Q: Tensor, K: Tensor, V: Tensor, queries: Packed, keys: Packed, blocks: Blocks, causal: bool, scale: float
) -> Tensor:
    """Compute equation 1 without padding: [n_q, h, d_v]. Q: [n_q, h, d_k]. K: [n_k, h, d_k]. V: [n_k, h, d_v]."""
    # Only compiled code skips blocks. The import is local because it loads Dynamo, which takes a second.
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    def seen(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        together = queries.sentences[query] == keys.sentences[key]
        return together & (query >= key) if causal else together

    to_keys = (blocks.key_counts, blocks.keys, None, None)  # None: the few blocks without a mask have no tables
    to_queries = (blocks.query_counts, blocks.queries, None, None)
    mask = BlockMask((len(Q), len(K)), *to_keys, *to_queries, BLOCK_SIZE=_DECLARED, mask_mod=seen)
    heads = (x.transpose(0, 1)[None] for x in (Q, K, V))
    return flex_attention(*heads, block_mask=mask, scale=scale, kernel_options=_TILES)[0].transpose(0, 1)
