"""The Slurm cluster of support/slurm.py: jobs over nodes, GPUs, accounting, daemons that die, nothing left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import slurm
from support.slurm import Cluster, until
from support.tools import needs_cluster

pytestmark = pytest.mark.slow


def test_job_spans_two_nodes_and_sees_its_gpus(any_cluster, tmp_path):
    """A task's working folder is the submitter's, which only srun is told."""
    task = "echo $SLURMD_NODENAME $SLURM_PROCID $CUDA_VISIBLE_DEVICES $(pwd)"
    options = ["--partition=gpu", "--nodes=2", "--gres=gpu:2"]
    done = any_cluster.run("srun", *options, "sh", "-c", task, cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"gpu1 0 0,1 {tmp_path}", f"gpu2 1 0,1 {tmp_path}"]


def test_two_jobs_share_a_node_and_not_a_gpu(any_cluster):
    options = ["--partition=gpu", "--nodelist=gpu1", "--gres=gpu:1"]
    task = ["srun", *options, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 2"]
    both = [any_cluster.popen(*task, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(job.communicate(timeout=60)[0] for job in both) == ["0\n", "1\n"]


def test_exit_code_comes_back(any_cluster):
    assert any_cluster.run("srun", "sh", "-c", "exit 7", timeout=60).returncode == 7


def test_accounting_knows_what_became_of_jobs(cluster):
    cluster.run("srun", "--job-name=remembered", "sh", "-c", "exit 3", timeout=60)
    query = ["sacct", "-X", "--noheader", "--parsable2", "--name=remembered", "--format=State,ExitCode,Account"]
    until(lambda: "FAILED|3:0|research\n" in cluster.run(*query, timeout=20).stdout, "sacct knows the job", 30)


def test_without_accounting_sacct_is_refused(plain_cluster):
    refused = plain_cluster.run("sacct", timeout=20)
    assert refused.returncode == 1
    assert "accounting storage is disabled" in refused.stderr


NAPS = [f"{thousands}000.{os.getpid()}" for thousands in (1, 2, 3)]  # nobody else on the machine sleeps so long


def sleepers(seconds: str) -> list[str]:
    """Return this machine's processes that sleep so long."""
    command = ["sleep", seconds]
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [str(path.parent) for path in lines if arguments(path) == command]


def arguments(path: Path) -> list[str]:
    try:
        return path.read_text().split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def test_signal_reaches_the_command(plain_cluster):
    command = ["sh", "-c", "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.1; done"]
    with plain_cluster.popen(*command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.communicate(timeout=20)[0] == "heard\n"
    assert process.returncode == 5


def test_command_is_killed_at_its_timeout(plain_cluster):
    """So is what it started: the shell's child would sleep on."""
    with pytest.raises(subprocess.TimeoutExpired):
        plain_cluster.run("sh", "-c", f"sleep {NAPS[0]}; true", timeout=1)
    until(lambda: not sleepers(NAPS[0]), "the command has ended", 10)


TOOL = [sys.executable, slurm.__file__]


def tool(*arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([*TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_down_leaves_nothing(tmp_path):
    needs_cluster()
    assert tool("up", tmp_path, "--no-accounting", "--kill-wait", "5").returncode == 0
    assert tool("up", tmp_path, "--no-accounting", "--kill-wait", "5").stdout == "already up\n"
    assert "KillWait                = 5 sec" in tool("run", tmp_path, "scontrol", "show", "config").stdout
    tool("run", tmp_path, "sbatch", "--output=/dev/null", "--wrap", f"trap '' TERM; sleep {NAPS[1]}")
    until(lambda: sleepers(NAPS[1]), "the job runs", 30)
    cgroup = Cluster(tmp_path).cgroup
    assert tool("down", tmp_path).returncode == 0
    assert not sleepers(NAPS[1])
    assert not cgroup.exists()
    assert tool("down", tmp_path).returncode == 0  # there is nothing to do


def test_tool_passes_signals_on_and_ends_as_the_command(plain_cluster):
    script = "trap 'exit 6' TERM; echo ready; while :; do sleep 0.1; done"
    command = [*TOOL, "run", str(plain_cluster.folder), "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
    assert process.returncode == 6


HOLD = """
import sys, time, slurm
with slurm.Cluster(sys.argv[1], accounting=False):
    print("up", flush=True)
    time.sleep(600)
"""


def test_cluster_ends_with_a_killed_test_run(tmp_path):
    """The next cluster removes the cgroup that it leaves, with a frozen job in it."""
    needs_cluster()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "first")]
    with subprocess.Popen(command, cwd=Path(slurm.__file__).parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        first = Cluster(tmp_path / "first")
        first.run("sbatch", "--output=/dev/null", "--wrap", f"sleep {NAPS[2]}", timeout=20)
        until(lambda: sleepers(NAPS[2]), "the job runs", 30)
        for freezer in first.cgroup.rglob("step_*/freezer.state"):
            freezer.write_text("FROZEN")
        process.kill()
    with Cluster(tmp_path / "second", accounting=False) as second:
        assert second.run("srun", "hostname", timeout=60).stdout == "cluster\n"
    assert not first.cgroup.exists()
    until(lambda: not sleepers(NAPS[2]), "the frozen job has ended", 10)
