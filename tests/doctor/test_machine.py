"""Doctor finds real faults of this machine, each with what mends it, and none where all is well."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from support.toy import PROCESSOR

from transformer import __main__
from transformer.config import settings
from transformer.doctor import folders, gpus, machine
from transformer.doctor.finding import LEVELS, error
from transformer.plan.storage import LINE

PATTERN = re.compile(rf"({'|'.join(LEVELS)}) +(.+?): .*\.")


def refused(*arguments: str) -> str:
    """Return the message or exit code that the program ends with."""
    with pytest.raises(SystemExit) as end:
        __main__.main(["doctor", *arguments])
    return str(end.value)


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_a_machine_that_is_well(project: Path):
    """Every line is a finding, and nothing is left behind. How much space is free is the machine's own affair."""
    before = set(project.iterdir())
    command = [sys.executable, "-m", "transformer", "doctor"]
    result = subprocess.run(command, env=PROCESSOR, capture_output=True, text=True)
    *lines, summary = result.stdout.splitlines()
    findings = [PATTERN.fullmatch(line).groups() for line in lines]
    subjects = {subject for _, subject in findings}
    assert {"packages", "processors", "GPUs", "folder results", "folder resources"} <= subjects
    assert [line for line in lines if line.startswith(("warning", "error")) and "free" not in line] == []
    assert summary == ", ".join(f"{[level for level, _ in findings].count(level)} {level}" for level in LEVELS)
    assert result.returncode == ("error" in dict(findings))
    assert set(project.iterdir()) == before


def test_an_error_is_the_exit_code(project: Path, capsys):
    (project / "results").write_text("")
    assert refused() == "1"
    expected = r"^error +folder results: cannot be written: .*results is no folder\. Fix: "
    assert re.search(expected, capsys.readouterr().out, re.MULTILINE)


def test_bad_input_is_one_line(project: Path, capsys, monkeypatch):
    program = "transformer doctor: error:"
    assert refused("--config", "scale=huge").startswith(f"{program} config.yaml: scale: expected one of scales (demo, ")
    no_profile = f"{program} nowhere: expected a Snakemake profile, found neither profile.yaml nor config.yaml"
    assert refused("--profile", "nowhere") == no_profile
    monkeypatch.chdir("workflow")
    assert refused().startswith(f"{program} config.yaml: no such file: expected in the working folder")
    assert capsys.readouterr().out == ""


def test_torch_waits_until_gpus_are_checked():
    code = "import sys, transformer.commands.doctor; assert not {'torch', 'pandas'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], env=PROCESSOR, check=True)


def test_a_finding_is_one_line():
    assert str(error("a  thing", "is\nwrong", "mend\tit")) == "error   a thing: is wrong. Fix: mend it."


# Packages and processors.


