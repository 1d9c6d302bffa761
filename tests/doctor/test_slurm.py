"""Doctor reads profiles for Slurm and what Slurm prints, and checks a node as its own job would."""

import shutil
import time
from pathlib import Path

import pytest
import yaml
from support.tools import needs

from transformer.config import settings
from transformer.doctor import folders, profile, slurm
from transformer.doctor.machine import installed
from transformer.doctor.node import check_node, check_node_downloads
from transformer.doctor.partitions import AWAY, gpus, options
from transformer.doctor.probe import check_clock
from transformer.files import InputError

ROOT = Path(__file__).parents[2]


def write_profile(folder: Path, **settings) -> Path:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": "slurm"} | settings))
    return folder


def test_what_a_profile_asks_for(tmp_path: Path):
    """Expressions are left out, a job's GPUs are divided among its nodes, a node's are not."""
    settings = {
        "default-resources": {"slurm_partition": "cpu", "slurm_account": "lab", "mem_mb": 500, "runtime": "2d"},
        "set-threads": {"train": 16},
        "set-resources": {
            "train": {"slurm_partition": "gpu", "gpu": 8, "nodes": 2, "mem_mb": "1000 * attempt", "runtime": "90"},
            "train_parser": {"gres": "gpu:h200:4", "launch": "job", "runtime": "60 * attempt", "constraint": "nvlink"},
        },
    }
    default, train, parser = profile.read_profile(write_profile(tmp_path, **settings)).asked
    assert default == profile.Asked("default", "cpu", "lab", 2880, 500, 1, 1, 0, ())
    assert train == profile.Asked("train", "gpu", "lab", 90, None, 16, 2, 4, ())
    # Without threads of its own, a training has those of its GPUs: here `gres` is the site's own word for them.
    assert parser == profile.Asked("train_parser", "cpu", "lab", None, 500, 4, 1, 4, ("--constraint=nvlink",))


def test_a_profile_that_is_written_as_lists(tmp_path: Path):
    settings = {
        "default-resources": ["slurm_partition=cpu", "mem_mb=500"],
        "set-resources": ["train:gpu=2", "train:mem_mb=9"],
    }
    default, train = profile.read_profile(write_profile(tmp_path, **settings)).asked
    assert (default.partition, default.mem_mb, default.gpus) == ("cpu", 500, 0)
    assert (train.partition, train.mem_mb, train.gpus) == ("cpu", 9, 2)


def test_the_profiles_here():
    """Trainings and searches have a GPU, a training some processors and a day, the rest neither."""
    asked = {
        rule.rule: (rule.partition, rule.gpus, rule.nodes, rule.cpus, rule.minutes)
        for rule in profile.read_profile(ROOT / "profiles/slurm").asked
    }
    train, search = ("gpu", 1, 1, 4, 1440), ("gpu", 1, 1, 1, 240)
    assert asked == {
        **{"default": ("cpu", 0, 1, 1, 240), "train": train, "train_parser": train},
        **{"translate": search, "parse": search, "probe": search, "silver_parse": search},
    }
    (job,) = profile.read_profile(ROOT / "profiles/allocation").asked
    assert job == profile.Asked("job", "gpu", None, 1440, None, 64, 1, 8, ())
    with pytest.raises(InputError, match=r"profiles/default/profile.yaml: expected a profile with executor: slurm, or"):
        profile.read_profile(ROOT / "profiles/default")


def test_a_job_that_is_too_small_for_its_profile(tmp_path: Path):
    shutil.copy(ROOT / "profiles/allocation/job", tmp_path)
    (tmp_path / "profile.yaml").write_text("set-resources: {train: {gpu: 9}}")
    with pytest.raises(InputError, match="job: expected 9 GPUs a node, as its profile asks for train, found 8"):
        profile.read_profile(tmp_path)


