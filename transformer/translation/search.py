"""§6.1 Beam search with a length penalty. It asks a `Decoder` for log-probabilities, and knows no model.

Decoder and ranking run on the model's device, all else in NumPy's arrays after one transfer a step: for so few numbers
PyTorch's calls take several times as long.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from transformer.config.experiment import EOS, PAD
from transformer.model.seq2seq import Decoder

_SEARCH_GROUP = 16  # tokens; `expand` at first ranks only the likeliest of each group
_FEW = 2**15  # continuations; `expand` ranks up to this many all at once

Scored = tuple[list[int], float]  # the ids of a translation, and its log-probability over its length penalty


def length_penalty(length: np.ndarray | int, alpha: float) -> np.ndarray | float:
    """Return ((5 + length) / 6)^alpha (Wu et al. 2016), which divides a log-probability; the length counts EOS."""
    return ((5 + length) / 6) ** alpha


def beam_search(decoder: Decoder, limits: Tensor, beam: int, alpha: float, n: int = 1) -> list[list[Scored]]:
    """Return the n best translations of each sentence, or fewer, best first.

    limits: [B] the most tokens of a translation, EOS included; on the device that does the work. The ids end in EOS,
    unless no hypothesis ended within the limit. Each step takes the 2 * beam best continuations: those that end compete
    for the n best finished ones, the beam best of the others stay alive. A beam of one is greedy, as in the authors'
    code. A hypothesis that can no longer be among the n is dropped: its log-probability can only fall, and no penalty
    is larger than the limit's. A sentence is done at its limit, or when none is left.
    """
    device, limits = limits.device, limits.cpu().numpy()
    largest_penalty = length_penalty(limits, alpha)
    results = _Results(len(limits), n)
    sentences = np.arange(len(limits))  # the b of the B that are still searched
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
        goes_on = can_win[:, 0] & ~over  # the likeliest come first
        if not (count := goes_on.sum()):
            return results.to_list()
        going = np.arange(count)  # the last ones take the places of those that end
        going[~goes_on[:count]] = np.flatnonzero(goes_on[count:]) + count
        width = can_win[going].sum(axis=1).max()
        alive, parents, tokens = (x[going, :width] for x in (alive, parents, tokens))
        sentences = sentences[going]
        results.extend(sentences, parents, tokens)
        decoder.select(going, parents)


def expand(alive: Tensor, log_probabilities: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the `most` best continuations of each sentence, or all, best first: scores, and parent * V + token.

    alive: [B, K]. log_probabilities: [B, K, V]. The best `most` tokens are all in the `most` groups with the likeliest
    best tokens, and groups are fewer to rank.
    """
    B, K, V = log_probabilities.shape
    if B * K * V <= _FEW:
        return (log_probabilities + alive[:, :, None]).flatten(1).topk(min(most, K * V), dim=1)
    groups = V // _SEARCH_GROUP  # each with every groups-th token; the few that are left over are in none
    grouped = log_probabilities[:, :, : groups * _SEARCH_GROUP].unflatten(2, (_SEARCH_GROUP, groups))
    likeliest = (grouped.amax(dim=2) + alive[:, :, None]).flatten(1)
    chosen = likeliest.topk(min(most, K * groups), dim=1, sorted=False).indices[:, :, None]
    members = torch.arange(0, groups * _SEARCH_GROUP, max(groups, 1), device=alive.device)
    first = chosen // max(groups, 1) * V + chosen % max(groups, 1)
    others = torch.arange(K * V, device=alive.device).view(K, V)[:, groups * _SEARCH_GROUP :].flatten().expand(B, -1)
    candidates = torch.cat([(first + members).flatten(1), others], dim=1)
    scores = log_probabilities.flatten(1).gather(1, candidates) + alive.gather(1, candidates // V)
    scores, order = scores.topk(min(most, K * V), dim=1)
    return scores, candidates.gather(1, order)


class _Results:
    """The n best translations of each of B sentences so far, best first, and all hypotheses as trees."""

    def __init__(self, B: int, n: int):
        self.steps: list[np.ndarray] = []  # the last token of each hypothesis after a step and its parent: [2, B, K]
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
        order = (-scores).argsort(axis=1, kind="stable")[:, :n]  # of equals the first that came
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
