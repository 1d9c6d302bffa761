"""Copies of the project for tests that run the pipeline like its users."""

import atexit
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import yaml
from snakemake.utils import update_config

from support.toy import PROCESSOR, write_text
from transformer.data.grammar import take

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "environment.yml", "workflow", "profiles", "transformer")


def copy_project(place: Path) -> Path:
    """Copy all parts of the pipeline, without results."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, place / part)
    return place


SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
# Rules call `python`. Only trainings on the processor are reproducible bit for bit.
ENVIRONMENT = {k: v for k, v in PROCESSOR.items() if k != "PYTHONPATH"} | {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "no_proxy": "127.0.0.1",  # some tests have a server at this address
}


@cache
def warm() -> tuple[Path, Path]:
    """Start a server of warm.py that ends with this process. Return its `python`, and the socket for WARM."""
    folder, program = Path(tempfile.mkdtemp()), Path(__file__).with_name("warm.py")
    python, address = folder / "python", folder / "socket"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {program} "$@"\n')
    python.chmod(0o755)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, program, "serve", address], env=ENVIRONMENT, **pipes)
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)
    return python, address


def snakemake(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Snakemake in `project`. The rules use the project's copy of the package."""
    return run_warm(project, *SNAKEMAKE[1:], *arguments)


def transformer(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run a subcommand of the package in `project`."""
    return run_warm(project, "-m", "transformer", *arguments, **options)


def run_warm(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run Python, and its child processes named `python`, on the server that has already imported torch."""
    python, address = warm()
    env = ENVIRONMENT | {"WARM": str(address), "PATH": f"{python.parent}:{ENVIRONMENT['PATH']}"}
    pipes = {"text": True, "capture_output": True, "timeout": 4500}
    return subprocess.run([python, *arguments], cwd=project, env=env, **pipes, **options)


def all_rules() -> set[str]:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    return {"all", *re.findall(r"^(?:use rule \w+ as|rule) (\w+)", text, re.MULTILINE)}


def rules_of(output: str) -> set[str]:
    """Return the rules of the jobs in Snakemake's output, single or grouped, run or planned."""
    return set(re.findall(r"^ *(?:local)?rule (\w+):", output, re.MULTILINE))


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
    """Add a corpus and a configuration file for it to a project. Return this file."""
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    lines = [" ".join(words[n % 7 :] + words[: n % 5]) + " ." for n in range(60)]
    for name in ("train.en", "train.cs", "dev.en", "dev.cs"):
        write_text(project / name, lines)
    (project / "own.yaml").write_text(OWN)
    return project / "own.yaml"


LONG = """
scales:
  mine:
    running: {log_every: 10, evaluate_every: 1000, bleu_sentences: 0, save_every: 20}
    base: {steps: 300, checkpoint_every: 10}
"""


def slow_down(project: Path, seconds: float) -> None:
    """Let each step of a training sleep. It then takes long enough to be disturbed, without using the processor."""
    loop = project / "transformer/training/loop.py"
    text = re.sub(r"(progress\.step \+= 1).*", rf"\1; time.sleep({seconds})", loop.read_text("utf-8"))
    loop.write_text(text, "utf-8")


def prepare(project: Path) -> None:
    """Make a project with this corpus, preprocessed data and a longer training."""
    copy_project(project)
    slow_down(project, 0.05)
    own_corpus(project)
    (project / "long.yaml").write_text(LONG)
    files = ["--configfile", "own.yaml", "long.yaml", "--config", "scale=mine"]
    result = snakemake(project, *files, "--", "results/mine/data/en-cs/data.json")
    assert result.returncode == 0, result.stderr


# Snakemake that polls Slurm's job states every two seconds. By default the plugin adds ten seconds to each interval.
OFTEN = """import runpy, snakemake_executor_plugin_slurm as slurm
slurm.Executor.next_seconds_between_status_checks = property(lambda _: 2, lambda *_: None)
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)"""
SUBMITTING = [sys.executable, "-c", OFTEN]


def write_profile(project: Path, profile: dict) -> None:
    """Write profiles/here, a profile for a test cluster."""
    (project / "profiles/here").mkdir()
    (project / "profiles/here/profile.yaml").write_text(yaml.safe_dump(profile | {"latency-wait": 10}))


# The run of this corpus, and its weights.
RUN = "results/mine/runs/en-cs/base/1"
TRAINED = f"{RUN}/last.safetensors"


def penn(tree: str) -> str:
    """Write a tree in the format of .mrg files: several lines, no outermost label, functions and a trace."""
    tree = tree.replace("(NP ", "(NP-SBJ-1 ", 1).replace("(VP ", "\n    (VP (NP=2 (-NONE- *T*-1)) ", 1)
    return f"\n( {tree} )\n"


def make_small(place: Path) -> Path:
    """Copy the smallest project that needs every rule: config.yaml with changes from small.yaml, and its files."""
    project = copy_project(place)
    paths = ROOT / "config.yaml", Path(__file__).with_name("small.yaml")
    config, small = (yaml.safe_load(path.read_text("utf-8")) for path in paths)
    for section in ("experiments", "baselines", "ablations"):
        config[section] = {name: config[section][name] for name in small.pop(section)}
    downloads = {}
    train, test = take(1, 0, 300), take(2, 0, 8)
    for folder in ("mirror/example.org", "wsj/22", "wsj/23"):
        (project / folder).mkdir(parents=True)
    bank = [penn(item.tree) for item in take(2, 8, 8)]
    for name, trees in {"22/wsj_2200": bank[:5], "23/wsj_2399": bank[5:]}.items():
        (project / f"wsj/{name}.mrg").write_text("".join(trees), "utf-8")
    for language in ("en", "de"):
        write_text(project / f"train.{language}", [getattr(item, language) for item in train])
        lines = [getattr(item, language) for item in test]
        write_text(project / f"half.{language}", lines[:4])
        name, content = f"test.{language}.gz", gzip.compress("\n".join([*lines, ""]).encode(), mtime=0)
        (project / "mirror/example.org" / name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        downloads[name] = {"urls": [f"https://example.org/{name}"], "sha256": sha256, "size": len(content)}
    config |= {"scales": {}, "corpora": {}, "downloads": downloads}
    update_config(config, small)
    (project / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return project
