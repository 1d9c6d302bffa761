"""§3.2: the attention weights of all heads, taken from a model at work."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import PAD
from transformer.files import InputError
from transformer.model.attention import MultiHead
from transformer.model.packed import POSITIONS, pack
from transformer.model.transformer import Transformer


def attentions(model: Transformer) -> dict[str, list[MultiHead]]:
    """Return the attention of each layer by kind: "encoder" and "decoder" (self-attention), "cross"."""
    return {
        "encoder": [layer.self_attention for layer in model.encoder],
        "decoder": [layer.self_attention for layer in model.decoder],
        "cross": [layer.cross_attention for layer in model.decoder],
    }


@torch.inference_mode()
def attention_weights(model: Transformer, source: list[int], target: list[int]) -> dict[str, Tensor]:
    """Return softmax(Q K^T / sqrt(d_k)), [N, h, queries, keys] by kind, of a pair of sentences, as ids ending in EOS.

    In the decoder a query's position is that of the token that it writes, a key's that of the token before, which it
    read. Raises InputError if a sentence is longer than the model has positions for.
    """
    if (longest := max(len(source), len(target))) > POSITIONS:
        raise InputError(f"expected {POSITIONS} tokens at most, found a sentence of {longest}")
    device = model.embedding.weight.device
    layers = attentions(model)
    taken = {kind: [] for kind in layers}
    with ExitStack() as stack:
        for kind, modules in layers.items():
            for module in modules:
                stack.enter_context(hooked(module, taken[kind].append))
        model(pack([np.array(source)], device), pack([np.array([PAD, *target[:-1]])], device))
    return {kind: torch.cat(of_kind).cpu() for kind, of_kind in taken.items()}


@contextmanager
def hooked(module: MultiHead, hook: Callable[[Tensor], None]) -> Iterator[None]:
    """Give `hook` the weights [B, h, queries, keys] of each of the module's attentions, in this context.

    They are the output of the module itself for Q, K and its masks, with the identity as V.
    """
    attend = module.attend

    def attend_and_tell(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        identity = torch.eye(K.shape[-2], dtype=V.dtype, device=V.device).expand(*K.shape[:2], -1, -1)
        hook(attend(Q, K, identity, mask, causal))
        return attend(Q, K, V, mask, causal)

    module.attend = attend_and_tell
    try:
        yield
    finally:
        del module.attend  # the class' own is seen again
