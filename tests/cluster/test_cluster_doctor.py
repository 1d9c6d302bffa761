"""On a real Slurm cluster, doctor reports each fault of a profile or of the cluster with a fix."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from support.slurm import Cluster
from support.toy import PROCESSOR

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TWO_NODES = {"gpu": 4, "nodes": 2, "tasks": 2, "mpi": "srun"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("config.yaml", "requirements.lock", "transformer", "workflow", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def doctor(cluster: Cluster, project: Path, *options: str, **rules: dict) -> list[str]:
    """Return doctor's lines about the cluster, for an adapted profiles/slurm and changes of some rules."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile["default-resources"] |= {"slurm_account": "research", "runtime": 30}
    profile["set-threads"] = {"train": 2, "train_parser": 2}
    for rule in ("train", "train_parser"):
        profile["set-resources"][rule] |= {"gpu": 2, "runtime": 30}
    for rule, change in rules.items():
        profile["set-resources"][rule] = profile["set-resources"].get(rule, {}) | change
    (project / "profile.yaml").write_text(yaml.safe_dump(profile, sort_keys=False))
    command = [sys.executable, "-m", "transformer", "doctor", "--profile", ".", *options]
    result = cluster.run(*command, cwd=project, env=PROCESSOR, timeout=300)
    assert result.stderr == ""
    lines = result.stdout.splitlines()[:-1]
    assert result.returncode == any(line.startswith("error") for line in lines)
    return lines[next(number for number, line in enumerate(lines) if " Slurm: " in line) :]


def has_line(lines: list[str], pattern: str) -> bool:
    return any(re.match(pattern, line) for line in lines)


def test_a_profile_that_fits_and_gpus_that_torch_does_not_see(cluster, project):
    """Slurm grants two GPUs of a node that do not exist, and PyTorch reports them. No other check fails."""
    lines = doctor(cluster, project, train=TWO_NODES)
    assert [line for line in lines if line.startswith(("warning", "error")) and "GPUs" not in line] == []
    assert has_line(lines, r"error +probe of gpu: GPUs: expected 2, but PyTorch finds 0: .+\. Fix: .+\.")
    assert has_line(lines, r"ok +partition gpu for train, train_parser: offers the requested resources\.")
    assert has_line(lines, r"ok +probe of gpu: packages: all \d+ packages have the versions of requirements.lock\.")
    assert has_line(lines, r"ok +probe of gpu: folder results: ")
    assert list(project.glob(".doctor*")) == []
    cluster.wait_until_idle()


def test_what_the_cluster_does_not_have(cluster, project):
    """Each rule has one fault. All faults are found together, and no job is run."""
    rules = {
        "nowhere": {"slurm_partition": "fast"},
        "long": {"runtime": "3d"},
        "stranger": {"slurm_account": "wrong"},
        "train": {"gpu": 8},
        "large": {"mem_mb": 17000},
    }
    lines = doctor(cluster, project, "--no-probe", **rules)
    expected = [
        r"error +account wrong: not one of your accounts; .* Fix: set slurm_account .* to one of research, root\.",
        r"error +partition fast for nowhere: no such partition\. Fix: set slurm_partition .* to one of cpu, ",
        r"error +partition cpu for long: 4320 minutes requested per node, the limit is 60\. Fix: request up to 60 in",
        r"error +partition gpu for train: 8 GPUs requested per node, the limit is 2\. Fix: request up to 2 in",
        r"error +partition cpu for large: 17000 MB requested per node, the limit is 16000\. Fix: request up to 16000",
    ]
    assert [pattern for pattern in expected if not has_line(lines, pattern)] == []
    assert sum(line.startswith(("warning", "error")) for line in lines) == len(expected)


def test_without_accounting_and_nodes_that_are_not_free(plain_cluster, project):
    """The probe does not start in time and is cancelled."""
    with plain_cluster.popen("srun", "--partition=gpu", "--nodes=2", "--exclusive", "sleep", "600"):
        lines = doctor(plain_cluster, project, "--patience", "5")
        queue = plain_cluster.run("squeue", "--noheader", "--format=%j", timeout=20).stdout.split()
        plain_cluster.clear()
    assert has_line(lines, r"error +probe of gpu: the short job failed: .*\. Fix: .*--patience")
    assert queue == ["sleep"]


def test_a_controller_that_is_down(plain_cluster, project):
    plain_cluster.run("scontrol", "shutdown", "slurmctld", timeout=20)  # it saves its state
    try:
        (line,) = doctor(plain_cluster, project)
    finally:
        plain_cluster.start("slurmctld")
        plain_cluster.wait_until_idle()
    assert re.match(r"error +Slurm: the controller does not answer: .* Fix: wait, or contact the cluster's adm", line)
