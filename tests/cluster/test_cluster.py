"""The Slurm cluster of support/slurm.py: jobs over nodes, GPUs, accounting, signals, nothing left behind."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.slurm import until

pytestmark = pytest.mark.slow
NAP = f"1000.{os.getpid()}"  # nobody else on the machine sleeps so long


def test_job_spans_two_nodes_and_sees_its_gpus(any_cluster, tmp_path):
    """A task's working folder is the submitter's, which only srun is told."""
    task = "echo $SLURMD_NODENAME $SLURM_PROCID $CUDA_VISIBLE_DEVICES $(pwd)"
    options = ["--partition=gpu", "--nodes=2", "--gres=gpu:2"]
    done = any_cluster.run("srun", *options, "sh", "-c", task, cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"gpu1 0 0,1 {tmp_path}", f"gpu2 1 0,1 {tmp_path}"]


def test_accounting_knows_what_became_of_jobs(cluster, plain_cluster):
    assert cluster.run("srun", "--job-name=remembered", "sh", "-c", "exit 3", timeout=60).returncode == 3
    query = ["sacct", "-X", "--noheader", "--parsable2", "--name=remembered", "--format=State,ExitCode,Account"]
    until(lambda: "FAILED|3:0|research\n" in cluster.run(*query, timeout=20).stdout, "sacct knows the job", 30)
    assert "accounting storage is disabled" in plain_cluster.run("sacct", timeout=20).stderr


def test_signal_reaches_the_command_which_is_killed_at_its_timeout(plain_cluster):
    """So is what it started: the shell's child would sleep on."""
    command = ["sh", "-c", "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.1; done"]
    with plain_cluster.popen(*command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.communicate(timeout=20)[0] == "heard\n"
    assert process.returncode == 5
    with pytest.raises(subprocess.TimeoutExpired):
        plain_cluster.run("sh", "-c", f"sleep {NAP}; true", timeout=1)
    until(lambda: not sleepers(), "the command has ended", 10)


def sleepers() -> list[Path]:
    """Return this machine's processes that sleep so long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] * (path.read_text().split("\0")[:-1] == ["sleep", NAP])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
