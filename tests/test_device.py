"""The compute device and its memory, on machines with working GPUs, with broken GPUs and without GPUs."""

import math
import os
import warnings
from pathlib import Path

import pytest
import torch
from support.toy import make_experiment, random_text, start

from transformer import device
from transformer.device import _SHARE, PER_PARAMETER, best_device, given_gpu, pieces, saved_bytes
from transformer.process import processors
from transformer.storage.files import InputError
from transformer.training.batches import plan_batches

SAYS = "The NVIDIA driver on your system is too old (found version 12080). Please update\nyour GPU driver."


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", device._VARIABLE, *device._SLURM):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def unusable(monkeypatch):
    """Simulate a CUDA build of PyTorch on a machine with a driver that is too old."""

    def is_available() -> bool:
        warnings.warn(SAYS, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


def test_a_gpu_that_answers_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for value, kind in (("", "cuda"), ("cpu", "cpu")):
        monkeypatch.setenv(device._VARIABLE, value)
        assert best_device() == torch.device(kind)


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", *device._SLURM])
@pytest.mark.usefixtures("unusable")
def test_a_driver_that_is_too_old_is_named_with_the_wheel(monkeypatch, name):
    monkeypatch.setenv(name, "0,1")
    with pytest.raises(InputError) as refusal:
        best_device()
    line = str(refusal.value)
    assert line.startswith(f"expected a usable GPU ({name}=0,1), found: The NVIDIA driver on your system is too old")
    assert f"PyTorch {torch.__version__} for CUDA 13.0" in line
    assert "\n" not in line


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
@pytest.mark.usefixtures("unusable")
def test_no_visible_gpu_means_the_processor(monkeypatch, visible):
    """This also holds in a job with GPUs, because hidden GPUs mean that the user wants the processor."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    assert best_device() == torch.device("cpu")


def test_a_machines_own_gpus(tmp_path: Path):
    """Other devices of the driver do not count as GPUs."""
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        (tmp_path / name).touch()
    assert given_gpu(tmp_path) is None
    (tmp_path / "nvidia0").touch()
    assert given_gpu(tmp_path) == str(tmp_path / "nvidia0")


# Memory


def test_saved_bytes_by_hand():
    """A product keeps both factors for its gradient: 100 and 100 numbers of 4 bytes. A shared number counts once."""
    x, y = (torch.randn(100, requires_grad=True) for _ in range(2))
    assert saved_bytes(lambda: x * y) == 800
    assert saved_bytes(lambda: (x * y, x * y)) == 800
    assert saved_bytes(lambda: x * x[:10].sum()) == 404
    with torch.no_grad():
        assert saved_bytes(lambda: x * y) == 0


@pytest.mark.parametrize(("tokens", "expected"), [(1, 1), (600, 1), (601, 2), (1200, 2), (1201, 3)])
def test_pieces_by_hand(tokens, expected):
    """The memory budget is 600 tokens of 10 bytes in addition to 3 parameters."""
    memory = math.ceil((6000 + 3 * PER_PARAMETER["cpu"]) / _SHARE)
    assert pieces(memory, 3 * PER_PARAMETER["cpu"], bytes_per_token=10, tokens=tokens) == expected


def test_every_piece_of_every_batch_fits(tmp_path):
    """The measured size of each piece fits, up to a pair that divides unevenly. More memory makes fewer pieces."""
    text, budgets = random_text(1, 1000), (900, 900)
    learner = start(tmp_path, make_experiment(source_tokens=900, target_tokens=900), text).learner
    parameters = sum(parameter.numel() for parameter in learner.model.parameters())
    counts = []
    for capacity in (2**20, 2**21, 2**24):
        learner.accumulation = learner.accumulations(math.ceil((capacity + PER_PARAMETER["cpu"] * parameters) / _SHARE))
        for batch in plan_batches(1, 0, text.lengths, budgets):
            for piece in range(learner.accumulation):
                part = batch[piece :: learner.accumulation]
                assert saved_bytes(lambda part=part: learner.losses(part)) <= 1.1 * capacity
        counts.append(learner.accumulation)
    assert counts[0] > counts[1] > counts[2] == 1


def test_processors_on_a_system_without_affinity(monkeypatch):
    assert processors() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS does not have this function
    assert processors() == os.cpu_count()
