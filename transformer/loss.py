"""§5.4 Label smoothing, and the perplexity that Table 3 reports."""

import math

import torch
from torch import Tensor, nn

CHUNK = 256  # tokens whose logits exist at once: few enough to stay in a processor's cache


class SmoothedCrossEntropy(torch.autograd.Function):
    """Sum over tokens of the smoothed cross-entropy of softmax(output E^T), and of the plain one.

    The target distribution gives 1 - epsilon to the true token and epsilon / (V - 1) to each other row (the authors'
    code). The gradient is computed with the loss, a chunk of tokens at a time: the [n, V] logits never exist whole.
    """

    @staticmethod
    def forward(
        ctx, output: Tensor, embedding: Tensor, labels: Tensor, epsilon: float, dtype: torch.dtype, learn: bool
    ):
        """output: [n, d_model]. embedding: [V, d_model]. labels: [n]. dtype: of the products. Two scalars.

        learn: whether gradients are wanted, which cannot be asked in here.
        """
        E = embedding.to(dtype)
        smoothed, plain = output.new_zeros(()), output.new_zeros(())
        output_gradient, embedding_gradient = torch.empty_like(output), torch.zeros_like(embedding)
        off = epsilon / (E.shape[0] - 1)
        for start in range(0, len(labels), CHUNK):
            part, label = slice(start, start + CHUNK), labels[start : start + CHUNK, None]
            x = output[part].to(dtype)
            logits = (x @ E.T).float()
            log_total = logits.logsumexp(dim=1)
            nll = log_total - logits.gather(1, label).squeeze(1)
            others = log_total * E.shape[0] - logits.sum(dim=1)  # -sum over all rows of log p
            plain += nll.sum()
            smoothed += ((1 - epsilon - off) * nll + off * others).sum()
            if not learn:
                continue
            gradient = logits.sub_(log_total[:, None]).exp_().sub_(off)  # p - q, but for the true token
            gradient.scatter_add_(1, label, gradient.new_full(label.shape, off - 1 + epsilon))
            gradient = gradient.to(dtype)
            output_gradient[part] = gradient @ E
            embedding_gradient += gradient.T @ x
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
    """(smoothed, plain): sums over the tokens, in nats. See SmoothedCrossEntropy for shapes; perplexity = exp(mean)."""
    return SmoothedCrossEntropy.apply(output, embedding, labels, epsilon, dtype, torch.is_grad_enabled())


def batch_losses(model: nn.Module, batch, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same of a model's output on a batches.Batch; matrix products in `dtype`."""
    embedding = model.embedding.output_weight()
    with torch.autocast(embedding.device.type, dtype, enabled=dtype != torch.float32):
        output = model(batch.source, batch.target)
    return smoothed_cross_entropy(output.float(), embedding, batch.labels, epsilon, dtype)


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf
