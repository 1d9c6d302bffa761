"""The seam for an architecture: what training, search, scoring, analyses and export know of a model.

Sentences are packed (packed.py). Shapes: n tokens; B sentences of K hypotheses each; V rows under the softmax.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config.experiment import PAD, Model
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


def embed(ids: Tensor, weight: Tensor) -> Tensor:
    """Return the embeddings [n, d_model] of ids [n]; PAD, with which a target begins, is a zero vector."""
    return F.embedding(ids, weight) * (ids != PAD).unsqueeze(-1)


def linear_flops(*parts: nn.Module) -> int:
    """Return the FLOPs of the products of a token, forward, with all matrices of these linear and LSTM layers."""
    layers = [layer for part in parts for layer in part.modules()]
    linear = sum(layer.in_features * layer.out_features for layer in layers if isinstance(layer, nn.Linear))
    lstm = sum(4 * x.hidden_size * (x.input_size + x.hidden_size) for x in layers if isinstance(x, nn.LSTM))
    return 2 * (linear + lstm)


class StatefulDecoder:
    """A `Decoder` of a model that keeps tensors for each hypothesis. An architecture defines `advance`."""

    def __init__(self, model: Seq2Seq, vocabulary: int, memory: list[Tensor | None], states: list[Tensor]):
        """Take a batch's memory, tensors [B, ...] that all hypotheses of a sentence share, and states [B, ...]."""
        self.model, self.vocabulary, self.memory, self.states = model, vocabulary, memory, states
        self.shape = (len(states[0]), 1)  # B, K

    def advance(self, tokens: Tensor) -> Tensor:
        """Append tokens [B * K] to the hypotheses and replace their states; return outputs, [B * K, d_model]."""
        raise NotImplementedError

    def step(self, tokens: Tensor) -> Tensor:
        self.shape = tuple(tokens.shape)
        logits = self.advance(tokens.flatten()) @ self.model.output_weight().T
        scores = logits.log_softmax(dim=1)[:, : self.vocabulary]
        scores[:, PAD] = -torch.inf
        return scores.view(*self.shape, -1)

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        B, K = self.shape
        device = self.model.device
        rows = torch.from_numpy((sentences[:, None] * K + parents).ravel()).to(device)
        self.states = [state[rows] for state in self.states]
        if len(sentences) < B or (sentences != np.arange(B)).any():
            kept = torch.from_numpy(sentences).to(device)
            self.memory = [None if each is None else each[kept] for each in self.memory]
