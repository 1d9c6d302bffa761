"""Doctor on a real Slurm cluster names each fault of a profile or of the cluster, with what mends it."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from support.slurm import Cluster
from support.toy import PROCESSOR

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# What a user of this cluster changes for trainings, and for all other jobs.
SITE = {"slurm_partition": "gpu", "gpu": 2, "runtime": 30}
DEFAULT = {"slurm_account": "research", "runtime": 30}
TWO_NODES = {"gpu": 4, "nodes": 2, "tasks": 2, "mpi": "srun"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that doctor takes for the project's."""
    for name in ("config.yaml", "requirements.lock", "workflow", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def adapted(changes: dict | None = None, **rules: dict) -> dict:
    """Return profiles/slurm as a user adapts it to this cluster, with changes of the profile and of its rules."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    profile["default-resources"] |= DEFAULT
    resources = profile["set-resources"]
    for rule in ("train", "train_parser"):
        resources[rule] |= SITE
        profile.setdefault("set-threads", {})[rule] = 2
    for rule, change in rules.items():
        resources[rule] = resources.get(rule, {}) | change
    return profile | (changes or {})


def doctor(cluster: Cluster, project: Path, profile: dict, *options: str) -> list[str]:
    """Return the lines that doctor prints about the cluster with this profile."""
    (project / "slurm").mkdir(exist_ok=True)
    (project / "slurm/profile.yaml").write_text(yaml.safe_dump(profile, sort_keys=False))
    return doctor_in(cluster, project, "slurm", *options)


def doctor_in(cluster: Cluster, project: Path, folder: str, *options: str) -> list[str]:
    """Return the lines that doctor prints about the cluster with the profile in a folder."""
    command = [sys.executable, "-m", "transformer", "doctor", "--profile", folder, *options]
    result = cluster.run(*command, cwd=project, env=PROCESSOR, timeout=300)
    assert result.stderr == ""
    lines = result.stdout.splitlines()[:-1]
    assert result.returncode == any(line.startswith("error") for line in lines)
    return lines[next(number for number, line in enumerate(lines) if " Slurm: " in line) :]


def problems(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("warning", "error"))]


def has_line(lines: list[str], pattern: str) -> bool:
    """Return whether a line begins with the pattern."""
    return any(re.match(pattern, line) for line in lines)


def test_a_profile_that_fits_and_gpus_that_torch_does_not_see(cluster, project):
    """Slurm grants a node's two GPUs, which do not exist: PyTorch says so. All else is well; nothing is left behind."""
    lines = doctor(cluster, project, adapted(train=TWO_NODES))
    assert len(problems(lines)) == 1
    assert has_line(lines, r"error +probe of gpu: GPUs: 2 asked for, PyTorch sees 0: .+\. Fix: .+\.")
    assert has_line(lines, r"ok +account research: root has it\.")
    assert has_line(lines, r"ok +job status: asked of squeue, which remembers ended jobs for 3600 s \(MinJobAge\)\.")
    assert has_line(lines, r"ok +partition gpu for train: takes such a job, which now would start at \d{4}-")
    assert has_line(lines, r"ok +partition gpu for train_parser: takes such a job")
    assert has_line(lines, r"ok +partition gpu for translate, parse, probe, silver_parse: takes such a job")
    assert has_line(lines, r"ok +probe of cpu: node cpu1, clock, files, packages, .*downloads as they must be\.")
    assert list(project.glob(".doctor*")) == []
    cluster.wait_until_idle()


def test_what_the_cluster_does_not_have(cluster, project):
    """Each rule has one fault; all are found at once, and no job is run."""
    rules = {
        "nowhere": {"slurm_partition": "fast"},
        "long": {"runtime": "3d"},
        "stranger": {"slurm_account": "wrong"},
        "train": {"gpu": 8},
        "train_parser": {"gpu": 3, "nodes": 3},
        "large": {"mem_mb": 9000},
        "parse": {"gpu_model": "h100"},
    }
    found = problems(doctor(cluster, project, adapted(**rules), "--no-probe"))
    expected = [
        r"account wrong: not one of root's: .* Fix: slurm_account in the profile: one of research, root\.",
        r"partition fast for nowhere: there is none .* Fix: slurm_partition in the profile: one of cpu, .*preempt",
        r"partition cpu for long: runtime 4320 min, the partition's MaxTime is 60: .* Fix: runtime: 60 in the profile",
        r"partition gpu for train: 8 GPUs a node, its largest has 2\. Fix: at most 2 in the profile",
        r"partition gpu for train_parser: 3 such nodes, it has 2\. Fix: nodes: 2 in the profile",
        r"partition cpu for large: 9000 MB of memory a node, its largest has 8000\. Fix: at most 8000",
        r"partition gpu for parse: Slurm refuses such a job: ",
    ]
    assert [pattern for pattern in expected if not has_line(found, f"error +{pattern}")] == []
    assert len(found) == len(expected)


def test_the_profile_as_it_is_asks_for_more_than_this_cluster_has(cluster, project):
    """Its times exceed the limits of the partitions."""
    found = problems(doctor_in(cluster, project, "profiles/slurm", "--no-probe"))
    assert has_line(found, r"error +partition gpu for train, train_parser: runtime 1440 min, .* MaxTime is 60:")
    assert has_line(found, r"error +partition cpu for default: runtime 240 min, the partition's MaxTime is 60:")
    assert not [line for line in found if " partition " not in line]


def test_one_job_for_everything(cluster, project):
    """The job of profiles/allocation is checked, as it is and as this cluster could run it."""
    found = problems(doctor_in(cluster, project, "profiles/allocation", "--no-probe"))
    assert has_line(found, r"error +partition gpu for job: 8 GPUs a node, its largest has 2\.")
    assert has_line(found, r"error +partition gpu for job: runtime 1440 min, the partition's MaxTime is 60:")
    here = project / "allocation"
    here.mkdir()
    script = (ROOT / "profiles/allocation/job").read_text()
    for old, new in (("gpus-per-node=8", "gpus-per-node=2"), ("task=64", "task=4"), ("=24:00:00", "=30")):
        assert old in script
        script = script.replace(old, new)
    (here / "job").write_text(script)
    profile = yaml.safe_load((ROOT / "profiles/allocation/profile.yaml").read_text())
    profile["set-threads"] = {"train": 4, "train_parser": 4}
    for rule in profile["set-threads"]:
        profile["set-resources"][rule]["gpu"] = 2
    (here / "profile.yaml").write_text(yaml.safe_dump(profile, sort_keys=False))
    lines = doctor_in(cluster, project, "allocation", "--no-probe")
    assert problems(lines) == []
    assert has_line(lines, r"ok +partition gpu for job: takes such a job")
    assert not has_line(lines, r".* job status:")  # Snakemake does not ask Slurm


def by_sacct(**rules: dict) -> dict:
    profile = adapted(**rules)
    del profile["slurm-status-command"]
    return profile


def test_ways_to_wait_for_ever(cluster, project):
    """Ended jobs are forgotten too soon; sacct is asked, which hides cancelled jobs."""
    slow = adapted({"slurm-init-seconds-before-status-checks": 1201})
    assert has_line(
        doctor(cluster, project, slow, "--no-probe"),
        r"warning job status: .* 3600 s \(MinJobAge\), .* 1201 needs 3603: .* Fix: slurm-init-.*-checks: 1200 in",
    )
    assert has_line(
        doctor(cluster, project, by_sacct(), "--no-probe"),
        r"warning job status: asked of sacct: after scancel, .* Fix: slurm-status-command: squeue in the profile\.",
    )


def test_without_accounting(plain_cluster, project):
    profile = adapted()
    del profile["default-resources"]["slurm_account"]
    lines = doctor(plain_cluster, project, profile, "--no-probe")
    assert problems(lines) == []
    assert has_line(lines, r"note +accounting: none \(.*disabled.*\); squeue tells what became of a job\.")
    lines = doctor(plain_cluster, project, by_sacct(), "--no-probe")
    assert has_line(
        lines, r"error +job status: the profile asks sacct, which does not answer: .* Fix: slurm-status-command"
    )
    assert has_line(lines, r"note +account research: nothing is known of accounts: jobs are submitted without one\.")


def test_a_controller_that_is_down(cluster, project):
    cluster.kill("slurmctld")
    try:
        lines = doctor(cluster, project, adapted())
    finally:
        cluster.start("slurmctld")
        cluster.wait_until_idle()
    assert has_line(lines[1:], r"error +controller: does not answer: .* Fix: wait, or tell who runs the cluster")
    assert len(lines) == 2


def test_a_node_that_is_not_free(cluster, project):
    """Doctor shows why the probe waits, and withdraws it."""
    with cluster.popen("srun", "--partition=cpu", "--exclusive", "sleep", "600") as occupier:
        lines = doctor(cluster, project, adapted(), "--patience", "5")
        queue = cluster.run("squeue", "--noheader", "--format=%j", timeout=20).stdout.split()
        occupier.terminate()
    assert has_line(
        lines, r"error +probe of cpu: start: did not start within 5 s: PENDING, (Resources|Priority)\. Fix: "
    )
    assert queue == ["sleep"]
    cluster.wait_until_idle()


def test_a_node_that_is_down(cluster, project):
    """Jobs that need both nodes wait for it."""
    cluster.run("scontrol", "update", "nodename=gpu2", "state=drain", "reason=test", timeout=20)
    try:
        lines = doctor(cluster, project, adapted(train=TWO_NODES), "--no-probe")
    finally:
        cluster.run("scontrol", "update", "nodename=gpu2", "state=resume", timeout=20)
        cluster.wait_until_idle()
    assert has_line(
        lines, r"warning partition gpu for train: 2 such nodes, 1 are up now: jobs wait for them\. Fix: sinfo -R"
    )


ELSEWHERE = """
import sys
from transformer.__main__ import main
sys.executable = "/nowhere/python"
main(sys.argv[1:])
"""


def test_a_node_that_does_not_find_python(cluster, project):
    """This happens where the environment lies on the login node's own disk."""
    (project / "profile.yaml").write_text(yaml.safe_dump(adapted(), sort_keys=False))
    command = [sys.executable, "-c", ELSEWHERE, "doctor", "--profile", "."]
    lines = cluster.run(*command, cwd=project, env=PROCESSOR, timeout=100).stdout.splitlines()
    assert has_line(
        lines, r"error +probe of cpu: start: did not run: .*/nowhere/python: No such file or directory\. Fix: "
    )
