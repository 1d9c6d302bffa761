"""Doctor finds real faults of this machine, each with what mends it, and none where all is well."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from support.project import own_corpus
from support.tools import needs
from support.toy import PROCESSOR

from transformer import __main__
from transformer.common.files import InputError
from transformer.config import settings
from transformer.doctor import disk as room
from transformer.doctor import downloads as sought
from transformer.doctor import folders, gpus, machine, profile, slurm
from transformer.doctor.finding import LEVELS, error
from transformer.doctor.node import fetching, inside
from transformer.doctor.partitions import AWAY, options
from transformer.doctor.partitions import gpus as gpus_of_node
from transformer.doctor.probe import watch
from transformer.plan import storage

ROOT = Path(__file__).parents[2]
NEEDED = ("config.yaml", "requirements.lock", "workflow")
LINE = re.compile(rf"({'|'.join(LEVELS)}) +(.+?): .*\.")


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    """The working folder, which doctor takes for the project's."""
    for name in NEEDED:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments: str) -> str:
    """What the program ends with."""
    with pytest.raises(SystemExit) as end:
        __main__.main(["doctor", *arguments])
    return str(end.value)


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_a_machine_that_is_well(project: Path):
    """Every line is a finding, and nothing is left behind. Room is the machine's own affair."""
    command = [sys.executable, "-m", "transformer", "doctor"]
    result = subprocess.run(command, env=PROCESSOR, capture_output=True, text=True)
    *lines, summary = result.stdout.splitlines()
    found = [LINE.fullmatch(line).groups() for line in lines]
    assert {"packages", "processors", "GPUs", "folder results", "folder resources"} <= {about for _, about in found}
    assert [line for line in lines if line.startswith(("warning", "error")) and "free" not in line] == []
    assert summary == ", ".join(f"{[level for level, _ in found].count(level)} {level}" for level in LEVELS)
    assert result.returncode == ("error" in dict(found))
    assert sorted(path.name for path in project.iterdir()) == sorted(NEEDED)


def test_an_error_is_the_exit_code(project: Path, capsys):
    (project / "results").write_text("")
    assert refused() == "1"
    expected = r"^error +folder results: cannot be written: .*results is no folder\. Fix: "
    assert re.search(expected, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--config", "scale=huge"],
            r"config.yaml: scale: expected one of scales \(demo, multi30k, paper\), found 'huge'",
        ),
        (["--config", "scal=demo"], "config.yaml: top level: .*'scal' was unexpected.*"),
        (["--profile", "nowhere"], "nowhere: expected a Snakemake profile, found neither profile.yaml nor config.yaml"),
    ],
)
def test_bad_input_is_one_line(project: Path, arguments, expected, capsys):
    assert re.fullmatch(f"transformer doctor: error: {expected}", refused(*arguments))
    assert capsys.readouterr().out == ""


def test_another_folder_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused().startswith("transformer doctor: error: config.yaml: no such file: expected in the working folder")


