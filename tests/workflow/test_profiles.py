"""The profiles: their requests to Slurm by rule, compared with a recorded file, and this machine's GPUs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, ROOT, all_rules, copy_project, last_line, snakemake

ASKED = ROOT / "tests/golden/asked-of-slurm.txt"
# Without --cores, a dry run assumes one core. With these cores, a job gets as many as on a cluster.
PAPER = ["--dry-run", "--cores", "8", "--workflow-profile", "profiles/slurm", "--config", "scale=paper"]
HERE = ("all", "decoding", "experiment", "fetch")  # these rules run beside Snakemake, not on a node
DERIVED = ("tmpdir", "mem", "mem_mib", "disk", "disk_mib")  # Snakemake derives these from others


def asked(listing: str) -> str:
    """Return each rule's threads and resources in a dry run, a line for each rule."""
    lines = set()
    for rule, job in re.findall(r"^ *rule (\w+):\n((?:(?!.*rule \w+:$) .*\n)*)", listing, re.MULTILINE):
        if rule in HERE:
            continue
        threads = re.search(r"threads: (\d+)", job)
        resources = re.search(r"resources: (.*)", job)[1].split(", ")
        kept = sorted(entry for entry in resources if entry.split("=")[0] not in DERIVED)
        lines.add(f"{rule}: threads={threads[1] if threads else 1}, {', '.join(kept)}\n")
    return "".join(sorted(lines))


@pytest.fixture
def without_slurm(tmp_path, monkeypatch):
    """Set a PATH without Slurm's commands, even if this machine has them."""
    (tmp_path / "bin").mkdir()
    for command in ("bash", "sh", "env", "git", "which"):
        (tmp_path / "bin" / command).symlink_to(f"/usr/bin/{command}")
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{Path(sys.executable).parent}:{tmp_path}/bin")


@pytest.mark.usefixtures("without_slurm")
@pytest.mark.parametrize("option", ["--workflow-profile", "--profile"])
def test_requests_to_slurm_equal_the_recorded_ones(tmp_path, option):
    """This also holds with the default profile: Snakemake loads it in addition to --profile."""
    (tmp_path / "resources/wsj").mkdir(parents=True)  # for Table 4
    options = [option if word == "--workflow-profile" else word for word in PAPER]
    assert asked(snakemake(copy_project(tmp_path), *options).stdout) == ASKED.read_text()


@pytest.mark.usefixtures("without_slurm")
def test_without_slurm_the_first_job_is_not_tried(tmp_path):
    result = snakemake(copy_project(tmp_path), *PAPER[1:], "--", "resources/corpora/newstest2014.de-en.en")
    assert result.returncode == 1
    assert last_line(result).startswith("Snakefile: expected Slurm's `sbatch` on PATH, found none")


@pytest.mark.parametrize("name", ["slurm", "allocation"])
def test_other_profiles_contain_the_default_profile(name):
    files = (ROOT / f"profiles/{each}/profile.yaml" for each in ("default", name))
    default, other = (yaml.safe_load(file.read_text()) for file in files)
    assert default.items() <= other.items()


@pytest.mark.usefixtures("without_slurm")
@pytest.mark.parametrize(("gpus", "nodes", "threads", "mem_mb"), [(16, 2, 32, 88000), (2, 2, 4, 32000)])
def test_processors_and_memory_follow_from_the_gpus_of_a_node(tmp_path, gpus, nodes, threads, mem_mb):
    """Each GPU gets four threads, and the memory of a process."""
    project = copy_project(tmp_path)
    profile = project / "profiles/slurm/profile.yaml"
    text = profile.read_text()
    for key, value in {"gpu": gpus, "nodes": nodes}.items():
        text = text.replace(f"    {key}: 1 #", f"    {key}: {value} #")
    profile.write_text(text)
    result = snakemake(project, *PAPER, "--cores", "99", "--", "results/paper/runs/en-de/base/1/run.json")
    (line,) = [line for line in asked(result.stdout).splitlines() if line.startswith("train:")]
    assert {f"threads={threads}", f"gpu={gpus}", f"mem_mb={mem_mb}"} <= set(re.split("[:,]? ", line))


@pytest.mark.parametrize("name", ["slurm", "allocation"])
def test_rules_in_a_profile_exist(name):
    """Snakemake would silently ignore a misspelt rule."""
    profile = yaml.safe_load((ROOT / f"profiles/{name}/profile.yaml").read_text())
    for key in ("set-resources", "set-threads", "groups"):
        assert set(profile.get(key, {})) <= all_rules()
    assert set(profile.get("group-components", {})) <= set(profile.get("groups", {}).values())


@pytest.mark.parametrize(("visible", "expected"), [("", 0), ("0,1", 1)])
def test_a_run_takes_one_of_this_machines_gpus(tmp_path, monkeypatch, visible, expected):
    monkeypatch.setitem(ENVIRONMENT, "CUDA_VISIBLE_DEVICES", visible)
    target = "results/demo/runs/en-de/base/1/test.hyp"
    result = snakemake(copy_project(tmp_path), "--dry-run", "--printshellcmds", "--", target)
    assert f"workflow/scripts/train here 1 {expected} " in result.stdout
    assert f"workflow/scripts/gpus here {expected} " in result.stdout


@pytest.mark.parametrize("end", ["kill -KILL $$", "exit 3"])
def test_the_allocations_job_ends_with_snakemake(tmp_path, end):
    """This also holds if Snakemake was killed, for example because of its memory."""
    (tmp_path / "python").write_text(f"#!/bin/sh\n{end}\n")
    (tmp_path / "python").chmod(0o755)
    slurm = {"SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_ON_NODE": "2", "SLURM_JOB_ID": "1"}
    env = ENVIRONMENT | slurm | {"PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}"}
    job = subprocess.run(["bash", ROOT / "profiles/allocation/job"], env=env, timeout=60, capture_output=True)
    assert job.returncode == (137 if "kill" in end else 3)
