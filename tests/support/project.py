"""Copies of the project for tests that run the pipeline in them, as its users do."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from support.toy import PROCESSOR

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "environment.yml", "workflow", "profiles", "transformer")


def copy_project(place: Path) -> Path:
    """Copy all that the pipeline consists of, without results."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, place / part)
    return place


SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
# Rules call `python`; only on a processor does a training end with the same bits each time.
ENVIRONMENT = {k: v for k, v in PROCESSOR.items() if k != "PYTHONPATH"} | {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "no_proxy": "127.0.0.1",  # where some tests have a server
}


class Warm(NamedTuple):
    """A server of warm.py, its `python`, and the environment by which that finds the server."""

    server: subprocess.Popen
    python: Path
    environment: dict[str, str]


@cache
def warm() -> Warm:
    """Start a server, which ends with this process and removes its folder."""
    folder, program = Path(tempfile.mkdtemp()), Path(__file__).with_name("warm.py")
    python, address = folder / "python", folder / "socket"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {program} "$@"\n')
    python.chmod(0o755)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, program, "serve", address], env=ENVIRONMENT, **pipes)
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)
    return Warm(server, python, {"WARM": str(address)})


def snakemake(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Snakemake in `project`, whose own copy of the package the rules use."""
    return run_warm(project, *SNAKEMAKE[1:], *arguments)


def transformer(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run a verb of the package that lies in `project`."""
    return run_warm(project, "-m", "transformer", *arguments, **options)


def run_warm(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run Python, and whatever it runs as `python`, by the server that has imported torch before."""
    _, python, environment = warm()
    env = ENVIRONMENT | environment | {"PATH": f"{python.parent}:{ENVIRONMENT['PATH']}"}
    pipes = {"text": True, "capture_output": True, "timeout": 4500}
    return subprocess.run([python, *arguments], cwd=project, env=env, **pipes, **options)


def last_line(result: subprocess.CompletedProcess) -> str:
    return result.stderr.strip().splitlines()[-1]


OWN = """
corpora:
  mine-train: {files: {en: {path: train.en}, cs: {path: train.cs}}}
  mine-dev: {files: {en: {path: dev.en}, cs: {path: dev.cs}}}
scales:
  mine:
    label: our corpus
    width: 16
    depth: 2
    seeds: [1]
    base: {steps: 4, warmup_steps: 2, source_tokens: 300, target_tokens: 300, checkpoint_every: 1,
      averaged_checkpoints: 2}
    experiments: {big: {steps: 4, checkpoint_every: 1, averaged_checkpoints: 2}}
    tasks:
      en-cs: {source: en, target: cs, train: [mine-train], dev: mine-dev, test: mine-dev, vocabulary: 40,
        embedding_rows: 40}
"""


def own_corpus(project: Path) -> Path:
    """Add a corpus of its own to a project, in another configuration file; return that file."""
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    lines = [" ".join(words[n % 7 :] + words[: n % 5]) + " ." for n in range(60)]
    for name in ("train.en", "train.cs", "dev.en", "dev.cs"):
        (project / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (project / "own.yaml").write_text(OWN)
    return project / "own.yaml"


LONG = """
scales:
  mine:
    running: {log_every: 10, evaluate_every: 1000, bleu_sentences: 0, save_every: 20}
    base: {steps: 1000, checkpoint_every: 10}
"""


def prepare(place: Path) -> Path:
    """Make a project with that corpus and a longer training; its data are prepared, and nothing is trained."""
    project = copy_project(place)
    own_corpus(project)
    (project / "long.yaml").write_text(LONG)
    files = ["--configfile", "own.yaml", "long.yaml", "--config", "scale=mine"]
    result = snakemake(project, *files, "--", "results/mine/data/en-cs/data.json")
    assert result.returncode == 0, result.stderr
    return project


def write_profile(project: Path, profile: dict) -> None:
    """Write profiles/here: a profile for a cluster of the tests, which asks for the jobs' states often."""
    often = {"slurm-init-seconds-before-status-checks": 2, "latency-wait": 10}
    (project / "profiles/here").mkdir()
    (project / "profiles/here/profile.yaml").write_text(yaml.safe_dump(profile | often))


# The run of that corpus, and its weights.
RUN = "results/mine/runs/en-cs/base/1"
TRAINED = f"{RUN}/last.safetensors"
