"""§3.2: who attends to whom. The weights of all heads, taken from a model at work."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor

from transformer.common.files import InputError
from transformer.config.experiment import EOS, PAD
from transformer.data.subwords import Subwords
from transformer.figures.tokens import names
from transformer.model.attention import MultiHead
from transformer.model.packed import POSITIONS, pack
from transformer.model.transformer import Transformer

DIGITS = 3  # of a weight


@torch.inference_mode()
def weights(model: Transformer, source: list[int], target: list[int]) -> dict[str, Tensor]:
    """Return softmax(Q K^T / sqrt(d_k)), [N, h, queries, keys] by kind, of a pair of sentences, as ids ending in EOS.

    The kinds are "encoder", "decoder" (self-attention both) and "cross". In the decoder a query's position is that of
    the token that it writes, a key's that of the token before, which it read. Raises InputError where a sentence is
    longer than the model has positions for.
    """
    if (longest := max(len(source), len(target))) > POSITIONS:
        raise InputError(f"expected {POSITIONS} tokens at most, found a sentence of {longest}")
    device = model.embedding.weight.device
    layers = {
        "encoder": [layer.self_attention for layer in model.encoder],
        "decoder": [layer.self_attention for layer in model.decoder],
        "cross": [layer.cross_attention for layer in model.decoder],
    }
    taken = {kind: [] for kind in layers}
    with ExitStack() as stack:
        for kind, modules in layers.items():
            for module in modules:
                stack.enter_context(overheard(module, taken[kind].append))
        model(pack([np.array(source)], device), pack([np.array([PAD, *target[:-1]])], device))
    return {kind: torch.cat(of_kind).cpu() for kind, of_kind in taken.items()}


@contextmanager
def overheard(module: MultiHead, tell: Callable[[Tensor], None]) -> Iterator[None]:
    """Give `tell`, while this lasts, the weights [B, h, queries, keys] of each of the module's attentions.

    They are what the module itself makes of Q, K and its masks with the identity in the place of V.
    """
    attend = module.attend

    def attend_and_tell(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        identity = torch.eye(K.shape[-2], dtype=V.dtype, device=V.device).expand(*K.shape[:2], -1, -1)
        tell(attend(Q, K, identity, mask, causal))
        return attend(Q, K, V, mask, causal)

    module.attend = attend_and_tell
    try:
        yield
    finally:
        del module.attend  # the class' own is seen again


def describe(model: Transformer, vocabulary: Subwords, source: list[int], target: list[int]) -> dict:
    """Return one pair of sentences as in attention.json: tokens, and the weights of all layers and heads, rounded.

    "shifted" are the tokens that the decoder reads, one behind "target", which it writes.
    """
    target = [*target, EOS]
    return {
        "source": names(vocabulary, source),
        "target": names(vocabulary, target),
        "shifted": names(vocabulary, [PAD, *target[:-1]]),
        **{kind: rounded(of_kind.tolist()) for kind, of_kind in weights(model, source, target).items()},
    }


def rounded(values: list | float) -> list | float:
    """Round nested lists of numbers. Most are zero: they are written as 0, which is shorter than 0.0 on a page."""
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, DIGITS) or 0
