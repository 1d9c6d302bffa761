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
    sentences = torch.arange(B, device=device)  # those that are still searched
    alive = torch.zeros(B, beam, device=device)
    alive[:, 1:] = -torch.inf  # at the start all hypotheses are the same: only one counts
    history = torch.zeros(B, beam, 0, dtype=torch.long, device=device)
    tokens = torch.full((B, beam), PAD, device=device)
    length = 0
    while len(sentences):
        length += 1
        scores, parents, tokens = expand(alive, decoder.step(tokens), beam)
        ended = scores.masked_fill(tokens != EOS, -torch.inf).max(dim=1)
        record(results, sentences, ended.values / length_penalty(length, alpha), history, parents, ended.indices)
        alive, order = scores.masked_fill(tokens == EOS, -torch.inf).topk(beam, dim=1)
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)
        history = torch.cat([history.gather(1, parents[:, :, None].expand(-1, -1, length - 1)), tokens[:, :, None]], 2)
        best = torch.tensor([results[index][1] for index in sentences.tolist()], device=device)
        bound = alive[:, 0] / length_penalty(limits[sentences], alpha)
        for row in ((limits[sentences] <= length) & best.isneginf()).nonzero().flatten().tolist():
            score = alive[row, 0].item() / length_penalty(length, alpha)
            results[sentences[row]] = (history[row, 0].tolist(), score)
        going = ((best < bound) & (limits[sentences] > length)).nonzero().flatten()
        decoder.select(going, parents[going])
        sentences, alive, history, tokens = sentences[going], alive[going], history[going], tokens[going]
    return results


def expand(alive: Tensor, log_probabilities: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 * beam best continuations: log-probability, parent hypothesis and token of each, [B, 2 * beam]."""
    B, K, V = log_probabilities.shape
    scores, indices = (alive[:, :, None] + log_probabilities).view(B, K * V).topk(2 * beam, dim=1)
    return scores, indices // V, indices % V


def record(
    results: list[tuple[list[int], float]],
    sentences: Tensor,
    scores: Tensor,
    history: Tensor,
    parents: Tensor,
    winners: Tensor,
) -> None:
    """Replace the results that a hypothesis which has just ended beats. scores, winners: [b], one per sentence."""
    for row, (sentence, score) in enumerate(zip(sentences.tolist(), scores.tolist(), strict=True)):
        if score > results[sentence][1]:
            parent = parents[row, winners[row]]
            results[sentence] = ([*history[row, parent].tolist(), EOS], score)