def distribution(folder: Path, name: str, version: str) -> None:
    """What pip leaves of a package, in a folder that Python looks into first."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_packages_that_differ_or_are_missing(tmp_path: Path, monkeypatch):
    lock = tmp_path / "lock"
    lock.write_text("# comment\nnumpy==2.4.6\nno-such-package==1.0\n")
    distribution(tmp_path, "numpy", "1.0")
    monkeypatch.syspath_prepend(tmp_path)
    missing, other = map(str, machine.packages(lock))
    assert missing.startswith("error   packages: no-such-package of lock not installed. Fix: python -m pip install")
    assert other.startswith("warning packages: other versions than in lock: numpy 1.0, not 2.4.6. Fix: python -m pip")


def test_a_build_of_a_version_is_that_version(tmp_path: Path, monkeypatch):
    distribution(tmp_path, "built", "2.0+cpu")
    monkeypatch.syspath_prepend(tmp_path)
    assert machine.installed(["built"]) == {"built": "2.0"}


def test_packages_of_two_machines():
    here = {"python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"}
    assert machine.same_packages(here, dict(here)).level == "ok"
    other = machine.same_packages(here, {"python": "3.12.1", "torch": "2.13.0"})
    assert (other.level, "python 3.12.1, here 3.11.7; numpy missing, here 2.4.6" in other.text) == ("error", True)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a machine with one processor")
def test_fewer_processors_than_the_machine_has():
    code = "from transformer.doctor.machine import processors; print(*processors(), *processors(2), sep='\\n')"
    taskset = [needs("taskset", "apt-get install util-linux"), "-c", str(min(os.sched_getaffinity(0)))]
    command = [*taskset, sys.executable, "-c", code]
    lines = subprocess.run(command, env=PROCESSOR, capture_output=True, text=True, check=True).stdout.splitlines()
    said = f"processors: 1 of {os.cpu_count()} cores may be used"
    assert lines[0] == f"warning {said}. Fix: start without taskset or numactl."
    assert lines[1].startswith(f"error   {said}, asked for 2. Fix: --cpus-per-task")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", "warning"), ("many", "warning"), ("0", "warning"), ("100000", "warning"), ("1", "note"), ("1,1", "note")],
)
def test_threads_of_openmp(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert levels(machine.openmp()) == [expected]


CHECK = """
import sys, pathlib
from transformer.doctor.folders import folder
for path in sys.argv[1:]:
    print(*folder(pathlib.Path(path)), sep="\\n")
"""
MOUNT = """
mount -t tmpfs -o size=64k none full
mount -t tmpfs -o ro none frozen
exec "$@"
"""


def test_a_full_disk_and_one_that_is_read_only(tmp_path: Path):
    for name in ("full", "frozen"):
        (tmp_path / name).mkdir()
    command = ["unshare", "--mount", "--map-root-user", "sh", "-euc", MOUNT, "sh", sys.executable, "-c", CHECK]
    result = subprocess.run([*command, "full", "frozen"], cwd=tmp_path, env=PROCESSOR, capture_output=True, text=True)
    if "unshare" in result.stderr or "mount:" in result.stderr:
        pytest.skip(f"mounting is not permitted here: {result.stderr}")
    full, *frozen = result.stdout.splitlines()
    assert full.startswith("error   folder full: 0.0 GiB free, 1.0 GiB needed. Fix: make room, or make full a link")
    assert frozen[-1].startswith("error   folder frozen: cannot be written: Read-only file system. Fix: make it")


def test_room_for_downloads(tmp_path: Path):
    free = shutil.disk_usage(tmp_path).free
    assert folders.room(tmp_path / "not" / "yet", 2 * free).level == "error"
    assert folders.room(tmp_path, free // 2) is None


def test_room_for_a_scale_is_what_its_plan_says_but_for_what_is_here(project: Path, capsys):
    """One disk has to hold all; one file that is twice on it does so once."""
    config = settings.read([], ["scale=paper"])
    __main__.main(["plan", "--config", "scale=paper", "--gpu", "h200"])
    (total,) = re.search(r"^disk, at most +([\d.]+) GB", capsys.readouterr().out, re.MULTILINE).groups()
    whole = room.needs(config)
    assert list(whole) == [Path("results"), Path("resources")]
    assert sum(whole.values()) == pytest.approx(float(total) * 1e9, abs=0.06e9)
    for name in ("results/paper", "results/demo", "resources/corpora", "resources/downloads"):
        Path(name).mkdir(parents=True)
    Path("results/paper/state").write_bytes(bytes(5000))
    os.link("results/paper/state", "results/paper/again")
    Path("results/demo/other").write_bytes(bytes(7000))
    assert sum(whole.values()) - sum(room.needs(config).values()) == 5000
    Path("resources/downloads/training-giga-fren.tar").touch()
    less = config["downloads"]["training-giga-fren.tar"]["size"]
    assert sum(whole.values()) - sum(room.needs(config).values()) == 5000 + less
    Path("resources/corpora/newstest2013.fr").touch()
    assert sum(whole.values()) - sum(room.needs(config).values()) == 5000 + less + 3000 * storage.LINE


@pytest.mark.parametrize(("ahead", "words"), [(100, "100 s ahead of"), (-100, "100 s behind"), (0, None)])
def test_a_clock_that_is_wrong(tmp_path: Path, ahead, words):
    file = tmp_path / "file"
    file.write_text("")
    os.utime(file, (time.time() + ahead, time.time() + ahead))
    found = folders.clock(file, "folder")
    assert found is None if words is None else (found.level == "error" and words in found.text)


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def test_a_lock_that_another_process_holds(tmp_path: Path):
    """As a node sees the login node's; it is to be had once that process has ended."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert not folders.taken_here(tmp_path / "lock")
        assert folders.lock(tmp_path, "folder").level == "error"
        holder.communicate("\n")
    assert folders.taken_here(tmp_path / "lock")
    assert folders.lock(tmp_path, "folder") is None


