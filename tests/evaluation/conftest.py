"""Fixtures: a run that has partly learned to copy, and its dev set."""

import shutil
from pathlib import Path

import pytest
from support.analysing import PAIRS, STEPS
from support.commands import train_to_copy
from support.toy import random_lines, write_text


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Make data/, a trained run/, and the raw dev set in dev.en and dev.de."""
    place = tmp_path_factory.mktemp("probes")
    dev = random_lines(2, PAIRS, longest=6)
    sizes = {"source_tokens": 600, "target_tokens": 600, "warmup_steps": 60, "checkpoint_every": 10}
    train_to_copy(place, random_lines(1, 2000, longest=6), dev, STEPS, **sizes)
    for language in ("en", "de"):
        write_text(place / f"dev.{language}", dev)
    return place


@pytest.fixture
def own(place, tmp_path) -> Path:
    return Path(shutil.copytree(place, tmp_path / "own"))
