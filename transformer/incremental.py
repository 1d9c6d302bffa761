"""One decoder step at a time, with caches: what beam search asks of the Transformer."""

import torch
from torch import Tensor

from transformer.config import PAD
from transformer.model import CrossAttention, Packed, SelfAttention, Transformer


class CachedDecoder:
    """K hypotheses for each of B sentences (search.Decoder).

    The memory's keys and values are computed once per sentence and shared by its hypotheses; the hypotheses' own grow
    by one position a step. Only the first `vocabulary` tokens but PAD can follow.
    """

    def __init__(self, model: Transformer, source: Packed, vocabulary: int):
        self.model, self.vocabulary = model, vocabulary
        memory = model.encode(source)
        self.memory = [layer.cross_attention.keys_values(memory, source) for layer in model.decoder]
        self.mask = source.mask
        self.past: list[tuple[Tensor, Tensor] | None] = [None] * len(model.decoder)
        self.words: Tensor | None = None  # of each hypothesis, how many began, less one; where the model counts them
        self.length = 0

    def step(self, tokens: Tensor) -> Tensor:
        """tokens: [B, K]. Returns log-probabilities [B, K, V] of the token after them."""
        B, K = tokens.shape
        ids = tokens.flatten()
        x = self.model.embedding(ids, torch.full_like(ids, self.length), self.count_words(ids))
        for index, layer in enumerate(self.model.decoder):
            x = layer.residuals[0](x, self.self_attention(index, layer.self_attention, x))
            x = layer.residuals[1](x, self.cross_attention(index, layer.cross_attention, x, B, K))
            x = layer.residuals[2](x, layer.feed_forward(x))
        self.length += 1
        logits = x @ self.model.embedding.output_weight().T
        log_probabilities = logits[:, : self.vocabulary] - logits.logsumexp(dim=1, keepdim=True)
        log_probabilities[:, PAD] = -torch.inf
        return log_probabilities.view(B, K, -1)

    def count_words(self, ids: Tensor) -> Tensor | None:
        """The numbers of the words that are next, after these tokens [B * K]."""
        new_word = self.model.embedding.new_word
        if new_word is not None:
            new = new_word[ids].long()
            self.words = new - 1 if self.words is None else self.words + new
        return self.words

    def self_attention(self, index: int, layer: SelfAttention, x: Tensor) -> Tensor:
        """x: [B * K, d_model]. The new position attends to itself and all before it."""
        Q, K, V = (
            part.view(len(x), 1, layer.h, -1).transpose(1, 2)
            for part in layer.query_key_value(x).split(layer.widths, dim=-1)
        )
        if self.past[index] is not None:
            K, V = (torch.cat([old, new], dim=2) for old, new in zip(self.past[index], (K, V), strict=True))
        self.past[index] = (K, V)
        return layer.output(layer.attend(Q, K, V, mask=None, causal=False).flatten(1))

    def cross_attention(self, index: int, layer: CrossAttention, x: Tensor, B: int, K: int) -> Tensor:
        """The K hypotheses of a sentence are K queries of one attention over its memory."""
        Q = layer.query(x).view(B, K, layer.h, -1).transpose(1, 2)
        heads = layer.attend(Q, *self.memory[index], self.mask, causal=False)
        return layer.output(heads.transpose(1, 2).reshape(B * K, -1))

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep these sentences, in ascending order, and of each these hypotheses: [b] and [b, K]."""
        K = parents.shape[1]
        rows = (sentences[:, None] * K + parents).flatten()
        self.past = [(keys[rows], values[rows]) for keys, values in self.past]
        self.words = None if self.words is None else self.words[rows]
        # Finished sentences leave seldom; the shared memory is copied only then.
        if len(sentences) < len(self.memory[0][0]):
            self.memory = [(keys[sentences], values[sentences]) for keys, values in self.memory]
            self.mask = None if self.mask is None else self.mask[sentences]
