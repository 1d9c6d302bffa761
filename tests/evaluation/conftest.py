"""Fixtures: a run that has partly learned to copy, and its dev set."""

import shutil
from pathlib import Path

import pytest
from support.analysing import PAIRS, STEPS
from support.commands import do
from support.toy import make_data, make_experiment, make_run, random_lines, write_text


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Make data/, a trained run/, and the raw dev set in dev.en and dev.de."""
    place = tmp_path_factory.mktemp("probes")
    dev = random_lines(2, PAIRS, longest=6)
    data = make_data(place / "data", random_lines(1, 2000, longest=6), dev)
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    sizes = {"source_tokens": 600, "target_tokens": 600, "steps": STEPS, "warmup_steps": 60, "checkpoint_every": 10}
    logging = {"log_every": 100, "evaluate_every": STEPS, "save_every": STEPS}
    run = make_run(place / "run", make_experiment(model=model, logging=logging, **sizes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DEVICE", "cpu")
        do("train", run, "--data", data, "--threads", 1)
    for language in ("en", "de"):
        write_text(place / f"dev.{language}", dev)
    return place


@pytest.fixture
def own(place, tmp_path) -> Path:
    return Path(shutil.copytree(place, tmp_path / "own"))
