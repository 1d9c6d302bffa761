"""§5.4 Label smoothing, and Table 3's perplexity."""

import importlib
import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer.config.experiment import PAD
from transformer.model.kernels import onednn_products
from transformer.model.seq2seq import Seq2Seq
from transformer.training.batches import Batch

# Number of tokens per chunk of logits: small enough for a processor's cache, large enough to fill a GPU.
CHUNK_CPU, CHUNK_CUDA = 256, 4096


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Smoothed and plain cross-entropy of softmax(output E^T), each summed over the tokens.

    PyTorch's `linear_cross_entropy` is no alternative: with label smoothing it ignores its option for chunks.

    The target distribution gives 1 - epsilon to the true token and epsilon / (V - 1) to every other row (the authors'
    code). Each chunk of tokens computes its loss and its gradient, so that the full logits [n, V] never exist.
    """

    @staticmethod
    def forward(
        ctx, output: Tensor, embedding: Tensor, labels: Tensor, epsilon: float, dtype: torch.dtype, learn: bool
    ):
        """output: [n, d_model]. embedding: [V, d_model]. labels: [n], PAD has no loss. learn: compute gradients."""
        E, E_sum = embedding.to(dtype), embedding.sum(dim=0)
        smoothed, plain = output.new_zeros(()), output.new_zeros(())
        output_gradient, embedding_gradient = torch.empty_like(output), torch.zeros_like(embedding)
        off = epsilon / (E.shape[0] - 1)
        counted = (labels != PAD).to(output.dtype)[:, None]
        chunk = CHUNK_CUDA if output.is_cuda else CHUNK_CPU
        # A reused buffer, because on a processor new memory takes as long as the products.
        buffer = None if output.is_cuda else output.new_empty(CHUNK_CPU, len(E))
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            x, label, count = output[part], labels[part, None], counted[part]
            logits = torch.mm(x.to(dtype), E.T, out=None if buffer is None else buffer[: len(x)]).float()
            largest = logits.amax(dim=1, keepdim=True)
            true = logits.gather(1, label)
            exponentials = logits.sub_(largest).exp_()
            total = exponentials.sum(dim=1, keepdim=True)
            log_total = total.log() + largest
            nll = log_total - true
            others = log_total * E.shape[0] - (x @ E_sum)[:, None]  # -sum over all rows of log p
            plain += (count * nll).sum()
            smoothed += (count * ((1 - epsilon - off) * nll + off * others)).sum()
            if not learn:
                continue
            # The gradient is p - q. q's constant `off` is equal in all rows, so it needs one vector per product. p is
            # exponentials / total. The division is applied to the smaller factors of the products.
            added = (off - 1 + epsilon) * total
            if torch.compiler.is_compiling():  # a compiler fuses this comparison with the exponentials
                columns = torch.arange(len(E), device=output.device)
                exponentials = torch.where(columns == label, exponentials + added, exponentials)
            else:
                exponentials.scatter_add_(1, label, added)
            gradient, scaled = exponentials.to(dtype), (x * (count / total)).to(dtype)
            output_gradient[part] = (gradient @ E) * (count / total) - count * off * E_sum
            if dtype != embedding_gradient.dtype:
                embedding_gradient += gradient.T @ scaled
            else:
                torch.addmm(embedding_gradient, gradient.T, scaled, out=embedding_gradient)
        embedding_gradient -= off * (counted * output).sum(dim=0)
        ctx.save_for_backward(output_gradient, embedding_gradient)
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    def backward(ctx, smoothed_gradient: Tensor, _) -> tuple:
        output_gradient, embedding_gradient = ctx.saved_tensors
        return output_gradient * smoothed_gradient, embedding_gradient * smoothed_gradient, None, None, None, None


def smoothed_cross_entropy(
    output: Tensor, embedding: Tensor, labels: Tensor, epsilon: float, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return (smoothed, plain): sums over the tokens in nats. Shapes are in _SmoothedCrossEntropy."""
    learn = torch.is_grad_enabled() or torch.compiler.is_compiling()  # the first is False in PyTorch 2.11's compiler
    if output.is_cuda or torch.compiler.is_compiling():  # a compiler cannot trace the setting of `onednn_products`
        return _SmoothedCrossEntropy.apply(output, embedding, labels, epsilon, dtype, learn)
    with onednn_products(dtype):
        return _SmoothedCrossEntropy.apply(output, embedding, labels, epsilon, torch.float32, learn)


def batch_losses(model: Seq2Seq, batch: Batch, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return `smoothed_cross_entropy` of the model's output on `batch`. Matrix products are in `dtype`."""
    embedding = model.output_weight()
    with torch.autocast(embedding.device.type, dtype, enabled=dtype != torch.float32):
        output = model(batch.source, batch.target)
    return smoothed_cross_entropy(output.float(), embedding, batch.labels, epsilon, dtype)


def perplexity(loss: float) -> float:
    """Return exp(loss), limited to exp(700), about 10^304, because JSON has no infinity."""
    return math.exp(min(loss, 700))


def compiled() -> Callable:
    """Return `batch_losses` as one compiled graph for all batches of equal size."""
    importlib.import_module("torch.nn.attention.flex_attention")  # here, because it must not happen during compilation
    torch._dynamo.config.recompile_limit = 64  # nearly all batches have one size; other sizes get their own graphs
    return torch.compile(batch_losses, fullgraph=True, dynamic=False)
