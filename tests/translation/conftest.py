"""Fixtures for the tests of exports: a trained run, and the library transformers."""

import pytest
import torch


@pytest.fixture
def run(learned):
    return learned / "run"


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
