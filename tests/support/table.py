"""A decoder for beam search whose probabilities are looked up."""

import math
import random

import torch


class Table:
    """A decoder (search.Decoder) that looks log-probabilities up: `log_p(sentence, prefix)` is a list over V tokens."""

    def __init__(self, log_p, sentences):
        self.log_p = log_p
        self.rows = [(sentence, []) for sentence in sentences]
        self.sizes, self.widths = [], []  # of the batch, and of the beam: one for each step

    def step(self, tokens):
        B, K = tokens.shape
        self.sizes.append(B)
        self.widths.append(K)
        for (_, prefixes), row in zip(self.rows, tokens.tolist(), strict=True):
            prefixes[:] = [(*prefix, token) for prefix, token in zip(prefixes or [()] * K, row, strict=True)]
        return torch.tensor([[self.log_p(name, prefix[1:]) for prefix in prefixes] for name, prefixes in self.rows])

    def select(self, sentences, parents):
        self.rows = [
            (self.rows[sentence][0], [self.rows[sentence][1][parent] for parent in row])
            for sentence, row in zip(sentences.tolist(), parents.tolist(), strict=True)
        ]


def random_table(seed, V=4):
    """Return log-probabilities over PAD, which never follows, EOS and V - 2 words: random, but fixed for a prefix."""

    def log_p(sentence, prefix):
        source = random.Random(f"{seed} {sentence} {prefix}")
        return normalized([-math.inf, *(source.gauss(0, 1.5) for _ in range(V - 1))])

    return log_p


def normalized(logits):
    """Return the logarithm of the softmax."""
    total = math.log(sum(map(math.exp, logits)))
    return [logit - total for logit in logits]


def sequence_log_p(log_p, sentence, ids):
    """Return the log-probability of all `ids` of a sentence."""
    return sum(log_p(sentence, tuple(ids[:place]))[token] for place, token in enumerate(ids))
