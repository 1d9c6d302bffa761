"""Memory: the bytes that a forward pass keeps are counted, and the pieces of a batch fit into the memory given."""

import math
import os

import pytest
import torch
from support.starting import start
from support.toy import make_experiment, random_text

from transformer.files import InputError
from transformer.runtime.memory import PER_PARAMETER, SHARE, available, pieces, saved_bytes
from transformer.training.batches import plan


def test_saved_bytes_by_hand():
    """A product keeps both factors for its gradient: 100 and 100 numbers of 4 bytes; one kept twice counts once."""
    x, y = (torch.randn(100, requires_grad=True) for _ in range(2))
    assert saved_bytes(lambda: x * y) == 800
    assert saved_bytes(lambda: (x * y, x * y)) == 800
    assert saved_bytes(lambda: x * x[:10].sum()) == 404
    with torch.no_grad():
        assert saved_bytes(lambda: x * y) == 0


@pytest.mark.parametrize(("tokens", "expected"), [(1, 1), (600, 1), (601, 2), (1200, 2), (1201, 3)])
def test_pieces_by_hand(tokens, expected):
    """Room for 600 tokens of 10 bytes beside 3 parameters."""
    memory = math.ceil((6000 + 3 * PER_PARAMETER) / SHARE)
    assert pieces(memory, 3 * PER_PARAMETER, bytes_per_token=10, tokens=tokens) == expected


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"^memory: expected more than 0\.069 GiB for model and Adam, found 0\.00098$"):
        pieces(2**20, PER_PARAMETER * 10**6, bytes_per_token=10, tokens=100)


def test_every_piece_of_every_batch_fits_the_room(tmp_path):
    """Measured on the piece itself, give or take a pair that divides unevenly; more memory makes fewer pieces."""
    text, budgets = random_text(1, 1000), (900, 900)
    experiment = make_experiment(source_tokens=900, target_tokens=900)
    learner = start(tmp_path, experiment, text).learner
    parameters = sum(parameter.numel() for parameter in learner.model.parameters())
    counts = []
    for room in (2**20, 2**21, 2**24):
        learner.accumulation = learner.accumulations(math.ceil((room + PER_PARAMETER * parameters) / SHARE))
        batches = plan(1, 0, text.lengths, budgets)
        for part in (
            batch[piece :: learner.accumulation] for batch in batches for piece in range(learner.accumulation)
        ):
            assert saved_bytes(lambda part=part: learner.losses(part)) <= 1.1 * room
        counts.append(learner.accumulation)
    assert counts[0] > counts[1] > counts[2] == 1


def test_a_process_has_its_processors_part_of_the_machines_memory():
    cpu = torch.device("cpu")
    all_of_it = available(cpu, 10_000)
    assert 2**28 < all_of_it < 2**50
    assert available(cpu, 1) <= all_of_it // os.cpu_count()
