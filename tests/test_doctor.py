"""Doctor finds real faults of this machine, each with its fix, and none if all is well."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import own_corpus
from support.server import Handler, serving, status
from support.toy import PROCESSOR

from transformer import cli
from transformer import doctor as machine
from transformer.config import settings
from transformer.plan import LINE

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    """Return the working folder, which has what doctor reads."""
    for name in ("config.yaml", "requirements.lock", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments: str) -> str:
    """Return the message or exit code that the program ends with."""
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", *arguments])
    return str(end.value)


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


def install(folder: Path, name: str, version: str) -> None:
    """Write what pip leaves of a package."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_packages_that_differ_or_are_missing(tmp_path: Path, monkeypatch):
    """The first of two installations counts; a build's suffix does not."""
    lock = tmp_path / "lock"
    lock.write_text("# comment\nnumpy==2.4.6\nno-such-package==1.0\nbuilt==2.0\n")
    install(tmp_path, "numpy", "1.0")
    install(tmp_path, "built", "2.0+cpu")
    monkeypatch.syspath_prepend(tmp_path)
    missing, other = map(str, machine.check_packages(lock))
    assert missing.startswith("error   packages: no-such-package of lock not installed. Fix: python -m pip install")
    assert other.startswith("warning packages: other versions than in lock: numpy 1.0, not 2.4.6. Fix: python -m pip")


def test_devices_that_torch_cannot_reach(tmp_path: Path, monkeypatch):
    """A driver has a device and no GPU answers, as if PyTorch or the driver is the wrong one."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "nvidia0").write_text("")
    for asked, expected in ((None, 1), (3, 3)):
        (finding,) = machine.check_gpus(asked, tmp_path)
        assert (finding.level, finding.message.split(":")[0]) == ("error", f"{expected} expected, PyTorch sees 0")
        assert finding.fix
    (tmp_path / "none").mkdir()
    assert levels(machine.check_gpus(None, tmp_path / "none")) == levels(machine.check_gpus(0)) == ["ok"]


def test_a_folder_that_is_too_small_or_read_only_for_locks(tmp_path: Path, monkeypatch):
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
    """Downloads that are here, and the treebank that must be bought, are no errors; a missing own corpus is."""
    config = settings.read([], ["scale=multi30k"])
    assert len(missing := machine.missing_downloads(config)) == 10
    machine.RESOURCES.download("gum.tar.gz").parent.mkdir(parents=True)
    machine.RESOURCES.download("gum.tar.gz").write_bytes(b"here")
    assert missing.keys() - machine.missing_downloads(config) == {"gum.tar.gz"}
    assert levels(machine.check_downloads(config, "nowhere")) == ["error"] * 9
    file = own_corpus(project)
    (project / "train.cs").unlink()
    here, absent = machine.check_downloads(settings.read([str(file)], ["scale=mine"]), "")
    assert (here.level, absent.level, absent.message) == ("ok", "error", "no train.cs")