def test_files_of_another_machine_are_waited_for(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(folders, "SEEN_WITHIN", 0.5)
    assert not folders.appears(tmp_path / "file", "mine")
    monkeypatch.setattr(folders, "SEEN_WITHIN", 30)
    writer = threading.Timer(0.3, (tmp_path / "file").write_text, ["mine"])
    writer.start()
    assert folders.appears(tmp_path / "file", "mine")
    writer.join()


@pytest.fixture
def server():
    """Answers HEAD: 404 for paths that end in `gone`, never for those that end in `slow`."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            if self.path.endswith("slow"):
                self.server.over.wait()
            self.send_response(404 if self.path.endswith("gone") else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.over = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


DEAD = "http://127.0.0.1:9"  # no server


@pytest.mark.parametrize(
    ("path", "problem"), [("file", None), ("gone", "HTTP 404 Not Found for"), ("slow", "no answer within 0.3 s")]
)
def test_a_server_that_answers_or_does_not(server, monkeypatch, path, problem):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(sought, "ANSWER_SECONDS", 0.3)
    (finding,) = sought.reachable({"a.gz": {"urls": [f"{server}/{path}"]}})
    if problem is None:
        assert finding.level == "ok"
    else:
        assert (finding.level, problem in finding.text, "a.gz" in finding.text) == ("error", True, True)
        assert "--config mirror=<DIR>" in finding.fix


def test_a_dead_server_matters_where_no_other_has_its_files(server, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    both = {"urls": [f"{DEAD}/a"], "alternatives": [{"urls": [f"{server}/a"], "size": 5}]}
    assert levels(sought.reachable({"a": both})) == ["note", "ok"]
    lost, live = sought.reachable({"a": both, "b": {"urls": [f"{DEAD}/b"]}})
    assert (lost.level, "refused" in lost.text, "needed for b" in lost.text, live.level) == ("error", True, True, "ok")


def test_a_mirror_with_a_short_file(tmp_path: Path):
    needed = {
        name: {"urls": [f"https://host/{name}"], "size": 5, "alternatives": [{"urls": [f"https://other/{name}"]}]}
        for name in ("whole", "short", "absent", "elsewhere")
    }
    for host, name, content in (("host", "whole", b"12345"), ("host", "short", b"123"), ("other", "elsewhere", b"1")):
        (tmp_path / host).mkdir(exist_ok=True)
        (tmp_path / host / name).write_bytes(content)
    short, absent = sought.mirrored(needed, tmp_path)
    assert (short.level, f"short: {tmp_path}/host/short has 3 bytes, not 5" in short.text) == ("error", True)
    assert (absent.level, f"absent: no file {tmp_path}/host/absent" in absent.text) == ("error", True)
    assert levels(sought.mirrored({"whole": needed["whole"]}, tmp_path)) == ["ok"]


def test_what_a_scale_needs(project: Path):
    """Of Multi30k all nine files and GUM; what is here already is not needed; the treebank that is bought is a note."""
    config = settings.read([], ["scale=multi30k"])
    files = itertools.product(("train", "val", "test_2016_flickr"), ("en", "de", "fr"))
    names = {f"multi30k-{split}.{language}.gz" for split, language in files}
    assert set(sought.missing(config)) == {*names, "gum.tar.gz"}
    sought.DOWNLOADS.mkdir(parents=True)
    (sought.DOWNLOADS / "gum.tar.gz").write_bytes(b"here")
    assert set(sought.missing(config)) == names
    paper = settings.read([], ["scale=paper"])
    assert {"training-giga-fren.tar", "wmt14-test-filtered.tgz"} <= set(sought.missing(paper))
    assert [finding.level for finding in sought.own_files(paper)] == ["note"]


def test_corpora_of_ones_own(project: Path):
    file = own_corpus(project)
    (project / "train.cs").unlink()
    lines = list(map(str, sought.own_files(settings.read([str(file)], ["scale=mine"]))))
    assert [line[:31] for line in lines] == [
        "ok      corpora: train.en is he",
        "error   corpora: no file train.",
        "ok      corpora: dev.en is here",
        "ok      corpora: dev.cs is here",
    ]


def test_only_the_languages_of_a_scale_are_needed(project: Path):
    config = settings.read([], ["scale=multi30k"])
    assert {name[-5:] for name in storage.downloads(config, ["en-fr"])} == {"en.gz", "fr.gz"}


def test_devices_that_torch_cannot_reach(tmp_path: Path, monkeypatch):
    """Two devices of a driver and no GPU that answers, as on a machine whose PyTorch or driver is the wrong one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).write_text("")
    for found, expected in ((gpus.gpus(None, tmp_path), "2 here"), (gpus.gpus(3, tmp_path), "3 asked for")):
        (finding,) = found
        assert (finding.level, finding.text.split(":")[0]) == ("error", f"{expected}, PyTorch sees 0")
        assert finding.fix
    (tmp_path / "none").mkdir()
    assert levels(gpus.gpus(None, tmp_path / "none")) == levels(gpus.gpus(0, tmp_path / "none")) == ["ok"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).", "older than"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable\nCUDA kernel errors", "another program"),
        ("CUDA out of memory. Tried to allocate 20.00 MiB.", "memory is full"),
        ("Error 802: system not yet initialized", "fabric manager"),
        ("a message that nobody foresaw\nand more of it", "a message that nobody foresaw"),
    ],
)
def test_messages_of_drivers_in_plain_words(message, words):
    text, fix = gpus.plain(message)
    assert words in text
    assert "\n" not in text + fix


