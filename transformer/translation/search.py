"""§6.1 Beam search with a length penalty. It asks a `Decoder` for log-probabilities, and knows no model."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.config.experiment import EOS, PAD

GROUP = 16  # tokens; `expand` at first ranks only the likeliest of each group


class Decoder(Protocol):
    """A model as beam search needs it: it scores the next token of hypotheses, which it keeps track of.

    A sentence has one hypothesis at first; `select` says which it has next.
    """

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` [B, K] to the hypotheses; return log-probabilities of what follows each: [B, K, V]."""

    def select(self, sentences: Tensor, parents: Tensor) -> None:
        """Keep only `sentences` [b] of the B, and the hypotheses `parents` [b, K] of each, in this order."""


def length_penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """Return ((5 + length) / 6)^alpha (Wu et al. 2016), which divides a log-probability; the length counts EOS."""
    return ((5 + length) / 6) ** alpha


def beam_search(decoder: Decoder, limits: Tensor, beam: int, alpha: float) -> list[tuple[list[int], float]]:
    """Return the best translation of each sentence, and its score, as `n_best` does."""
    return [best for best, *_ in n_best(decoder, limits, beam, alpha, 1)]


def n_best(decoder: Decoder, limits: Tensor, beam: int, alpha: float, n: int) -> list[list[tuple[list[int], float]]]:
    """Return the n best translations of each sentence, best first, and their scores; fewer where fewer were found.

    A score is log-probability over length penalty. limits: [B] the most tokens that a translation may have, EOS
    included; on the device that does the work. The ids end in EOS, unless no hypothesis ended within the limit. Each
    step takes the 2 * beam best continuations: those that end compete for the n best finished ones, the beam best of
    the others stay alive. A sentence is done when no alive hypothesis can still be one of the n: its log-probability
    only falls, and the penalty divides by no more than the limit's.
    """
    results = Results(limits, n)
    sentences = torch.arange(len(limits), device=limits.device)  # the b of the B that are still searched
    alive = torch.zeros(len(limits), 1, device=limits.device)
    history = torch.full((len(limits), 1, 1), PAD, device=limits.device)
    while len(sentences):
        length = history.shape[2]
        scores, parents, tokens = expand(alive, decoder.step(history[:, :, -1]), 2 * beam)
        ended = scores.masked_fill(tokens != EOS, -torch.inf).topk(min(n, scores.shape[1]), dim=1)
        results.offer(sentences, ended.values, extend(history, parents, tokens, ended.indices), alpha)
        alive, order = scores.masked_fill(tokens == EOS, -torch.inf).topk(min(beam, scores.shape[1]), dim=1)
        history = extend(history, parents, tokens, order)
        at_limit, best = limits[sentences] <= length, results.scores[sentences]
        if (late := at_limit & best[:, 0].isneginf()).any():
            results.offer(sentences[late], alive[late], history[late], alpha)
        can_win = alive[:, 0] / length_penalty(limits[sentences], alpha) > best[:, -1]
        going = compact(can_win & ~at_limit)
        decoder.select(going, parents.gather(1, order)[going])
        sentences, alive, history = sentences[going], alive[going], history[going]
    return results.to_list()


def expand(alive: Tensor, log_probabilities: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` best continuations, or all: log-probability, parent hypothesis and token of each, [B, count].

    alive: [B, K]. log_probabilities: [B, K, V]. The best `count` tokens are all in the `count` groups whose likeliest
    tokens are the likeliest; to rank groups, and then the tokens of those, is faster than to rank all tokens.
    """
    B, K, V = log_probabilities.shape
    groups = V // GROUP  # each with every groups-th token; the few that are left over are in none
    grouped = log_probabilities[:, :, : groups * GROUP].unflatten(2, (GROUP, groups))
    likeliest = (grouped.amax(dim=2) + alive[:, :, None]).flatten(1)
    chosen = likeliest.topk(min(count, K * groups), dim=1, sorted=False).indices[:, :, None]
    members = torch.arange(0, groups * GROUP, max(groups, 1), device=alive.device)
    first = chosen // max(groups, 1) * V + chosen % max(groups, 1)
    others = torch.arange(K * V, device=alive.device).view(K, V)[:, groups * GROUP :].flatten().expand(B, -1)
    candidates = torch.cat([(first + members).flatten(1), others], dim=1)  # as parent * V + token
    parents, tokens = candidates // V, candidates % V
    sentences = torch.arange(B, device=alive.device)[:, None]
    scores = log_probabilities[sentences, parents, tokens] + alive.gather(1, parents)
    scores, order = scores.topk(min(count, K * V), dim=1)
    return scores, parents.gather(1, order), tokens.gather(1, order)


def extend(history: Tensor, parents: Tensor, tokens: Tensor, chosen: Tensor) -> Tensor:
    """Append a token to hypotheses [b, K, length]: the continuations `chosen` [b, k], as [b, k, length + 1]."""
    sentences = torch.arange(len(history), device=history.device)[:, None]
    return torch.cat([history[sentences, parents.gather(1, chosen)], tokens.gather(1, chosen)[:, :, None]], dim=2)


def compact(going: Tensor) -> Tensor:
    """Return the sentences that go on, in a new order: the last ones take the places of those that end."""
    count = int(going.sum())
    places = torch.arange(count, device=going.device)
    places[~going[:count]] = going[count:].nonzero().flatten() + count
    return places


class Results:
    """The n best translations of each of B sentences so far, best first."""

    def __init__(self, limits: Tensor, n: int):
        self.scores = torch.full((len(limits), n), -torch.inf, device=limits.device)
        self.ids = torch.full((len(limits), n, int(limits.max())), PAD, device=limits.device)
        self.lengths = torch.zeros_like(self.scores, dtype=torch.long)

    def offer(self, sentences: Tensor, log_probabilities: Tensor, history: Tensor, alpha: float) -> None:
        """Keep those hypotheses of each of `sentences` [b] that are better than what they have.

        log_probabilities: [b, k], the highest first. history: [b, k, 1 + length].
        """
        length = history.shape[2] - 1  # it begins with PAD
        scores = log_probabilities / length_penalty(length, alpha)
        better = (scores[:, 0] > self.scores[sentences, -1]).nonzero().flatten()
        if not len(better):
            return
        own, scores = sentences[better], scores[better]
        n, longest = self.ids.shape[1:]
        scores = torch.cat([self.scores[own], scores], dim=1)
        ids = torch.cat([self.ids[own], F.pad(history[better, :, 1:], (0, longest - length), value=PAD)], dim=1)
        lengths = F.pad(self.lengths[own], (0, scores.shape[1] - n), value=length)
        scores, order = scores.sort(dim=1, descending=True, stable=True)  # of equals the first that came
        self.scores[own], order = scores[:, :n], order[:, :n]
        self.ids[own] = ids.gather(1, order[:, :, None].expand(-1, -1, longest))
        self.lengths[own] = lengths.gather(1, order)

    def to_list(self) -> list[list[tuple[list[int], float]]]:
        """Return the ids and the scores of each sentence; at least one, whatever was found."""
        columns = (self.ids.tolist(), self.lengths.tolist(), self.scores.tolist())
        found = [
            [(ids[:length], score) for ids, length, score in zip(*rows, strict=True)]
            for rows in zip(*columns, strict=True)
        ]
        return [[best, *(one for one in others if one[1] > -torch.inf)] for best, *others in found]
