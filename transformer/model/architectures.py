"""The architectures by name: this module alone knows which there are."""

from functools import cache

import torch

from transformer.config.experiment import Model
from transformer.model.seq2seq import Seq2Seq
from transformer.model.transformer import Transformer


def build(config: Model) -> Seq2Seq:
    """Return an untrained model; torch's seed decides its weights."""
    return Transformer(config)


@cache
def parameters(config: Model) -> int:
    """Count the trained numbers of a model without making them, but for learned positions (Table 3, row E)."""
    with torch.device("meta"):
        named = build(config).named_parameters()
    return sum(weight.numel() for name, weight in named if not name.endswith("position_table"))