def written(folder: Path, **settings) -> Path:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": "slurm"} | settings))
    return folder


def test_what_a_profile_asks_for(tmp_path: Path):
    """Expressions are left out, a job's GPUs are divided among its nodes, a node's are not."""
    written(
        tmp_path,
        **{
            "default-resources": {"slurm_partition": "cpu", "slurm_account": "lab", "mem_mb": 500, "runtime": "2d"},
            "set-threads": {"train": 16},
            "set-resources": {
                "train": {"slurm_partition": "gpu", "gpu": 8, "nodes": 2, "mem_mb": "1000 * attempt", "runtime": "90"},
                "train_parser": {"gres": "gpu:h200:4", "runtime": "60 * attempt", "constraint": "nvlink"},
            },
        },
    )
    default, train, parser = profile.read_profile(tmp_path).asked
    assert default == profile.Asked("default", "cpu", "lab", 2880, 500, 1, 1, 0, ())
    assert train == profile.Asked("train", "gpu", "lab", 90, None, 16, 2, 4, ())
    assert parser == profile.Asked("train_parser", "cpu", "lab", None, 500, 1, 1, 4, ("--constraint=nvlink",))


def test_a_profile_that_is_written_as_lists(tmp_path: Path):
    settings = {
        "default-resources": ["slurm_partition=cpu", "mem_mb=500"],
        "set-resources": ["train:gpu=2", "train:mem_mb=9"],
    }
    default, train = profile.read_profile(written(tmp_path, **settings)).asked
    assert (default.partition, default.mem_mb, default.gpus) == ("cpu", 500, 0)
    assert (train.partition, train.mem_mb, train.gpus) == ("cpu", 9, 2)


