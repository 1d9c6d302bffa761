"""Disturbed trainings as jobs of a real Slurm cluster, through Snakemake and the project's profiles.

After every disturbance, the weights equal those of an undisturbed training, bit for bit.
"""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, RUN, SUBMITTING, TRAINED, slow_down, snakemake, write_profile
from support.slurm import Cluster, until

pytestmark = pytest.mark.slow
OWN = ["--configfile", "own.yaml", "long.yaml", "--config", "scale=mine"]
SITE = {"slurm_partition": "gpu", "gpu": 1, "nodes": 1, "runtime": 10}  # a user changes these values of the profile
SIGNAL = "'--signal=USR1@60 --open-mode=append'"


@pytest.fixture
def project(prepared, tmp_path) -> Path:
    return shutil.copytree(prepared, tmp_path / "project")


@pytest.fixture(scope="module")
def weights(prepared, tmp_path_factory):
    """Return a function that trains here without a disturbance and returns the weights, once per training."""
    known = {}

    def train(processes: int = 1, run: str = RUN) -> bytes:
        if (processes, run) not in known:
            project = shutil.copytree(prepared, tmp_path_factory.mktemp("undisturbed") / "project")
            slow_down(project, 0)
            trained = f"{run}/last.safetensors"
            result = snakemake(project, *OWN, "--set-resources", f"train:gpu={processes}", "--", trained)
            assert result.returncode == 0, result.stderr
            known[processes, run] = (project / trained).read_bytes()
        return known[processes, run]

    return train


class Workflow:
    """Snakemake in the cluster, with an adapted profile."""

    def __init__(self, cluster: Cluster, project: Path, profile: str = "slurm", **train):
        self.cluster, self.project = cluster, project
        adapt(project, profile, train)
        self.start()

    def start(self, *arguments: str) -> None:
        command = [*SUBMITTING, "--workflow-profile", "profiles/here", *arguments, *OWN, "--", TRAINED]
        self.output = self.project / f"output-{time.time_ns()}"
        with self.output.open("w") as output:
            self.process = self.cluster.popen(
                *command, cwd=self.project, env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT
            )

    def log(self) -> str:
        return self.output.read_text()

    def job(self) -> str:
        """Return the number of the newest job."""
        until(lambda: re.search(r"SLURM jobid (\d+)", self.log()) or self.process.poll() is not None, "a job", 60)
        return re.findall(r"SLURM jobid (\d+)", self.log())[-1]

    def saved(self) -> str:
        """Wait until the job has saved a state. Return its number."""
        job = self.job()
        until(lambda: list((self.project / RUN).glob("state/*/state/*.safetensors")), self.log(), 120)
        return job

    def state(self, job: str) -> str:
        """Return a job's state, reason and nodes from the controller."""
        query = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T %r %N"]
        return self.cluster.run(*query, timeout=20).stdout.strip()

    def control(self, *command: str) -> None:
        done = self.cluster.run(*command, timeout=30)
        assert done.returncode == 0, done.stderr

    def ends_well(self, expected: bytes, starts: int = 2) -> None:
        """Wait for the job's success. Check the weights and the number of starts."""
        assert self.process.wait(timeout=420) == 0, self.log()
        assert (self.project / TRAINED).read_bytes() == expected
        assert len(json.loads((self.project / RUN / "run.json").read_text())["starts"]) == starts


def adapt(project: Path, name: str, train: dict) -> None:
    """Write profiles/here: the named profile, with this cluster's partition, GPUs and time."""
    profile = yaml.safe_load((project / f"profiles/{name}/profile.yaml").read_text())
    profile["set-resources"]["train"] |= SITE | {"slurm_extra": SIGNAL} | train
    profile["set-threads"] = {"train": 1}
    profile.get("default-resources", {})["runtime"] = 10
    write_profile(project, profile)


@pytest.fixture
def begin(cluster, project):
    """Return a function that starts a training as a job. Afterwards make the cluster idle."""
    started = []

    def start(**train) -> Workflow:
        started.append(Workflow(cluster, project, **train))
        return started[-1]

    yield start
    for workflow in started:
        workflow.process.kill()
        workflow.process.wait()
    cluster.clear()


class TestTime:  # the test mostly waits, so it runs in parallel to other tests
    def test_time_limit(self, begin, project, weights):
        """Slurm sends its signal before a real limit of two minutes. The same job resumes as often as needed."""
        slow_down(project, 0.4)
        workflow = begin(runtime=2, slurm_extra=SIGNAL.replace("60", "30"))
        job, expected = workflow.job(), weights()
        assert workflow.process.wait(timeout=1200) == 0, workflow.log()
        starts = len(json.loads((project / RUN / "run.json").read_text())["starts"])
        assert starts > 1
        assert workflow.job() == job
        workflow.ends_well(expected, starts)


