"""Fixtures for many tests: one tiny run whose sizes are distinct primes, a finished project, Slurm clusters."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from support.project import snakemake
from support.slurm import Cluster
from support.small import make_small
from support.tools import needs_cluster

from transformer.config.experiment import Experiment, Model, Preparation, Running, Training

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported: tiny tensors gain nothing from more threads
settings.register_profile("any machine", deadline=None)  # a slow one breaks no property
settings.load_profile("any machine")


def pytest_collection_modifyitems(items):
    """Begin with the longest tests, which would otherwise be waited for at the end."""
    items.sort(key=lambda item: item.path.parent.name not in ("workflow", "cluster"))
    first = ["test_cluster_training.py", "test_demo.py", "test_record_multi30k.py", "test_cluster_demo.py"]
    places = {name: place for place, name in enumerate(first)}
    items.sort(key=lambda item: places.get(item.path.name, len(first)))


@pytest.fixture
def experiment() -> Experiment:
    """Return a run small enough for a test; no two sizes are alike, so that no mix-up of axes goes unseen."""
    return Experiment(
        scale="test",
        label="a test",
        task="en-de",
        experiment="tiny",
        seed=1,
        fidelity="paper-text",
        source="en",
        target="de",
        model=Model(
            *(2, 13, 17, 3, 5, 7),
            P_drop=0.1,
            P_drop_attention=0.0,
            positions="sinusoid",
            embedding_rows=37,
            output_rows=36,
            sinusoids="interleaved",
            target_spaces=0,
        ),
        training=Training(
            steps=11,
            rate=1.0,
            warmup_steps=4,
            source_tokens=41,
            target_tokens=43,
            checkpoint_every=2,
            averaged_checkpoints=3,
            epsilon_ls=0.1,
            beta1=0.9,
            beta2=0.98,
            epsilon=1e-9,
        ),
        preparation=Preparation(True, True, max_words=80, max_ratio=9.0, vocabulary_sentences=1000),
        running=Running(log_every=2, evaluate_every=5, bleu_sentences=0, save_every=3),
    )


@pytest.fixture(scope="module")
def on_the_processor():
    """Train there, GPU or not: only there is a run the same bit for bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DEVICE", "cpu")
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """Return a project in which every rule has run, for all processes of pytest: copy it to change it."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    project, made = folder / "small", folder / "small.made"
    with FileLock(f"{project}.lock"):
        if not made.exists():
            shutil.rmtree(project, ignore_errors=True)
            project.mkdir()
            result = snakemake(make_small(project))
            (project / "output").write_text(result.stdout + result.stderr, encoding="utf-8")
            assert result.returncode == 0, result.stdout + result.stderr
            made.touch()
    return project


@pytest.fixture
def shown(record_property):
    """Return a function that takes text to be shown when all tests have run: a controller's list of its jobs."""
    return partial(record_property, "shown")


def pytest_terminal_summary(terminalreporter):
    """Show that text, from whichever process it comes."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    for report in reports:
        for text in (value for name, value in report.user_properties if name == "shown" and report.when == "call"):
            terminalreporter.section(report.nodeid)
            terminalreporter.write_line(text)
    if terminalreporter.config.getoption("verbose") > 0:
        show_outcomes(terminalreporter)


def show_outcomes(terminalreporter) -> None:
    """List the cases of hostile input, each with the line that it ended with."""
    ended = [report for report in terminalreporter.stats.get("", []) if report.when == "teardown"]
    outcomes = [(report.nodeid, dict(report.user_properties).get("outcome")) for report in ended]
    if rows := [f"{case.removeprefix('tests/hostile/')}: {line}" for case, line in outcomes if line]:
        terminalreporter.section("hostile input, and what it ended with")
        terminalreporter.write_line("\n".join(rows))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Yield a Slurm cluster with accounting, for all tests that want one: leave it idle."""
    needs_cluster()
    with Cluster(tmp_path_factory.mktemp("cluster"), accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def plain_cluster(tmp_path_factory):
    """Yield a Slurm cluster without accounting, so that sacct has no answer."""
    needs_cluster()
    with Cluster(tmp_path_factory.mktemp("plain_cluster"), accounting=False) as cluster:
        yield cluster
