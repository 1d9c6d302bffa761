"""Doctor reports each real fault of this machine with a fix, and none on a sound machine. It reads Slurm profiles."""

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
from transformer.commands import cluster, doctor
from transformer.commands.plan import _LINE_BYTES
from transformer.config import settings
from transformer.config.schema import Bytes, Download
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    for name in ("config.yaml", "requirements.lock", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_a_machine_that_is_well(project: Path):
    """Every line is a finding, and no file is left behind. The free space depends on the machine."""
    before = set(project.iterdir())
    command = [sys.executable, "-m", "transformer", "doctor"]
    result = subprocess.run(command, env=PROCESSOR, capture_output=True, text=True)
    *lines, summary = result.stdout.splitlines()
    found = [re.fullmatch(rf"({'|'.join(cluster.LEVELS)}) +(.+?): .*\.", line).groups() for line in lines]
    assert {"packages", "GPUs", "folder results", "folder resources", "downloads"} <= {subject for _, subject in found}
    assert [line for line in lines if line.startswith("error") and "free" not in line] == []
    assert summary == ", ".join(f"{[level for level, _ in found].count(level)} {level}" for level in cluster.LEVELS)
    assert result.returncode == ("error" in dict(found))
    assert set(project.iterdir()) == before


def test_packages_that_differ_or_are_missing(tmp_path: Path, monkeypatch):
    """The first of two installations counts. A build's suffix is ignored."""
    lock = tmp_path / "lock"
    lock.write_text("# comment\nnumpy==2.4.6\nno-such-package==1.0\nbuilt==2.0\n")
    for name, version in (("numpy", "1.0"), ("built", "2.0+cpu")):
        about = tmp_path / f"{name}-{version}.dist-info/METADATA"
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    finding = str(doctor._check_packages(lock))
    assert finding.startswith(
        "error   packages: 2 of 3 differ from lock, such as numpy 1.0, not 2.4.6; no-such-package "
    )


def test_devices_that_torch_cannot_reach(monkeypatch):
    """A driver has a device but no GPU responds, for example with a wrong PyTorch or driver."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for asked, visible, expected in ((None, "0", ["error"]), (3, "", ["error"]), (None, "", ["ok"]), (0, "", ["ok"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert levels(doctor._check_gpus(asked)) == expected


def test_a_folder_that_is_too_small_or_cannot_lock_files(tmp_path: Path, monkeypatch):
    assert doctor._check_folder(tmp_path / "not" / "yet", 2**60).level == "error"
    assert str(doctor._check_folder(tmp_path / "not" / "yet")).startswith("ok      folder ")

    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert "expected a file system with file locks" in doctor._check_folder(tmp_path).message


def test_needed_space_equals_the_plan_minus_existing_files(project: Path, capsys):
    """One disk contains everything. A file with two names takes space once."""
    config = settings.read([], ["scale=paper"])
    cli.main(["plan", "--config", "scale=paper", "--gpu", "h200"])
    (total,) = re.search(r"^disk, maximum +([\d.]+) GB", capsys.readouterr().out, re.MULTILINE).groups()
    whole = sum(doctor._needed_space(config).values())
    assert whole == pytest.approx(float(total) * 1e9, rel=0.05)
    for name in ("results/paper", "results/demo", "resources/corpora", "resources/downloads"):
        Path(name).mkdir(parents=True)
    Path("results/paper/state").write_bytes(bytes(5000))
    os.link("results/paper/state", "results/paper/again")
    Path("results/demo/other").write_bytes(bytes(7000))
    Path("resources/downloads/training-giga-fren.tar").touch()
    Path("resources/corpora/newstest2013.fr").touch()
    archive = config.downloads["training-giga-fren.tar"].size
    assert whole - sum(doctor._needed_space(config).values()) == 5000 + archive + 3000 * _LINE_BYTES


def test_downloads_from_servers(monkeypatch):
    """One available URL is enough."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(Handler, "do_HEAD", Handler.do_GET, raising=False)
    monkeypatch.setattr(doctor, "_TIMEOUT", 0.3)
    with serving() as server:
        server.script = {"/a": [status(200)], "/gone": [status(404)] * 2, "/slow": [lambda _: server.over.wait()]}
        good, gone, slow = (f"{server.address}/{name}" for name in ("a", "gone", "slow"))
        assert doctor._refusal(Download(urls=[gone], alternatives=[Bytes(urls=[good])]), "") is None
        assert doctor._refusal(Download(urls=[gone]), "") == f"{gone}: HTTP 404 Not Found"
        assert "timed out" in doctor._refusal(Download(urls=[slow]), "").lower()
    assert "refused" in doctor._refusal(Download(urls=["http://127.0.0.1:9/a"]), "")


def test_what_a_scale_needs(project: Path):
    config = settings.read([], ["scale=multi30k"])
    assert len(missing := doctor._missing_downloads(config)) == 10
    doctor.RESOURCES.download("gum.tar.gz").parent.mkdir(parents=True)
    doctor.RESOURCES.download("gum.tar.gz").write_bytes(b"here")
    assert missing.keys() - doctor._missing_downloads(config) == {"gum.tar.gz"}
    config = settings.read([], ["scale=multi30k", "mirror=nowhere"])
    assert levels(doctor._check_downloads(config)) == ["error"] * 9


# Slurm, without a cluster. tests/cluster has a real cluster.


def test_a_profile_is_read(tmp_path: Path):
    """Expressions are ignored. A job's GPUs are divided among its nodes, a node's GPUs are not."""
    profile = {
        "executor": "slurm",
        "default-resources": {"slurm_partition": "cpu", "slurm_account": "lab", "runtime": "2d"},
        "set-threads": {"train": 16},
        "set-resources": {
            "train": {"slurm_partition": "gpu", "gpu": 8, "nodes": 2, "mem_mb": "1000 * attempt", "runtime": "90"},
            "train_parser": {"gres": "gpu:h200:4", "runtime": "60 * attempt", "constraint": "nvlink", "mem_mb": 900},
            "parse": {"slurm_extra": "'--signal=USR1@300 --qos=long'", "gpu": 2, "gpu_model": "h200"},
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(profile))
    one = cluster._Job("cpu", "lab", (), minutes=2880, GPUs=0, CPUs=0, MB=0)
    assert cluster.read_profile(tmp_path) == {
        "default": one,
        "train": one._replace(partition="gpu", options=("--gpus-per-node=4",), minutes=90, GPUs=4, CPUs=16),
        "train_parser": one._replace(options=("--constraint=nvlink", "--gpus-per-node=4"), minutes=0, GPUs=4, MB=900),
        "parse": one._replace(options=("--qos=long", "--gpus-per-node=h200:2"), GPUs=2),
    }
    with pytest.raises(InputError, match=r"profiles/default: expected a profile with `executor: slurm`"):
        cluster.read_profile(ROOT / "profiles/default")


def test_jobs_are_compared_with_the_output_of_sinfo():
    """The maximum of a partition's nodes counts. The default partition is marked with a star."""
    nodes = "cpu*|1:00:00|8|16000|(null)\ngpu|2-12:30:00|8|16000|gpu:a100:3\ngpu|2-12:30:00|64|900|gpu:h200:8(S:0-1)\n"
    nodes += "long|infinite|8|900|gpu:a100:3,gpu:h200:1,nvme:2\nshort|9:30|8|900|gpu:2\n"
    partitions = cluster._read_partitions(nodes)
    assert partitions["long"] == {"minutes": float("inf"), "GPUs": 4, "CPUs": 8, "MB": 900}
    assert partitions["short"] == {"minutes": 9.5, "GPUs": 2, "CPUs": 8, "MB": 900}
    assert partitions["gpu"] == {"minutes": 3630, "GPUs": 8, "CPUs": 64, "MB": 16000}
    assert partitions[""] == partitions["cpu"] == {"minutes": 60, "GPUs": 0, "CPUs": 8, "MB": 16000}
    job = cluster._Job("gpu", "", (), minutes=3630, GPUs=8, CPUs=64, MB=0)
    changes = {"minutes": 3631, "GPUs": 9, "CPUs": 65, "MB": 16001, "partition": "fast"}
    faults = [cluster._check_job(job._replace(**{key: value}), ["train"], partitions) for key, value in changes.items()]
    assert levels([cluster._check_job(job, ["train"], partitions), *faults]) == ["ok", *["error"] * 5]
    assert faults[1].message == "9 GPUs requested per node, the limit is 8"
