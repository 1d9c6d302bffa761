"""Softmax, attention and dropout in their fast forms, compared with PyTorch's."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.device import saved_bytes
from transformer.model import attention as module
from transformer.model.attention import attention
from transformer.model.kernels import Softmax, dropout

# Softmax


@given(st.lists(st.lists(st.floats(-200, 200), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 2))
def test_softmax_is_pytorchs(scores, masked):
    """This also holds for numbers that differ by hundreds, and for masked numbers."""
    scores = torch.tensor(scores, dtype=torch.float64)
    scores[:, :masked] = -math.inf
    leaves = [scores.clone().requires_grad_() for _ in range(2)]
    results = [Softmax.apply(leaves[0] + 0.0), leaves[1].softmax(dim=-1)]
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-30)
    towards = torch.arange(3.0, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((result * towards).sum(), leaf)[0] for result, leaf in zip(results, leaves, strict=True)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_16_bit_heads_are_summed_in_32_bits():
    torch.manual_seed(1)
    heads = [torch.randn(3, 2, *size, dtype=torch.bfloat16) for size in ((5, 6), (4, 6), (4, 7))]
    with torch.autocast("cpu", torch.bfloat16):
        total = attention(*heads, None, False, 0.0)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, attention(*(x.float() for x in heads), None, False, 0.0), rtol=0, atol=0)


def test_additive_scores_keep_no_sums_of_queries_and_keys(monkeypatch):
    """In a batch of §5.1 these sums take gigabytes per layer. The gradient recomputes a few of them at a time."""
    monkeypatch.setattr(module, "_SUMS", 2 * (2 * 3 * 7 * 4))  # two queries at a time
    torch.manual_seed(1)
    leaves = [torch.randn(*size, requires_grad=True) for size in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 1), (3, 4))]
    Q, K, V, additive = leaves
    attend = partial(attention, Q, K, V, None, False, 0.0, additive=additive)
    found = attend()
    sums = torch.tanh(Q[:, :, :, None] + K[:, :, None])
    expected = (sums * additive[:, None, None]).sum(-1).softmax(-1) @ V
    torch.testing.assert_close(found, expected)
    towards = torch.randn(found.shape)
    gradients = (torch.autograd.grad((out * towards).sum(), leaves) for out in (found, expected))
    torch.testing.assert_close(*gradients)
    assert saved_bytes(attend) < sums.nbytes
    with torch.inference_mode():
        torch.testing.assert_close(attend(), expected)


@pytest.mark.parametrize("P", [0.0, 1e-9, 0.1, 0.25, 0.5, 1 - 1e-9, 1.0])
def test_numbers_are_dropped_independently(P):
    """Four numbers share 64 random bits. The number of dropped ones in a group is binomial; the rest is rescaled."""
    torch.manual_seed(1)
    out = dropout(torch.ones(250_000, 4), P)
    shares = torch.bincount((out == 0).sum(dim=1), minlength=5) / len(out)
    expected = torch.tensor([math.comb(4, k) * P**k * (1 - P) ** (4 - k) for k in range(5)])
    torch.testing.assert_close(shares, expected, rtol=0, atol=0.005)
    torch.testing.assert_close(out[out > 0], torch.full_like(out[out > 0], 1 / max(1 - P, 1e-9)), rtol=1e-4, atol=0)


def test_gradients_pass_where_numbers_do():
    torch.manual_seed(1)
    x = torch.randn(50, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach() / x.detach())
