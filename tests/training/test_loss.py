"""The loss and its gradient, compared with the explicit distribution and with PyTorch's cross-entropy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from support.toy import token_array

from transformer.config.experiment import EOS, PAD
from transformer.model.kernels import onednn_products
from transformer.model.transformer import Transformer
from transformer.training.batches import ParallelText
from transformer.training.loss import CHUNK_CPU, batch_losses, smoothed_cross_entropy
from transformer.training.step import compute_dtype

LOTS = 2 * CHUNK_CPU + 3  # tokens: two whole chunks and a part of one
V, D = 11, 5


def random(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return output, embedding and labels."""
    torch.manual_seed(1)
    output, embedding = torch.randn(n, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    return output, embedding, torch.randint(1, V, (n,))


def naive(output: torch.Tensor, embedding: torch.Tensor, labels: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return the sum over the tokens of -q log p with all of q and p in memory, for autograd."""
    log_p = (output.double() @ embedding.double().T).log_softmax(dim=1)
    q = torch.full_like(log_p, epsilon / (V - 1))
    q[torch.arange(len(labels)), labels] = 1 - epsilon
    return -(q * log_p).sum()


@pytest.mark.parametrize("n", [1, CHUNK_CPU - 1, CHUNK_CPU, CHUNK_CPU + 1, LOTS])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
def test_value_and_gradients_are_autograds(n, epsilon):
    output, embedding, labels = random(n)
    leaves = (output, embedding)
    own, expected = smoothed_cross_entropy(output, embedding, labels, epsilon)[0], naive(*leaves, labels, epsilon)
    torch.testing.assert_close(own.double(), expected, rtol=1e-5, atol=1e-5)
    # The loss is scaled like in training, because the incoming gradient counts.
    gradients, expected = (torch.autograd.grad(loss / 3, leaves) for loss in (own, expected))
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


def test_the_plain_part_is_not_smoothed_and_teaches_nothing():
    output, embedding, labels = random(LOTS)
    losses = [smoothed_cross_entropy(output, embedding, labels, epsilon) for epsilon in (0.0, 0.3)]
    assert losses[0][1] == losses[1][1] < losses[1][0]
    assert not losses[1][1].requires_grad
    with torch.no_grad():
        assert smoothed_cross_entropy(output, embedding, labels, 0.3) == losses[1]


def test_half_the_bits_are_used_within_the_block_alone():
    """Processors without fast bfloat16 are never asked for it, so the products are not compared there."""
    torch.manual_seed(1)
    x = torch.randn(256, 256)
    with onednn_products(torch.bfloat16):
        rounded = x @ x.T
    with onednn_products(torch.float32):
        whole = x @ x.T
    assert torch.equal(x @ x.T, whole)
    torch.testing.assert_close(whole.double(), x.double() @ x.double().T, rtol=1e-4, atol=1e-4)
    if compute_dtype(x.device, len(x)) == torch.bfloat16:
        assert 1e-3 < (rounded - whole).abs().max() < 1


def test_products_in_half_the_bits_are_near():
    output, embedding, labels = random(LOTS)
    leaves = (output, embedding)
    whole, half = (smoothed_cross_entropy(*leaves, labels, 0.1, dtype)[0] for dtype in (torch.float32, torch.bfloat16))
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, whole, rtol=1e-2, atol=0)
    for half_gradient, gradient in zip(*(torch.autograd.grad(loss, leaves) for loss in (half, whole)), strict=True):
        assert half_gradient.dtype == torch.float32
        assert (half_gradient - gradient).norm() < 0.02 * gradient.norm()


READ, WRITTEN = [[12, 36, EOS], [13, 29, 12, 17, EOS]], [[5, 10, 5, EOS], [2, EOS]]


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_softmax_covers_only_the_output_rows(experiment, epsilon):
    """The losses and all gradients equal those with V classes. Smoothing is also over these V rows only."""
    torch.manual_seed(1)
    parser = Transformer(replace(experiment.model, P_drop=0.0, output_rows=V))
    batch = ParallelText(token_array(READ), token_array(WRITTEN)).batch(np.arange(2), torch.device("cpu"))
    smoothed, plain = batch_losses(parser, batch, epsilon, torch.float32)
    logits = parser(batch.source, batch.target) @ parser.embedding.weight[:V].T
    assert logits.shape == (6, V)
    q = torch.full_like(logits, epsilon / (V - 1)).scatter(1, batch.labels[:, None], 1 - epsilon)
    expected = F.cross_entropy(logits, q, reduction="sum")
    torch.testing.assert_close(smoothed, expected)
    torch.testing.assert_close(plain, F.cross_entropy(logits, batch.labels, reduction="sum"))
    gradients, expected = (torch.autograd.grad(loss, list(parser.parameters())) for loss in (smoothed, expected))
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


def test_labels_of_pad_do_not_count():
    """Labels of PAD change neither losses nor gradients, as if their tokens did not exist."""
    output, embedding, labels = random(LOTS)
    gone = torch.arange(LOTS) % 3 == 1
    results = []
    for rows, truth in ((torch.ones_like(gone), labels.masked_fill(gone, PAD)), (~gone, labels[~gone])):
        losses = smoothed_cross_entropy(output[rows], embedding, truth, 0.1)
        results.append((*losses, *torch.autograd.grad(losses[0], (output, embedding))))
    torch.testing.assert_close(*results)
    assert (results[0][2][gone] == 0).all()
