"""The structure of a built Transformer, found by running it, for the figures that draw it."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from transformer.config.experiment import EOS
from transformer.model.attention import CrossAttention, MultiHead
from transformer.model.packed import pack
from transformer.model.transformer import Embedding, FeedForward, Transformer


class Sublayer(NamedTuple):
    """A sub-layer of §3.1, what normalises it, and where."""

    module: MultiHead | FeedForward
    norm: str  # the class of the module that normalises, "" for none
    before: bool  # it normalises what the sub-layer is given, rather than the sum
    residual: bool  # what it is given also goes round it


class Structure(NamedTuple):
    """The parts of a model that Figure 1 shows."""

    encoder: list[Sublayer]  # of one layer
    decoder: list[Sublayer]
    layers: tuple[int, int]  # N of encoder and decoder
    embedding: Embedding
    shared: bool  # one embedding serves source, target and softmax (§3.4)
    target_spaces: bool  # a vector of the target language is added to the source
    last_norm: str  # the class of the module that normalises the output of each stack, "" for none


@torch.inference_mode()
def structure(model: Transformer) -> Structure:
    """Return the parts of a model that is in evaluation mode."""
    text = pack([np.array([EOS, EOS])], torch.device("cpu"))
    x, memory = torch.randn(2, 2, model.config.d_model, generator=torch.Generator().manual_seed(0))
    embeddings = called(model, [part for part in model.modules() if isinstance(part, Embedding)], text, text)
    output = model.output_weight()
    (last_norm,) = {type(norm).__name__ for norm in (model.encoder_norm, model.decoder_norm)}
    return Structure(
        encoder=sublayers(model.encoder[0], x, text),
        decoder=sublayers(model.decoder[0], x, text, memory, text),
        layers=(len(model.encoder), len(model.decoder)),
        embedding=model.embedding,
        shared=len(set(embeddings)) == 1 and output.data_ptr() == model.embedding.weight.data_ptr(),
        target_spaces=model.target_spaces is not None,
        last_norm="" if last_norm == nn.Identity.__name__ else last_norm,
    )


def sublayers(layer: nn.Module, *inputs) -> list[Sublayer]:
    """Return the sub-layers of an encoder or decoder layer, in the order in which it calls them on `inputs`."""
    parts = [part for part in layer.children() if isinstance(part, MultiHead | FeedForward)]
    inside = {leaf for part in parts for leaf in part.modules()}
    leaves = [module for module in layer.modules() if module not in inside and not any(module.children())]
    norms = [leaf for leaf in leaves if not isinstance(leaf, nn.Dropout)]  # which no figure shows
    order = called(layer, [*parts, *norms], *inputs)
    before = order[0] in norms
    sublayers = []
    for place, part in enumerate(order):
        if part in parts:
            beside = order[place - 1 : place] if before else order[place + 1 : place + 2]
            names = [type(norm).__name__ for norm in beside if norm in norms]
            sublayers.append(Sublayer(part, "".join(names), before, goes_round(layer, part, *inputs)))
    return sublayers


def called(module: nn.Module, parts: list[nn.Module], *inputs) -> list[nn.Module]:
    """Return which of the `parts` of `module` run on these inputs, in order, as often as they do."""
    order = []
    run_with_hooks(module, parts, lambda part, given, output: order.append(part), *inputs)
    return order


def goes_round(layer: nn.Module, part: nn.Module, x: Tensor, *rest) -> bool:
    """Return whether x reaches the layer's output though `part` gives only zeros."""

    def silent(part: nn.Module, given: tuple, output: Tensor) -> Tensor:
        return torch.zeros_like(output)

    one, other = (run_with_hooks(layer, [part], silent, value, *rest) for value in (x, x.flip(0) + 1))
    return not torch.equal(one, other)


def run_with_hooks(module: nn.Module, parts: list[nn.Module], hook: Callable, *inputs) -> Tensor:
    """Return the output of `module` while each of its `parts` has this forward hook."""
    with ExitStack() as stack:
        for part in parts:
            stack.callback(part.register_forward_hook(hook).remove)
        return module(*inputs)


def is_cross(sublayer: Sublayer) -> bool:
    """Return whether a sub-layer attends to the memory."""
    return isinstance(sublayer.module, CrossAttention)


def is_masked(sublayer: Sublayer) -> bool:
    """Return whether a sub-layer keeps each position from seeing later ones (§3.2.3)."""
    return getattr(sublayer.module, "causal", False)
