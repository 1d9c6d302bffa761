"""Doctor reads profiles for Slurm and what Slurm prints. tests/cluster has a real one."""

from pathlib import Path

import pytest
import yaml

from transformer.commands import doctor as slurm
from transformer.files import InputError

ROOT = Path(__file__).parents[2]


def jobs(folder: Path, **settings) -> dict[str, dict]:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": "slurm"} | settings))
    return slurm.read_profile(folder)


def test_what_a_profile_asks_for(tmp_path: Path):
    """Expressions are left out, a job's GPUs are divided among its nodes, a node's are not."""
    settings = {
        "default-resources": {"slurm_partition": "cpu", "slurm_account": "lab", "mem_mb": 500, "runtime": "2d"},
        "set-threads": {"train": 16},
        "set-resources": {
            "train": {"slurm_partition": "gpu", "gpu": 8, "nodes": 2, "mem_mb": "1000 * attempt", "runtime": "90"},
            "train_parser": {"gres": "gpu:h200:4", "launch": "job", "runtime": "60 * attempt", "constraint": "nvlink"},
            "parse": {"slurm_extra": "'--signal=USR1@300 --qos=long'", "gpu": 2, "gpu_model": "h200"},
        },
    }
    one = {"partition": "cpu", "account": "lab", "time": 2880, "mem": 500, "nodes": 1, "ntasks": 1, "cpus-per-task": 1}
    two = one | {"partition": "gpu", "time": 90, "nodes": 2, "ntasks": 2, "cpus-per-task": 16, "gpus-per-node": "4"}
    del two["mem"]
    # Without threads of its own, a training has those of its GPUs.
    parser = one | {"cpus-per-task": 4, "gpus-per-node": "4", "constraint": "nvlink"}
    del parser["time"]
    parse = one | {"gpus-per-node": "h200:2", "qos": "long"}
    assert jobs(tmp_path, **settings) == {"default": one, "train": two, "train_parser": parser, "parse": parse}


def test_the_profiles_here():
    """Trainings and searches have a GPU, a training some processors and a day, the rest neither."""
    asked = {
        rule: (job["partition"], job.get("gpus-per-node"), job["nodes"], job["cpus-per-task"], job["time"])
        for rule, job in slurm.read_profile(ROOT / "profiles/slurm").items()
    }
    assert asked.pop("default") == ("cpu", None, 1, 1, 240)
    assert asked.pop("train") == asked.pop("train_parser") == ("gpu", "1", 1, 4, 1440)
    assert set(asked.values()) == {("gpu", "1", 1, 1, 240)}
    with pytest.raises(InputError, match=r"profiles/default/profile.yaml: expected executor: slurm"):
        slurm.read_profile(ROOT / "profiles/default")


@pytest.mark.parametrize(
    ("text", "expected"), [("1:00:00", 60), ("2-12:30:00", 3630), ("infinite", float("inf")), ("9:30", 9.5)]
)
def test_times_as_slurm_writes_them(text, expected):
    assert slurm.slurm_minutes(text) == expected


@pytest.mark.parametrize(
    ("gres", "expected"),
    [("gpu:h200:8(S:0-1)", 8), ("gpu:2", 2), ("gpu:a100:3,gpu:h200:1,nvme:2", 4), ("(null)", 0), ("gpu:rtx_6000:1", 1)],
)
def test_gpus_as_slurm_writes_them(gres, expected):
    assert slurm.count_gpus(gres) == expected


def test_nodes_that_take_no_job_now(monkeypatch):
    """A node that was powered down starts on demand."""
    states = ["idle", "mixed", "idle~", "down~", "down", "down*", "drained", "idle*", "maint", "powering_down%"]
    lines = "".join(f"cpu*|1:00:00|4|8000|(null)|up|{state}\n" for state in states)
    monkeypatch.setattr(slurm, "ask", lambda *_: type("Answer", (), {"stdout": lines}))
    assert [node.up for node in slurm.read_nodes() if node.partition == "cpu"] == [True] * 4 + [False] * 6


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = slurm.check_cluster({}, 1, results=None)
    assert str(finding).startswith("error   Slurm: no sbatch, srun, scontrol, scancel, sinfo, sacctmgr on PATH. Fix: ")
