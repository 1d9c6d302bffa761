"""§6.1 Beam search with a length penalty. A `Decoder` provides log-probabilities, so the search needs no model.

Decoder and ranking run on the model's device. Everything else runs in NumPy after one transfer per step, because
PyTorch's calls take several times as long for such small arrays.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import EOS, PAD
from transformer.model.seq2seq import Decoder

_SEARCH_GROUP = 16  # tokens per group; `expand` first ranks only the likeliest token of each group
_FEW = 2**15  # up to this number of continuations, `expand` ranks all of them directly

Scored = tuple[list[int], float]  # the ids of a translation, and its log-probability divided by its length penalty


def length_penalty(length: np.ndarray | int, alpha: float) -> np.ndarray | float:
    """Return ((5 + length) / 6)^alpha (Wu et al. 2016), the divisor of a log-probability. The length includes EOS."""
    return ((5 + length) / 6) ** alpha


def beam_search(decoder: Decoder, limits: Tensor, beam: int, alpha: float, n: int = 1) -> list[list[Scored]]:
    """Return up to n best translations of each sentence, best first.

    limits: [B] maximum number of tokens of a translation, with EOS; on the model's device. The ids end in EOS, except
    if no hypothesis ended within the limit. Each step ranks the 2 * beam best continuations. Finished continuations
    compete for the n best results, and the `beam` best unfinished continuations stay alive. A beam of one is greedy,
    like in the authors' code. The search drops a hypothesis that cannot reach the n best: its log-probability can only
    fall, and the penalty is largest at the limit. A sentence ends at its limit, or when no hypothesis is left.
    """
    device, limits = limits.device, limits.cpu().numpy()
    largest_penalty = length_penalty(limits, alpha)
    results = _Results(len(limits), n)
    sentences = np.arange(len(limits))  # sentences that are not finished yet
    alive, tokens = np.zeros((len(limits), 1)), np.full((len(limits), 1), PAD)
    most = 2 * beam if beam > 1 else 1
    for length in itertools.count(1):
        log_probabilities = decoder.step(torch.from_numpy(tokens).to(device))
        best = expand(torch.from_numpy(alive).to(log_probabilities), log_probabilities, most)
        scores, continuations = torch.stack([each.double() for each in best]).cpu().numpy()  # one transfer
        parents, tokens = np.divmod(continuations.astype(np.int64), log_probabilities.shape[2])
        penalty = length_penalty(length, alpha)
        if (ends := (tokens == EOS) & (scores > -np.inf)).any():
            results.offer(sentences, np.where(ends, scores, -np.inf) / penalty, parents, tokens, length)
            scores = np.where(ends, -np.inf, scores)
            order = np.arange(len(ends))[:, None], ends.argsort(axis=1, kind="stable")
            scores, parents, tokens = scores[order], parents[order], tokens[order]
        alive, parents, tokens = scores[:, :beam], parents[:, :beam], tokens[:, :beam]
        over = limits[sentences] <= length
        if (late := over & np.isneginf(results.scores[sentences, 0])).any():
            results.offer(sentences[late], alive[late] / penalty, parents[late], tokens[late], length)
        can_win = alive / largest_penalty[sentences, None] > results.scores[sentences, -1:]
        unfinished = can_win[:, 0] & ~over  # the likeliest hypothesis comes first
        if not (count := unfinished.sum()):
            return results.to_list()
        rows = np.arange(count)  # the last unfinished sentences replace finished sentences
        rows[~unfinished[:count]] = np.flatnonzero(unfinished[count:]) + count
        width = can_win[rows].sum(axis=1).max()
        alive, parents, tokens = (x[rows, :width] for x in (alive, parents, tokens))
        sentences = sentences[rows]
        results.extend(sentences, parents, tokens)
        decoder.select(rows, parents)


def expand(alive: Tensor, log_probabilities: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return up to `most` best continuations of each sentence, best first: scores, and parent * V + token.

    alive: [B, K]. log_probabilities: [B, K, V]. A first ranking selects the `most` groups with the likeliest best
    tokens. With the tokens in no group, they contain the `most` best. Ranking groups is cheaper than tokens.
    """
    B, K, V = log_probabilities.shape
    if B * K * V <= _FEW or V < _SEARCH_GROUP:
        return (log_probabilities + alive[:, :, None]).flatten(1).topk(min(most, K * V), dim=1)
    groups = V // _SEARCH_GROUP  # a group has every groups-th token; the few remaining tokens are in no group
    grouped = log_probabilities[:, :, : groups * _SEARCH_GROUP].unflatten(2, (_SEARCH_GROUP, groups))
    likeliest = (grouped.amax(dim=2) + alive[:, :, None]).flatten(1)
    chosen = likeliest.topk(min(most, K * groups), dim=1, sorted=False).indices[:, :, None]
    members = torch.arange(0, groups * _SEARCH_GROUP, groups, device=alive.device)
    first = chosen // groups * V + chosen % groups
    candidates = (first + members).flatten(1)
    if V % _SEARCH_GROUP:
        rows, rest = (torch.arange(*each, device=alive.device) for each in ((K,), (groups * _SEARCH_GROUP, V)))
        others = (rows[:, None] * V + rest).flatten().expand(B, -1)
        candidates = torch.cat([candidates, others], dim=1)
    scores = log_probabilities.flatten(1).gather(1, candidates) + alive.gather(1, candidates // V)
    scores, order = scores.topk(min(most, K * V), dim=1)
    return scores, candidates.gather(1, order)


class _Results:
    """The n best translations so far of each of B sentences, best first, and all hypotheses as trees."""

    def __init__(self, B: int, n: int):
        self.steps: list[np.ndarray] = []  # per step, the parent and the last token of each hypothesis: [2, B, K]
        self.scores = np.full((B, n), -np.inf)
        self.ends = np.zeros((B, n, 3), np.int64)  # parent, token and length of each translation

    def extend(self, sentences: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> None:
        step = np.empty((2, len(self.scores), tokens.shape[1]), np.int32)
        step[:, sentences] = parents, tokens
        self.steps.append(step)

    def offer(
        self, sentences: np.ndarray, scores: np.ndarray, parents: np.ndarray, tokens: np.ndarray, length: int
    ) -> None:
        n = self.scores.shape[1]
        ends = np.stack([parents, tokens, np.full_like(tokens, length)], axis=2)
        scores = np.concatenate([self.scores[sentences], scores], axis=1)
        ends = np.concatenate([self.ends[sentences], ends], axis=1)
        order = (-scores).argsort(axis=1, kind="stable")[:, :n]  # stable: the earliest of equal scores wins
        self.scores[sentences] = np.take_along_axis(scores, order, axis=1)
        self.ends[sentences] = np.take_along_axis(ends, order[:, :, None], axis=1)

    def to_list(self) -> list[list[Scored]]:
        found = []
        for sentence, (scores, ends) in enumerate(zip(self.scores.tolist(), self.ends.tolist(), strict=True)):
            ranked = [pair for pair in zip(scores, ends, strict=True) if pair[0] > -np.inf]
            found.append([(self.trace(sentence, *end), score) for score, end in ranked] or [([], -np.inf)])
        return found

    def trace(self, sentence: int, parent: int, token: int, length: int) -> list[int]:
        """Return the `length` tokens of the hypothesis that continues `parent` with `token`."""
        ids = [token]
        for step in reversed(self.steps[: length - 1]):
            parent, token = step[:, sentence, parent].tolist()
            ids.append(token)
        return ids[::-1]