def test_options_that_are_passed_on(tmp_path: Path):
    rule = {"slurm_extra": "'--signal=USR1@300 --qos=long'", "constraint": "nvlink", "gpu": 2, "gpu_model": "h200"}
    _, train = profile.read_profile(write_profile(tmp_path, **{"set-resources": {"train": rule}})).asked
    assert train.options == ("--constraint=nvlink", "--qos=long")
    assert "--gpus-per-node=h200:2" in options(train, nodes=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("01:00:00", 60), ("2-12:30:00", 3630), ("UNLIMITED", float("inf")), ("90", 90), ("9:30", 9.5), ("1-6", 1800)],
)
def test_times_as_slurm_writes_them(text, expected):
    assert profile.minutes_of_slurm(text) == expected


@pytest.mark.parametrize(
    ("gres", "expected"),
    [("gpu:h200:8(S:0-1)", 8), ("gpu:2", 2), ("gpu:a100:3,gpu:h200:1,nvme:2", 4), ("(null)", 0), ("gpu:rtx_6000:1", 1)],
)
def test_gpus_as_slurm_writes_them(gres, expected):
    assert gpus({"Gres": gres}) == expected


def test_nodes_that_take_no_job_now():
    """A node that was powered down starts on demand."""
    for state in ("IDLE", "MIXED+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_UP"):
        assert not AWAY.search(state)
    for state in ("DOWN", "DOWN+DRAIN", "IDLE+DRAIN", "IDLE*", "IDLE+CLOUD+POWERING_DOWN"):
        assert AWAY.search(state)
    for state in ("DOWN+CLOUD+POWERED_DOWN", "IDLE+MAINT", "IDLE+NOT_RESPONDING"):
        assert AWAY.search(state)


def test_slurms_commands_without_a_cluster(tmp_path: Path, monkeypatch):
    for command in slurm.COMMANDS:
        needs(command, "apt-get install slurm-client")
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    finding = slurm.check_commands()
    assert (finding.level, "its commands do not work: sinfo: " in finding.message) == ("error", True)


# A node.


def order(place: Path) -> dict:
    """Return what a probe's job is started with."""
    files = {"files": [], "entries": [], "mirror": "", "submits": True}
    return {"place": str(place), "token": "mine", "gpus": 0, "cpus": 1} | files


def test_a_node_that_does_not_see_the_login_nodes_files(project: Path, monkeypatch):
    monkeypatch.setattr(folders, "SEEN_WITHIN", 0.1)
    _, result = check_node(order(project / "absent"))
    (finding,) = result["findings"]
    assert (finding["level"], result["versions"]) == ("error", {})
    assert "is not the folder that it is on the login node" in finding["message"]


def test_a_node_where_a_lock_of_the_login_node_does_not_hold(project: Path):
    """Nobody holds the lock, as it seems to a node whose locks are its own."""
    (project / "login").write_text("mine")
    greeting, result = check_node(order(project))
    assert abs(greeting["time"] - time.time()) < 60
    problems = [finding["message"] for finding in result["findings"] if finding["subject"] == "files"]
    assert [problem.split(":")[0] for problem in problems] == ["a lock of the login node does not hold here"]
    assert result["versions"]["torch"] == installed(["torch"])["torch"]


def test_a_node_that_cannot_fetch(project: Path):
    """This matters where Snakemake itself runs on the node, in one job that holds everything."""
    config = settings.read([], ["scale=multi30k"])
    mirror = str(project / "absent")
    assert [finding.level for finding in check_node_downloads(config, mirror, submits=True)] == ["note"]
    assert {finding.level for finding in check_node_downloads(config, mirror, submits=False)} == {"error"}


@pytest.mark.parametrize(("submits", "level"), [(True, "note"), (False, "error")])
def test_a_node_that_does_not_see_what_was_made_elsewhere(project: Path, submits, level):
    source = f"from: {{path: absent, sha256: '{'0' * 64}'}}"
    config = settings.read([], [f"scales={{demo: {{tasks: {{en-de: {{{source}}}}}}}}}"])
    assert [finding.level for finding in check_node_downloads(config, "", submits)] == [level]


@pytest.mark.parametrize(("skew", "expected"), [(0.5, "ok"), (-0.5, "ok"), (3.0, "error"), (-3.0, "error")])
def test_the_clock_of_a_node(skew, expected):
    assert check_clock(skew).level == expected