def test_two_nodes(begin, project, weights):
    """Two nodes with a process each receive a signal in the middle. One process writes the state, and both resume."""
    workflow = begin(gpu=2, nodes=2, tasks=2, mpi="srun", slurm_extra=f"{SIGNAL[:-1]} --gpus-per-node=1'")
    job = workflow.saved()
    assert "gpu[1-2]" in workflow.state(job)
    workflow.control("scancel", "--signal=USR1", job)
    workflow.ends_well(weights(processes=2))
    assert workflow.job() == job
    starts = json.loads((project / RUN / "run.json").read_text())["starts"]
    assert [start["processes"] for start in starts] == [2, 2]


def test_cancelled(begin, weights):
    """A user's `scancel` is an error without a requeue. Snakemake's retry is a new job that resumes the training."""
    workflow = begin()
    job = workflow.saved()
    workflow.control("scancel", job)
    workflow.ends_well(weights())
    assert workflow.state(job).startswith("CANCELLED")
    assert workflow.job() != job


@pytest.mark.parametrize("partition", ["preempt", "grace"])
def test_preempted(begin, cluster, weights, partition):
    """Slurm requeues a preempted training. A training that exits within its grace time requeues itself."""
    workflow = begin(slurm_partition=partition)
    job = workflow.saved()
    first = cluster.run("srun", "--partition=gpu", "--nodes=2", "--exclusive", "hostname", timeout=120)
    assert first.returncode == 0, first.stderr
    workflow.ends_well(weights())
    assert workflow.job() == job


def test_node_taken_down(begin, weights):
    """Slurm restarts the job on another node."""
    workflow = begin()
    job = workflow.saved()
    node = workflow.state(job).split()[-1]
    workflow.control("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    workflow.ends_well(weights())
    assert workflow.job() == job


def test_snakemake_killed(begin, project, weights):
    """The job survives Snakemake. A restarted Snakemake submits a job that waits for the first and trains nothing."""
    workflow = begin()
    job = workflow.saved()
    workflow.process.kill()
    workflow.process.wait()
    assert snakemake(project, "--unlock", *OWN).returncode == 0
    workflow.start()
    workflow.ends_well(weights(), starts=1)
    assert workflow.job() != job
    (job_log,) = project.glob(f"logs/slurm/*/*/{workflow.job()}.log")
    assert f"is locked by job {job}, process" in job_log.read_text()
    assert "already trained: " in job_log.read_text()


def test_everything_in_one_job(cluster, project, weights):
    """Two trainings are steps of a job on two nodes. The job reaches its time limit, and translations follow."""
    adapt(project, "allocation", {})
    (project / "profiles/here/profile.yaml").rename(project / "profiles/allocation/profile.yaml")
    runs = [RUN, RUN.replace("base", "heads-1")]
    options = ["--parsable", "--nodes=2", "--cpus-per-task=4", "--gpus-per-node=2", "--mem=6000", "--time=20"]
    targets = [f"{run}/{split}.last.hyp" for run in runs for split in ("dev", "test")]
    submit = ["sbatch", *options, "--output=job.log", "profiles/allocation/job", *OWN, "--", *targets]
    submitted = cluster.run(*submit, cwd=project, env=ENVIRONMENT, timeout=30)
    assert submitted.returncode == 0, submitted.stderr
    job, log = submitted.stdout.strip(), project / "job.log"
    try:
        for run in runs:
            until(lambda run=run: list((project / run).glob("state/*/state/*.safetensors")), "no state", 180)
        steps = cluster.run("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i %N %b", timeout=20).stdout
        started = re.findall(r"^\S+\.\d+ (.*\S)", steps, re.MULTILINE)  # steps started by srun
        assert sorted(started) == ["gpu1 gres:gpu:1", "gpu2 gres:gpu:1"]
        assert cluster.run("scancel", "--batch", "--signal=USR1", job, timeout=20).returncode == 0
        query = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"]
        until(lambda: cluster.run(*query, timeout=20).stdout.strip() == "COMPLETED", log, 300)
    finally:
        cluster.clear()
    starts = [json.loads((project / run / "run.json").read_text())["starts"] for run in runs]
    assert [len(entries) for entries in starts] == [2, 2], log.read_text()
    assert [(project / run / "last.safetensors").read_bytes() for run in runs] == [weights(run=run) for run in runs]
    assert all((project / target).stat().st_size for target in targets)
