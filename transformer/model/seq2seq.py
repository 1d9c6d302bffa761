"""The interface of an architecture for training, search, scoring, analyses and export.

Sentences are packed (packed.py). Shapes: n tokens; B sentences of K hypotheses each; V output rows.
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
    """The interface for beam search: hypotheses, at first one per sentence, and the scores of their next tokens."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K] to the hypotheses. Return log-probabilities of their next tokens: [B, K, V]."""

    def select(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        """Select `sentences` [b] of the B sentences and their hypotheses `parents` [b, K], in this order."""


Decoders = Callable[[Packed, int], Decoder]  # arguments: a batch of sources, number of output ids (PAD is excluded)


class Seq2Seq(nn.Module):
    """A model of target sentences given source sentences. Subclasses implement the methods that raise an error here."""

    new_word: Tensor | None = None  # [embedding_rows] a buffer: 1 for a token that begins or tags a word
    shortest = 1  # `incremental` takes as long for a shorter source sentence as for one with this number of tokens

    def __init__(self, config: Model):
        super().__init__()
        self.config = config

    def forward(self, source: Packed, target: Packed) -> Tensor:
        """Return outputs [n_target, d_model]. The logits are `output @ self.output_weight().T` (§3.4)."""
        return self.decode(target, self.encode(source), source)

    def encode(self, source: Packed) -> Tensor:
        """Return the memory, one row per source token: [n_source, any width]."""
        raise NotImplementedError

    def decode(self, target: Packed, memory: Tensor, source: Packed) -> Tensor:
        """Decode all target tokens at once, each from earlier tokens only: [n_target, d_model]."""
        raise NotImplementedError

    def output_weight(self) -> Tensor:
        """Return the rows of the softmax: [V, d_model]."""
        raise NotImplementedError

    def incremental(self) -> Decoders:
        """Copy the decoder's current weights for single steps. Return a function that creates a batch's decoder."""
        raise NotImplementedError

    def fits_blocks(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether the model can train on batches in blocks (`packed.collate_blocks`)."""
        return False

    def flops(self, lengths: Lengths) -> float:
        """Return the FLOPs of matrix products in training on these tokens. Backward costs twice as much as forward."""
        raise NotImplementedError

    def parameter_count(self) -> int:
        """Count the parameters without learned positions, the tables named `position_table`."""
        return sum(x.numel() for name, x in self.named_parameters() if not name.endswith("position_table"))

    @property
    def device(self) -> torch.device:
        return self.output_weight().device


def embed(ids: Tensor, weight: Tensor) -> Tensor:
    """Return the embeddings [n, d_model] of ids [n]. PAD, the first token of a target, is a zero vector."""
    return F.embedding(ids, weight) * (ids != PAD).unsqueeze(-1)


def linear_flops(*parts: nn.Module) -> int:
    """Return the forward FLOPs of one token's products with all matrices of these linear and LSTM layers."""
    layers = [layer for part in parts for layer in part.modules()]
    linear = sum(layer.in_features * layer.out_features for layer in layers if isinstance(layer, nn.Linear))
    lstm = sum(4 * x.hidden_size * (x.input_size + x.hidden_size) for x in layers if isinstance(x, nn.LSTM))
    return 2 * (linear + lstm)


class StatefulDecoder:
    """A `Decoder` of a model with state tensors for each hypothesis. An architecture implements `advance`."""

    def __init__(self, model: Seq2Seq, vocabulary: int, memory: list[Tensor | None], states: list[Tensor]):
        """Take a batch's memory and states, tensors [B, ...]. All hypotheses of a sentence share the memory."""
        self.model, self.vocabulary, self.memory, self.states = model, vocabulary, memory, states
        self.shape = (len(states[0]), 1)  # B, K

    def advance(self, tokens: Tensor) -> Tensor:
        """Append tokens [B * K] to the hypotheses and update their states. Return outputs [B * K, d_model]."""
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
            selected = torch.from_numpy(sentences).to(device)
            self.memory = [None if each is None else each[selected] for each in self.memory]