def install(folder: Path, name: str, version: str) -> None:
    """Write what pip leaves of a package."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_packages_that_differ_or_are_missing(tmp_path: Path, monkeypatch):
    lock = tmp_path / "lock"
    lock.write_text("# comment\nnumpy==2.4.6\nno-such-package==1.0\nbuilt==2.0\n")
    install(tmp_path, "numpy", "1.0")
    install(tmp_path, "built", "2.0+cpu")  # a build of that very version
    monkeypatch.syspath_prepend(tmp_path)
    missing, other = map(str, machine.check_packages(lock))
    assert missing.startswith("error   packages: no-such-package of lock not installed. Fix: python -m pip install")
    assert other.startswith("warning packages: other versions than in lock: numpy 1.0, not 2.4.6. Fix: python -m pip")


def test_packages_of_two_machines():
    here = {"python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"}
    assert machine.check_same_packages(here, dict(here)).level == "ok"
    other = machine.check_same_packages(here, {"python": "3.12.1", "torch": "2.13.0"})
    assert (other.level, "python 3.12.1, here 3.11.7; numpy missing, here 2.4.6" in other.message) == ("error", True)


def test_fewer_processors_than_the_machine_has(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    (finding,), (asked,) = machine.check_processors(), machine.check_processors(2)
    share = "processors: 1 of 4 cores may be used"
    assert str(finding) == f"warning {share}. Fix: start without taskset or numactl."
    assert str(asked).startswith(f"error   {share}, asked for 2. Fix: --cpus-per-task")


@pytest.mark.parametrize(
    ("value", "expected"), [("many", "warning"), ("0", "warning"), ("99999", "warning"), ("1,1", "note")]
)
def test_threads_of_openmp(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert levels(machine.check_openmp()) == [expected]


# Folders.


def test_space_for_downloads(tmp_path: Path):
    free = shutil.disk_usage(tmp_path).free
    assert folders.check_space(tmp_path / "not" / "yet", 2 * free).level == "error"
    assert folders.check_space(tmp_path, free // 2) is None


def test_space_for_a_scale_is_what_its_plan_says_less_what_is_here(project: Path, capsys):
    """One disk has to hold everything; a file with two names takes space once."""
    config = settings.read([], ["scale=paper"])
    __main__.main(["plan", "--config", "scale=paper", "--gpu", "h200"])
    (total,) = re.search(r"^disk, at most +([\d.]+) GB", capsys.readouterr().out, re.MULTILINE).groups()
    whole = folders.needed_space(config)
    assert list(whole) == [Path("results"), Path("resources")]
    assert sum(whole.values()) == pytest.approx(float(total) * 1e9, abs=0.06e9)
    for name in ("results/paper", "results/demo", "resources/corpora", "resources/downloads"):
        Path(name).mkdir(parents=True)
    Path("results/paper/state").write_bytes(bytes(5000))
    os.link("results/paper/state", "results/paper/again")
    Path("results/demo/other").write_bytes(bytes(7000))
    assert sum(whole.values()) - sum(folders.needed_space(config).values()) == 5000
    Path("resources/downloads/training-giga-fren.tar").touch()
    less = config["downloads"]["training-giga-fren.tar"]["size"]
    assert sum(whole.values()) - sum(folders.needed_space(config).values()) == 5000 + less
    Path("resources/corpora/newstest2013.fr").touch()
    assert sum(whole.values()) - sum(folders.needed_space(config).values()) == 5000 + less + 3000 * LINE


@pytest.mark.parametrize(("ahead", "words"), [(100, "100 s ahead of"), (-100, "100 s behind"), (0, None)])
def test_a_clock_that_is_wrong(tmp_path: Path, ahead, words):
    file = tmp_path / "file"
    file.write_text("")
    os.utime(file, (time.time() + ahead, time.time() + ahead))
    finding = folders.check_time(file, "folder")
    assert finding is None if words is None else (finding.level == "error" and words in finding.message)


def test_a_lock_that_is_held(tmp_path: Path):
    """The lock is free again when its holder has closed the file."""
    with open(tmp_path / "lock", "a+") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert not folders.lock_is_free(tmp_path / "lock")
        assert folders.check_lock(tmp_path, "folder").level == "error"
    assert folders.lock_is_free(tmp_path / "lock")
    assert folders.check_lock(tmp_path, "folder") is None


def test_files_of_another_machine_are_waited_for(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(folders, "SEEN_WITHIN", 0.5)
    assert not folders.appears(tmp_path / "file", "mine")
    monkeypatch.setattr(folders, "SEEN_WITHIN", 30)
    writer = threading.Timer(0.3, (tmp_path / "file").write_text, ["mine"])
    writer.start()
    assert folders.appears(tmp_path / "file", "mine")
    writer.join()


# GPUs.


def test_devices_that_torch_cannot_reach(tmp_path: Path, monkeypatch):
    """A driver has two devices and no GPU answers, as on a machine whose PyTorch or driver is the wrong one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).write_text("")
    for asked, expected in ((None, "2 here"), (3, "3 asked for")):
        (finding,) = gpus.check_gpus(asked, tmp_path)
        assert (finding.level, finding.message.split(":")[0]) == ("error", f"{expected}, PyTorch sees 0")
        assert finding.fix
    (tmp_path / "none").mkdir()
    assert levels(gpus.check_gpus(None, tmp_path / "none")) == levels(gpus.check_gpus(0, tmp_path / "none")) == ["ok"]


def test_what_cuda_says_is_shown(monkeypatch):
    """Its first line, without advice on debugging."""
    messages = ["Error 802: system not yet initialized.\nCUDA kernel errors might be reported later."]
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
    reason, fix = gpus.why_here(2, messages)
    assert reason.startswith(f"Error 802: system not yet initialized (PyTorch {torch.__version__} ")
    assert fix == gpus.DRIVER


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, by itself
def test_a_machine_without_a_compiler(monkeypatch, tmp_path):
    """What stands for a GPU's compiler is the processor's, of the same PyTorch."""
    from torch._inductor import config

    torch._dynamo.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with config.patch({"cpp.cxx": (str(tmp_path / "no-compiler"),)}):
        finding = gpus.check_compiler(torch.device("cpu"))
    assert finding.level == "warning"
    assert finding.message.startswith("cannot compile, so that training is slower: ")
    assert "\n" not in finding.message
    assert "no-compiler" in finding.message
    assert finding.fix == gpus.COMPILER


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, by itself
def test_a_compiler_that_works(monkeypatch, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    torch._dynamo.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    finding = gpus.check_compiler(torch.device("cpu"))
    assert finding.level == "ok", finding.message
