"""Jobs or Snakemake are killed in the middle of a training, and the same command resumes the training."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from support.project import ENVIRONMENT, RUN, SNAKEMAKE, TRAINED, snakemake
from support.toy import heed_signals

pytestmark = pytest.mark.slow

# One thread: with such a small model, two threads mostly wait for each other.
FILES = ["--configfile", "own.yaml", "long.yaml", "--config", "scale=mine"]
ARGUMENTS = [*FILES, "--set-threads", "train=1", "--", TRAINED]


@pytest.fixture
def project(prepared, tmp_path) -> Path:
    return shutil.copytree(prepared, tmp_path / "project")


@pytest.fixture(scope="module")
def uninterrupted(prepared, tmp_path_factory) -> bytes:
    """Return the weights of a training without a fault."""
    project = shutil.copytree(prepared, tmp_path_factory.mktemp("uninterrupted") / "project")
    assert snakemake(project, *ARGUMENTS).returncode == 0
    return (project / TRAINED).read_bytes()


def begin(project: Path, *arguments: str) -> subprocess.Popen:
    """Start Snakemake in its own process group, like in a terminal. Wait until the training has saved a state."""
    command, own = [*SNAKEMAKE, *arguments, *ARGUMENTS], {"start_new_session": True, "preexec_fn": heed_signals}
    with open(project / "output", "w") as output:
        process = subprocess.Popen(command, cwd=project, env=ENVIRONMENT, stdout=output, stderr=output, **own)
    late = time.time() + 600
    while not list((project / RUN).glob("state/*/state/*.safetensors")):
        assert process.poll() is None, (project / "output").read_text()
        assert time.time() < late
        time.sleep(0.05)
    return process


def test_training_killed_with_retries(project, uninterrupted):
    """Snakemake deletes the failed job's outputs and reruns it. The states are not among these outputs."""
    process = begin(project, "--retries", "1")
    children = psutil.Process(process.pid).children(recursive=True)
    (training,) = [child for child in children if child.cmdline()[1:4] == ["-m", "transformer", "train"]]
    training.terminate()
    assert process.wait(timeout=600) == 0
    assert "resumed from step" in (project / "output").read_text()
    assert (project / TRAINED).read_bytes() == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "a power cut"])
def test_the_same_command_resumes_after_an_end_of_all_processes(project, uninterrupted, number):
    """Ctrl-C reaches Snakemake, the training and `tee` at the same time. After a kill, the folder stays locked."""
    process = begin(project)
    os.killpg(process.pid, number)
    assert process.wait(timeout=60) != 0
    options = []
    if number == signal.SIGINT:
        assert "interrupted by SIGINT: saved at step" in (project / "output").read_text()
    else:
        assert snakemake(project, "--unlock", *FILES).returncode == 0
        options = ["--rerun-incomplete"]
    result = snakemake(project, *options, *ARGUMENTS)
    assert result.returncode == 0, result.stderr
    assert "resumed from step" in result.stdout
    assert (project / TRAINED).read_bytes() == uninterrupted
