"""The architectures by name: `Architecture` of config/experiment.py lists the same names."""

from functools import cache

import torch

from transformer.config.experiment import Model
from transformer.model.conv import Conv
from transformer.model.lstm import LSTM
from transformer.model.seq2seq import Seq2Seq
from transformer.model.transformer import Transformer

_ARCHITECTURES = {"transformer": Transformer, "lstm": LSTM, "conv": Conv}


def build(config: Model) -> Seq2Seq:
    """Return an untrained model. torch's seed determines its weights."""
    return _ARCHITECTURES[config.architecture](config)


@cache
def sketch(config: Model) -> Seq2Seq:
    """Return a model to count its costs. Its parameters have shapes but no values (PyTorch's meta device)."""
    with torch.device("meta"):
        return build(config)
