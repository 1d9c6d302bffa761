"""Fixtures for the tests of exports: a trained run, and runs with untrained models."""

import pytest
import torch
from support.commands import do
from support.toy import make_data, make_experiment, make_run, random_lines


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has learned to copy."""
    data = make_data(tmp_path_factory.mktemp("task") / "en-de", random_lines(1, 1000), random_lines(2, 50))
    model = {"N": 1, "d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    sizes = {"source_tokens": 400, "target_tokens": 400, "steps": 400, "warmup_steps": 100, "checkpoint_every": 5}
    logging = {"log_every": 50, "evaluate_every": 400, "save_every": 400}
    run = make_run(tmp_path_factory.mktemp("run") / "1", make_experiment(model=model, logging=logging, **sizes))
    do("train", run, "--data", data, "--threads", 1)
    return run


@pytest.fixture(scope="session")
def library():
    """The library transformers, without its network and its progress bars."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import transformers

        transformers.utils.logging.disable_progress_bar()
        # While the library loads a model, it replaces torch.linspace, and torch would cache the replacement for ever.
        with torch.device("meta"):
            torch.empty(0)
        yield transformers
