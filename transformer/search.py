"""§6.1 Beam search with a length penalty. Knows how to ask for the next token's log-probabilities, not the model."""

from typing import Protocol

import torch
from torch import Tensor

from transformer.config import EOS, PAD


class Decoder(Protocol):
    """What beam search needs of a model: the scores of the next token, for hypotheses that it keeps track of."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K] to the hypotheses; log-probabilities of what follows each: [B, K, V]."""

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep only `sentences` [b] of the B, and of each the hypotheses `parents` [b, K], in this order."""


def length_penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha, of Wu et al. (2016); the length counts EOS. Divides a log-probability."""
    return ((5 + length) / 6) ** alpha


def beam_search(decoder: Decoder, limits: Tensor, beam: int, alpha: float) -> list[tuple[list[int], float]]:
    """The best translation of each sentence, and its score: log-probability over length penalty.

    limits: [B] the most tokens that a translation may have, EOS included; on the device that does the work. The ids
    end in EOS, unless no hypothesis ended within the limit. Each step takes the 2 * beam best continuations: those that
    end compete for the best finished one, the beam best of the others stay alive. A sentence is done when no alive
    hypothesis can still win: its log-probability only falls, and the penalty divides by no more than the limit's.
    """
    device, B = limits.device, len(limits)
    results: list[tuple[list[int], float]] = [([], -torch.inf)] * B
    sentences = torch.arange(B, device=device)  # the b of the B that are still searched
    alive = torch.zeros(B, beam, device=device)
    alive[:, 1:] = -torch.inf  # at the start all hypotheses are the same: only one counts
    history = torch.zeros(B, beam, 0, dtype=torch.long, device=device)
    tokens = torch.full((B, beam), PAD, device=device)
    length = 0
    while len(sentences):
        length += 1
        scores, parents, tokens = expand(alive, decoder.step(tokens), beam)
        ids = torch.cat([rows(history, parents), tokens[:, :, None]], dim=2)  # [b, 2 * beam, length]
        ended = scores.masked_fill(tokens != EOS, -torch.inf).max(dim=1, keepdim=True)
        record(results, sentences, ended.values / length_penalty(length, alpha), rows(ids, ended.indices))
        alive, order = scores.masked_fill(tokens == EOS, -torch.inf).topk(beam, dim=1)
        parents, tokens, history = parents.gather(1, order), tokens.gather(1, order), rows(ids, order)
        best = torch.tensor([results[sentence][1] for sentence in sentences.tolist()], device=device)
        at_limit = limits <= length
        late = at_limit & best.isneginf()
        record(results, sentences[late], alive[late] / length_penalty(length, alpha), history[late])
        can_win = alive[:, 0] / length_penalty(limits, alpha) > best
        going = (can_win & ~at_limit).nonzero().flatten()
        decoder.select(going, parents[going])
        sentences, limits, alive, history, tokens = (x[going] for x in (sentences, limits, alive, history, tokens))
    return results


def expand(alive: Tensor, log_probabilities: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 * beam best continuations: log-probability, parent hypothesis and token of each, [B, 2 * beam]."""
    B, K, V = log_probabilities.shape
    scores, indices = (alive[:, :, None] + log_probabilities).view(B, K * V).topk(2 * beam, dim=1)
    return scores, indices // V, indices % V


def rows(ids: Tensor, chosen: Tensor) -> Tensor:
    """Of each sentence's hypotheses, `ids` [b, K, length], those `chosen` [b, k]: [b, k, length]."""
    return ids.gather(1, chosen[:, :, None].expand(-1, -1, ids.shape[2]))


def record(results: list[tuple[list[int], float]], sentences: Tensor, scores: Tensor, ids: Tensor) -> None:
    """Keep each sentence's first hypothesis if it beats the result so far. scores: [b, k]. ids: [b, k, length]."""
    for sentence, score, best in zip(sentences.tolist(), scores[:, 0].tolist(), ids[:, 0], strict=True):
        if score > results[sentence][1]:
            results[sentence] = (best.tolist(), score)
