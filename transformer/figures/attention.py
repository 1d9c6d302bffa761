"""§3.2: who attends to whom. The weights of all heads, taken from a model at work."""

import html
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor

from transformer.common.files import InputError
from transformer.config.experiment import EOS, PAD
from transformer.data.subwords import Subwords
from transformer.model.attention import MultiHead
from transformer.model.packed import POSITIONS, pack
from transformer.model.transformer import Transformer

CONTINUED = "@@"  # ends a token whose word goes on in the next
SPACE = "\u2581"  # begins a subword that begins a word
NAMES = {EOS: "<EOS>", PAD: "<start>"}  # the decoder starts from PAD
DIGITS = 3


@torch.inference_mode()
def weights(model: Transformer, source: list[int], target: list[int]) -> dict[str, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) of one pair of sentences, of ids that end in EOS: [N, h, queries, keys] by kind.

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
    found = {kind: [] for kind in layers}
    with ExitStack() as stack:
        for kind, modules in layers.items():
            for module in modules:
                stack.enter_context(overheard(module, found[kind].append))
        model(pack([np.array(source)], device), pack([np.array([PAD, *target[:-1]])], device))
    return {kind: torch.cat(of_kind).cpu() for kind, of_kind in found.items()}


@contextmanager
def overheard(module: MultiHead, tell: Callable[[Tensor], None]) -> Iterator[None]:
    """While this lasts, `tell` is given the weights [B, h, queries, keys] of each of the module's attentions.

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


def names(vocabulary: Subwords, ids: list[int]) -> list[str]:
    """The tokens as a reader sees them: without Moses' escapes, and ending in @@ where the word goes on."""
    pieces = [NAMES.get(token) or vocabulary.processor.id_to_piece(token) for token in ids]
    begins = [token in NAMES or piece.startswith(SPACE) for token, piece in zip(ids, pieces, strict=True)]
    return [
        html.unescape(piece.removeprefix(SPACE)) + ("" if next_begins or token in NAMES else CONTINUED)
        for token, piece, next_begins in zip(ids, pieces, [*begins[1:], True], strict=True)
    ]


def describe(model: Transformer, vocabulary: Subwords, source: list[int], target: list[int]) -> dict:
    """One pair of sentences as attention.json has it: tokens, and the weights of all layers and heads, rounded.

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
    """Nested lists of numbers, rounded; 0 rather than 0.0, for most are and a page has to carry them."""
    return [rounded(value) for value in values] if isinstance(values, list) else round(values, DIGITS) or 0
