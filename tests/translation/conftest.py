"""Fixtures for the tests of exports: a run that was trained, and runs whose models were not."""

import shutil

import pytest
import torch
from msgspec.structs import asdict, replace
from support.commands import do
from support.toy import make_data, make_experiment, make_run, random_lines, random_model

from transformer.config.experiment import load, save
from transformer.model import weights as checkpoints


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has learned to copy."""
    data = make_data(tmp_path_factory.mktemp("task") / "en-de", random_lines(1, 1000), random_lines(2, 50))
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    sizes = {"source_tokens": 400, "target_tokens": 400, "steps": 400, "warmup_steps": 100, "checkpoint_every": 5}
    running = {"log_every": 50, "evaluate_every": 400, "save_every": 400}
    run = make_run(tmp_path_factory.mktemp("run") / "1", make_experiment(model=model, running=running, **sizes))
    do("train", run, "--data", data, "--threads", 1)
    do("average", "--run", run)
    return run


@pytest.fixture
def untrained(run, tmp_path):
    """Return a function that makes a run with a random model, and returns its folder."""

    def make(**changes):
        copy = tmp_path / "run"
        shutil.copytree(run, copy, dirs_exist_ok=True)
        experiment = load(run / "experiment.yaml")
        model = random_model(1, **asdict(experiment.model) | changes)
        _, header = checkpoints.load(run / "average.safetensors")
        checkpoints.save(copy / "average.safetensors", model.state_dict(), header)
        save(replace(experiment, model=model.config), copy / "experiment.yaml")
        return copy

    return make


@pytest.fixture(scope="session")
def library():
    """The library transformers, without its network and its progress bars."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import transformers

        transformers.utils.logging.disable_progress_bar()
        # While it loads a model, the library has its own torch.linspace, which torch would remember for good.
        with torch.device("meta"):
            torch.empty(0)
        yield transformers
