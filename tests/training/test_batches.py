"""The batch plan has its properties for any lengths. A batch's layout equals one made by hand."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.toy import CPU, token_array

from transformer.config.experiment import EOS, PAD, POSITIONS
from transformer.training.batches import ParallelText, plan_batches

LONGEST = 20
seeds = st.integers(0, 2**32 - 1)
corpora = st.lists(st.tuples(*[st.integers(1, LONGEST)] * 2), min_size=1, max_size=60).map(lambda x: np.array(x).T)
budgets = st.tuples(*[st.integers(LONGEST, 3 * LONGEST)] * 2)


def listed(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(seeds, st.integers(0, 100), corpora, budgets)
def test_every_pair_once_and_no_budget_exceeded(seed, epoch, lengths, budgets):
    batches = plan_batches(seed, epoch, lengths, budgets)
    assert sorted(np.concatenate(batches).tolist()) == list(range(lengths.shape[1]))
    for batch in batches:
        assert len(batch) > 0
        assert (lengths[:, batch].sum(axis=1) <= budgets).all()


@given(seeds, corpora, budgets)
def test_the_pairs_of_a_batch_are_neighbours_in_length(seed, lengths, budgets):
    """No pair of another batch has a length between the shortest and longest of a batch (source, then target)."""
    pairs = sorted(
        sorted(map(tuple, lengths[:, batch].T.tolist())) for batch in plan_batches(seed, 0, lengths, budgets)
    )
    assert all(before[-1] <= after[0] for before, after in pairwise(pairs))


@pytest.mark.parametrize("other", [(1, 1), (2, 0)], ids=["epoch", "seed"])
def test_another_seed_or_epoch_gives_other_batches_in_another_order(other):
    lengths = np.full((2, 200), 3)
    old, new = listed(plan_batches(1, 0, lengths, (30, 30))), listed(plan_batches(*other, lengths, (30, 30)))
    assert {frozenset(batch) for batch in old}.isdisjoint(frozenset(batch) for batch in new)
    different = np.arange(1, 41)[None, :].repeat(2, axis=0)  # only one set of batches is possible
    old, new = listed(plan_batches(1, 0, different, (99, 99))), listed(plan_batches(*other, different, (99, 99)))
    assert old != new
    assert sorted(old) == sorted(new)


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ((12, 100), [[1, 2, 3, 4], [5, 6], [7]]),  # 1 + 2 + 3 + 4 = 10 source tokens, 15 would be too many
        ((15, 100), [[1, 2, 3, 4, 5], [6, 7]]),  # the budget is inclusive
        ((100, 5), [[1, 2], [3, 4], [5, 6], [7]]),  # two tokens each on the target side
        ((12, 6), [[1, 2, 3], [4, 5], [6], [7]]),  # the first limit that is reached
    ],
)
def test_batches_are_filled_in_order_of_length(budgets, expected):
    lengths = np.array([[5, 3, 7, 1, 6, 2, 4], [2] * 7])
    batches = plan_batches(1, 0, lengths, budgets)
    assert sorted(lengths[0, batch].tolist() for batch in batches) == expected


@pytest.mark.parametrize("budgets", [(20, 30), (25000, 25000)], ids=["a batch", "positions"])
def test_a_pair_too_long_is_left_out(budgets):
    source, target = np.minimum(budgets, POSITIONS)
    lengths = np.array([[5, 5], [source + 1, 3], [source, target], [3, target + 1]]).T
    assert sorted(chain.from_iterable(plan_batches(1, 0, lengths, budgets))) == [0, 2]
    assert sorted(chain.from_iterable(plan_batches(1, 0, lengths, budgets, longest=5))) == [0]


def test_the_target_is_shifted_right_to_begin_with_pad():
    sources, targets = [[11, EOS], [12, 13, 14, EOS], [15, EOS]], [[21, 22, EOS], [23, EOS], [24, 25, 26, EOS]]
    batch = ParallelText(token_array(sources), token_array(targets)).batch(np.array([2, 0]), CPU)
    assert batch.source.ids.tolist() == [15, EOS, 11, EOS]
    assert batch.target.ids.tolist() == [PAD, 24, 25, 26, PAD, 21, 22]
    assert batch.labels.tolist() == [24, 25, 26, EOS, 21, 22, EOS]
    assert batch.target.positions.tolist() == [0, 1, 2, 3, 0, 1, 2]
