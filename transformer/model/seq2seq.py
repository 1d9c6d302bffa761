"""The seam for an architecture: what training, search, scoring, analyses and export know of a model.

Sentences are packed (packed.py). Shapes: n tokens; B sentences of K hypotheses each; V rows under the softmax.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from transformer.config.experiment import Model
from transformer.model.cost import Lengths
from transformer.model.packed import Packed


class Decoder(Protocol):
    """A model as beam search needs it: it keeps hypotheses, one a sentence at first, and scores their next tokens."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K] to the hypotheses; return log-probabilities of what follows each: [B, K, V]."""

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        """Keep only `sentences` [b] of the B, and the hypotheses `parents` [b, K] of each, in this order."""


Decoders = Callable[[Packed, int], Decoder]  # of a batch of sources, over the first ids of the vocabulary without PAD


class Seq2Seq(nn.Module):
    """A model of target sentences given source sentences. An architecture defines what raises NotImplementedError."""

    new_word: Tensor | None = None  # [embedding_rows] a buffer: 1 for a token that begins a word or tags one
    shortest = 1  # source tokens that a shorter sentence costs as much as, in `incremental`

    def __init__(self, config: Model):
        super().__init__()
        self.config = config

    def forward(self, source: Packed, target: Packed) -> Tensor:
        """Return outputs, [n_target, d_model]; `output @ self.output_weight().T` are the logits (§3.4)."""
        return self.decode(target, self.encode(source), source)

    def encode(self, source: Packed) -> Tensor:
        """Return the memory, a row for each source token: [n_source, any width]."""
        raise NotImplementedError

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        """Decode all target tokens at once, each given only those before it: [n_target, d_model]."""
        raise NotImplementedError

    def output_weight(self) -> Tensor:
        """Return the rows of the tokens that can be written, for the softmax: [V, d_model]."""
        raise NotImplementedError

    def incremental(self) -> Decoders:
        """Lay the decoder's present weights out for single steps; return the function that opens a batch's decoder."""
        raise NotImplementedError

    def fits_blocks(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Tell whether the model can train on batches laid out in blocks (`packed.collate_blocks`)."""
        return False

    def flops(self, lengths: Lengths) -> float:
        """Return the FLOPs of the matrix products in learning from these tokens; backward costs twice forward."""
        raise NotImplementedError

    def parameter_count(self) -> int:
        """Count the trained numbers, but for learned positions (Table 3, row E): tables named `position_table`."""
        return sum(x.numel() for name, x in self.named_parameters() if not name.endswith("position_table"))

    @property
    def device(self) -> torch.device:
        return self.output_weight().device
