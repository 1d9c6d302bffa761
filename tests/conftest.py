"""Fixtures for many tests: a tiny run with distinct prime sizes, a finished project, Slurm clusters."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from support.commands import train_to_copy
from support.project import make_small, prepare, snakemake
from support.slurm import Cluster
from support.tools import needs_cluster, once
from support.toy import make_experiment, random_lines

from transformer.config.experiment import Experiment

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported; more threads do not speed up tiny tensors
settings.register_profile("any machine", deadline=None)  # a slow machine must not fail a property
settings.load_profile("any machine")


def pytest_collection_modifyitems(items):
    """Run the longest tests first, so that no long test runs at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    items.sort(key=lambda item: item.path.name == "test_results.py")  # it needs the results of the first tests
    items.sort(key=lambda item: item.path.parent.name not in ("workflow", "cluster"))
    first = ["TestTime", "test_demo.py", "test_cluster_training.py", "rehearsal.py", "training/test_faults.py"]
    items.sort(key=lambda item: min((place for place, name in enumerate(first) if name in item.nodeid), default=9))


@pytest.fixture
def experiment() -> Experiment:
    """Return a run small enough for a test. All sizes differ, so that swapped axes cause an error."""
    model = {"d_model": 13, "d_ff": 17, "h": 3, "d_k": 5, "d_v": 7, "output_rows": 36}
    steps = {"steps": 11, "source_tokens": 41, "target_tokens": 43}
    return make_experiment(model=model, logging={"log_every": 2, "evaluate_every": 5, "save_every": 3}, **steps)


@pytest.fixture(scope="module")
def on_the_processor():
    """Train on the processor, even if there is a GPU: only there are runs reproducible bit for bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DEVICE", "cpu")
        yield


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch) -> Path:
    """Return a copy of a module's folder `made` as the working folder. A test may damage it."""
    shutil.copytree(made, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """Return a project after a run of every rule."""

    def make(folder: Path) -> None:
        result = snakemake(make_small(folder))
        (folder / "output").write_text(result.stdout + result.stderr, encoding="utf-8")
        assert result.returncode == 0, result.stdout + result.stderr

    return once(tmp_path_factory, "small", make)


@pytest.fixture(scope="session")
def learned(tmp_path_factory) -> Path:
    """Return a folder with the data of a task, data/, and a run that has learned to copy, run/."""
    sizes = {"source_tokens": 400, "target_tokens": 400, "warmup_steps": 100, "checkpoint_every": 5}
    texts = random_lines(1, 2000), random_lines(2, 50)
    return once(tmp_path_factory, "learned", lambda folder: train_to_copy(folder, *texts, 400, **sizes))


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """Return a project with preprocessed data and without trainings."""
    return once(tmp_path_factory, "prepared", prepare)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Yield a Slurm cluster with accounting for all tests. Tests must leave it idle."""
    needs_cluster()
    with Cluster(tmp_path_factory.mktemp("cluster"), accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def plain_cluster(tmp_path_factory):
    """Yield a Slurm cluster without accounting. sacct gives no answer there."""
    needs_cluster()
    with Cluster(tmp_path_factory.mktemp("plain_cluster"), accounting=False) as cluster:
        yield cluster