def test_the_profiles_here():
    """Trainings and searches have a GPU, a training some processors and a day, the rest neither."""
    found = profile.read_profile(ROOT / "profiles/slurm")
    asked = {rule.rule: (rule.partition, rule.gpus, rule.nodes, rule.cpus, rule.minutes) for rule in found.asked}
    train, search = ("gpu", 1, 1, 4, 1440), ("gpu", 1, 1, 1, 240)
    assert asked == {
        **{"default": ("cpu", 0, 1, 1, 240), "train": train, "train_parser": train},
        **{"translate": search, "parse": search, "silver_parse": search},
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
    _, train = profile.read_profile(written(tmp_path, **{"set-resources": {"train": rule}})).asked
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
    assert gpus_of_node({"Gres": gres}) == expected


@pytest.mark.parametrize(
    ("state", "away"),
    [("IDLE", False), ("MIXED+CLOUD", False), ("IDLE+CLOUD+POWERED_DOWN", False), ("IDLE+CLOUD+POWERING_UP", False)]
    + [(state, True) for state in ("DOWN", "DOWN+DRAIN", "IDLE+DRAIN", "IDLE*", "IDLE+CLOUD+POWERING_DOWN")]
    + [("DOWN+CLOUD+POWERED_DOWN", True), ("IDLE+MAINT", True), ("IDLE+NOT_RESPONDING", True)],
)
def test_nodes_that_take_no_job_now(state, away):
    """One that was powered down starts on demand."""
    assert bool(AWAY.search(state)) == away


def test_slurms_commands_without_a_cluster(tmp_path: Path, monkeypatch):
    for command in slurm.COMMANDS:
        needs(command, "apt-get install slurm-client")
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    found = slurm.commands()
    assert (found.level, "its commands do not work: sinfo: " in found.text) == ("error", True)


def test_a_finding_is_one_line():
    assert str(error("a  thing", "is\nwrong", "mend\tit")) == "error   a thing: is wrong. Fix: mend it."


def order(place: Path) -> dict:
    """What a probe's job is started with."""
    return {"place": str(place), "token": "mine", "gpus": 0, "cpus": 1, "files": [], "entries": [], "mirror": ""} | {
        "submits": True
    }


def test_a_node_that_does_not_see_the_login_nodes_files(project: Path, monkeypatch):
    monkeypatch.setattr(folders, "SEEN_WITHIN", 0.1)
    _, result = inside(order(project / "absent"))
    (finding,) = result["findings"]
    assert (finding["level"], "is not the folder that it is on the login node" in finding["text"]) == ("error", True)


def test_a_node_where_a_lock_of_the_login_node_does_not_hold(project: Path):
    """Nobody holds it, as is seen from a node whose locks are its own."""
    (project / "login").write_text("mine")
    hello, result = inside(order(project))
    assert abs(hello["time"] - time.time()) < 60
    problems = [finding["text"] for finding in result["findings"] if finding["about"] == "files"]
    assert [problem.split(":")[0] for problem in problems] == ["a lock of the login node does not hold here"]
    assert result["versions"]["torch"] == machine.installed(["torch"])["torch"]


def test_a_node_that_cannot_fetch(project: Path):
    """Matters where Snakemake itself runs on it, in one job that holds everything."""
    config = settings.read([], ["scale=multi30k"])
    assert levels(fetching(config, str(project / "absent"), True)) == ["note"]
    assert set(levels(fetching(config, str(project / "absent"), False))) == {"error"}


def test_a_node_that_does_not_see_what_was_made_elsewhere(project: Path):
    away = f"from: {{path: absent, sha256: '{'0' * 64}'}}"
    config = settings.read([], [f"scales={{demo: {{tasks: {{en-de: {{{away}}}}}}}}}"])
    assert levels(fetching(config, "", True)) == ["note"]
    assert levels(fetching(config, "", False)) == ["error"]


@pytest.mark.parametrize(("skew", "expected"), [(0.5, "ok"), (-0.5, "ok"), (3.0, "error"), (-3.0, "error")])
def test_the_clock_of_a_node(skew, expected):
    assert watch(skew).level == expected
