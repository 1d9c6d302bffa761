"""Doctor finds real faults of this machine, each with its fix, and none if all is well; and reads Slurm's profiles."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.server import Handler, serving, status
from support.toy import PROCESSOR

from transformer import cli
from transformer import doctor as machine
from transformer.commands import doctor as slurm
from transformer.config import settings
from transformer.pipeline.plan import LINE
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    """Return the working folder, which has what doctor reads."""
    for name in ("config.yaml", "requirements.lock", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_a_machine_that_is_well(project: Path):
    """Every line is a finding, and nothing is left behind. How much space is free is the machine's own affair."""
    before = set(project.iterdir())
    command = [sys.executable, "-m", "transformer", "doctor"]
    result = subprocess.run(command, env=PROCESSOR, capture_output=True, text=True)
    *lines, summary = result.stdout.splitlines()
    found = [re.fullmatch(rf"({'|'.join(machine.LEVELS)}) +(.+?): .*\.", line).groups() for line in lines]
    assert {"packages", "GPUs", "folder results", "folder resources", "downloads"} <= {subject for _, subject in found}
    assert [line for line in lines if line.startswith("error") and "free" not in line] == []
    assert summary == ", ".join(f"{[level for level, _ in found].count(level)} {level}" for level in machine.LEVELS)
    assert result.returncode == ("error" in dict(found))
    assert set(project.iterdir()) == before


def test_packages_that_differ_or_are_missing(tmp_path: Path, monkeypatch):
    """The first of two installations counts; a build's suffix does not."""
    lock = tmp_path / "lock"
    lock.write_text("# comment\nnumpy==2.4.6\nno-such-package==1.0\nbuilt==2.0\n")
    for name, version in (("numpy", "1.0"), ("built", "2.0+cpu")):
        about = tmp_path / f"{name}-{version}.dist-info/METADATA"
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    finding = str(machine.check_packages(lock))
    assert finding.startswith(
        "error   packages: 2 of 3 differ from lock, such as numpy 1.0, not 2.4.6; no-such-package "
    )


def test_devices_that_torch_cannot_reach(monkeypatch):
    """A driver has a device and no GPU answers, as if PyTorch or the driver is the wrong one."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for asked, visible, expected in ((None, "0", ["error"]), (3, "", ["error"]), (None, "", ["ok"]), (0, "", ["ok"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert levels(machine.check_gpus(asked)) == expected


def test_a_folder_that_is_too_small_or_cannot_lock_files(tmp_path: Path, monkeypatch):
    assert machine.check_folder(tmp_path / "not" / "yet", 2**60).level == "error"
    assert str(machine.check_folder(tmp_path / "not" / "yet")).startswith("ok      folder ")

    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert "expected a file system that can lock files" in machine.check_folder(tmp_path).message


def test_space_for_a_scale_is_what_its_plan_says_less_what_is_here(project: Path, capsys):
    """One disk has to hold everything; a file with two names takes space once."""
    config = settings.read([], ["scale=paper"])
    cli.main(["plan", "--config", "scale=paper", "--gpu", "h200"])
    (total,) = re.search(r"^disk, at most +([\d.]+) GB", capsys.readouterr().out, re.MULTILINE).groups()
    whole = sum(machine.needed_space(config).values())
    assert whole == pytest.approx(float(total) * 1e9, rel=0.05)
    for name in ("results/paper", "results/demo", "resources/corpora", "resources/downloads"):
        Path(name).mkdir(parents=True)
    Path("results/paper/state").write_bytes(bytes(5000))
    os.link("results/paper/state", "results/paper/again")
    Path("results/demo/other").write_bytes(bytes(7000))
    Path("resources/downloads/training-giga-fren.tar").touch()
    Path("resources/corpora/newstest2013.fr").touch()
    archive = config["downloads"]["training-giga-fren.tar"]["size"]
    assert whole - sum(machine.needed_space(config).values()) == 5000 + archive + 3000 * LINE


def test_downloads_from_servers(monkeypatch):
    """One address that answers is enough."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(Handler, "do_HEAD", Handler.do_GET, raising=False)
    monkeypatch.setattr(machine, "ANSWER_SECONDS", 0.3)
    with serving() as server:
        server.script = {"/a": [status(200)], "/gone": [status(404)] * 2, "/slow": [lambda _: server.over.wait()]}
        good, gone, slow = (f"{server.address}/{name}" for name in ("a", "gone", "slow"))
        assert machine.refusal({"urls": [gone], "alternatives": [{"urls": [good]}]}, "") is None
        assert machine.refusal({"urls": [gone]}, "") == f"{gone}: HTTP 404 Not Found"
        assert "timed out" in machine.refusal({"urls": [slow]}, "").lower()
    assert "refused" in machine.refusal({"urls": ["http://127.0.0.1:9/a"]}, "")


