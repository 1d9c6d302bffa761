"""Our attention's weights in the layout that peers have."""

import torch
from torch import Tensor, nn

from transformer.model.attention import CrossAttention, SelfAttention


def projections(mine: SelfAttention | CrossAttention) -> tuple[Tensor, Tensor]:
    """Return the weight and the bias of queries, keys and values, side by side."""
    parts = [mine.query_key_value] if isinstance(mine, SelfAttention) else [mine.query, mine.key_value]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def fill(theirs: tuple[nn.Linear, ...], mine: SelfAttention | CrossAttention) -> None:
    """Give a peer's layers for queries, keys, values and output our weights."""
    *inputs, output = theirs
    weight, bias = projections(mine)
    for layer, rows, numbers in zip(inputs, weight.chunk(3), bias.chunk(3), strict=True):
        layer.weight.copy_(rows)
        layer.bias.copy_(numbers)
    output.load_state_dict(mine.output.state_dict())
