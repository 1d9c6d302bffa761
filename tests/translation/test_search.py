"""Beam search, compared with a beam search in plain loops without early stopping.

test_parser.py compares a beam that holds everything with brute force.
"""

import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.toy import Table, random_table

from transformer.config.experiment import EOS, PAD
from transformer.translation.search import beam_search, expand


def exhaustive_beam(log_p, sentence, limit, beam, alpha, n=1):
    """Run beam search in plain loops like tensor2tensor, but always up to the limit. Return the n best."""
    alive, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        candidates = [
            (log_probability + value, [*ids, token])
            for log_probability, ids in alive
            for token, value in enumerate(log_p(sentence, tuple(ids)))
            if value > -math.inf
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam if beam > 1 else 1]
        finished += [(value / ((5 + length) / 6) ** alpha, ids) for value, ids in candidates if ids[-1] == EOS]
        finished = sorted(finished, reverse=True)[: max(beam, n)]
        alive = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam]
    ranked = finished or [(value / ((5 + limit) / 6) ** alpha, ids) for value, ids in alive]
    return [(ids, score) for score, ids in ranked[:n]]


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "never ended"])
@pytest.mark.parametrize(
    ("beam", "n", "alpha"), [(1, 1, 0), (1, 2, 0.6), (2, 1, 1.5), (3, 2, 0), (4, 4, 0.6), (2, 7, 0.6)]
)
def test_n_best_equal_those_of_a_search_without_early_stopping(beam, n, alpha, ends):
    """A beam of size one is greedy. Where no hypothesis has ended, an alive one counts."""
    arbitrary = random_table(beam, V=6)

    def log_p(sentence, prefix):
        scores = arbitrary(sentence, prefix)
        return scores if ends else [-math.inf, -math.inf, *scores[EOS + 1 :]]

    limits = [1 + sentence % 9 for sentence in range(40)]
    together = beam_search(Table(log_p, range(40)), torch.tensor(limits), beam, alpha, n)
    for sentence, (limit, found) in enumerate(zip(limits, together, strict=True)):
        expected = exhaustive_beam(log_p, sentence, limit, beam, alpha, n)
        assert [ids for ids, _ in found] == [ids for ids, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-5)
        ((alone,),) = beam_search(Table(log_p, [sentence]), torch.tensor([limit]), beam, alpha)
        assert found[0] == alone
    assert max(map(len, together)) == (n if ends and beam > 1 else min(n, beam))


def test_sentences_that_end_leave_the_batch():
    log_p, limits = random_table(11), [2, 9, 5, 9, 9, 3, 9, 1]
    decoder = Table(log_p, range(len(limits)))
    beam_search(decoder, torch.tensor(limits), 2, 0.6)
    assert decoder.sizes[0] == len(limits)
    assert decoder.sizes == sorted(decoder.sizes, reverse=True)
    assert len(set(decoder.sizes)) > 3


@given(st.integers(1, 3), st.integers(1, 5), st.integers(3, 80), st.integers(1, 12), st.integers(0, 10**6))
def test_expand_equals_sorting_everything(B, K, V, count, seed):
    """Vocabularies are smaller than a group of tokens, as large as some groups, and in between. PAD is impossible."""
    torch.manual_seed(seed)
    alive, log_probabilities = torch.randn(B, K), torch.randn(B, K, V)
    log_probabilities[:, :, PAD] = -math.inf
    count = min(count, K * (V - 1))  # impossible ones may come in any order
    expected = (alive[:, :, None] + log_probabilities).flatten(1).sort(dim=1, descending=True)
    for few in (0, 2**15):  # a group at a time, and all at once
        with patch("transformer.translation.search._FEW", few):
            scores, continuations = expand(alive, log_probabilities, count)
        assert torch.equal(scores, expected.values[:, :count])
        assert torch.equal(continuations, expected.indices[:, :count])