def test_what_a_scale_needs(project: Path):
    config = settings.read([], ["scale=multi30k"])
    assert len(missing := machine.missing_downloads(config)) == 10
    machine.RESOURCES.download("gum.tar.gz").parent.mkdir(parents=True)
    machine.RESOURCES.download("gum.tar.gz").write_bytes(b"here")
    assert missing.keys() - machine.missing_downloads(config) == {"gum.tar.gz"}
    assert levels(machine.check_downloads(config | {"mirror": "nowhere"})) == ["error"] * 9


# Slurm, without a cluster: tests/cluster has a real one.


def jobs(folder: Path, **settings) -> dict[str, dict]:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": "slurm"} | settings))
    return slurm.read_profile(folder, {"train": 8000, "parse": 900, "encode": 700, "table": 800})


def test_what_a_profile_asks_for(tmp_path: Path):
    """Expressions are left out, a job's GPUs are divided among its nodes, a node's are not; memory is the rules'."""
    settings = {
        "default-resources": {"slurm_partition": "cpu", "slurm_account": "lab", "runtime": "2d"},
        "set-threads": {"train": 16},
        "set-resources": {
            "train": {"slurm_partition": "gpu", "gpu": 8, "nodes": 2, "mem_mb": "1000 * attempt", "runtime": "90"},
            "train_parser": {"gres": "gpu:h200:4", "launch": "job", "runtime": "60 * attempt", "constraint": "nvlink"},
            "parse": {"slurm_extra": "'--signal=USR1@300 --qos=long'", "gpu": 2, "gpu_model": "h200"},
        },
    }
    one = {"partition": "cpu", "account": "lab", "time": 2880, "mem": 800, "nodes": 1, "ntasks": 1, "cpus-per-task": 1}
    two = one | {"partition": "gpu", "time": 90, "nodes": 2, "ntasks": 2, "cpus-per-task": 16, "gpus-per-node": "4"}
    del two["mem"]
    # Without threads of its own, a training has those of its GPUs.
    parser = one | {"cpus-per-task": 4, "gpus-per-node": "4", "constraint": "nvlink"}
    del parser["time"], parser["mem"]
    parse = one | {"mem": 900, "gpus-per-node": "h200:2", "qos": "long"}
    assert jobs(tmp_path, **settings) == {"default": one, "train": two, "train_parser": parser, "parse": parse}
    with pytest.raises(InputError, match=r"profiles/default: expected a profile with executor: slurm"):
        slurm.read_profile(ROOT / "profiles/default", {})


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (slurm.slurm_minutes, {"1:00:00": 60, "2-12:30:00": 3630, "infinite": float("inf"), "9:30": 9.5}),
        (slurm.count_gpus, {"gpu:h200:8(S:0-1)": 8, "gpu:2": 2, "gpu:a100:3,gpu:h200:1,nvme:2": 4, "(null)": 0}),
        (slurm.count_gpus, {"gpu:rtx_6000:1": 1}),
    ],
)
def test_times_and_gpus_as_slurm_writes_them(read, texts):
    assert {text: read(text) for text in texts} == texts
