"""Manners of stages and tools: signals, closed and full outputs, files that never end, words that look like code."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from support.commands import error
from support.project import ENVIRONMENT, ROOT, copy_project, last_line, own_corpus, snakemake
from support.toy import (
    PREPARATION,
    PROCESSOR,
    heed_signals,
    make_experiment,
    make_run,
    write_text,
)

from transformer.common.files import InputError
from transformer.config import checks
from transformer.data.subwords import Subwords
from transformer.figures.cost import Panel, panels_of
from transformer.figures.heads import Sentence, draw
from transformer.figures.style import new
from transformer.stages import figure, report, table

PROGRAM = [sys.executable, "-m", "transformer"]
ENDLESS = {"pipe": "a named pipe", "socket": "a socket", "/dev/zero": "a device"}


def run(*arguments, shell: str = "", **env: str) -> subprocess.CompletedProcess:
    """Run a verb in the project's folder, with what a shell adds to its command line, such as a closed output."""
    line = f"{shlex.join([*PROGRAM, *map(str, arguments)])} {shell}"
    pipes = {"capture_output": True, "timeout": 60}
    return subprocess.run(["bash", "-c", line], cwd=ROOT, env=PROCESSOR | env, **pipes)


# Files that never end.


@pytest.fixture
def impatient():
    """Fail where something waits for ever."""

    def fail(*_):
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=ENDLESS)
def endless(request, tmp_path, impatient):
    """Yield the path of something that never ends, and its name."""
    path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)
    with socket.socket(socket.AF_UNIX) as server:
        if request.param == "socket":
            server.bind(str(path))
        yield str(path), ENDLESS[request.param]


def test_what_never_ends_is_no_input(endless, tmp_path):
    """Of any kind: text, an archive, weights, settings, a vocabulary, a table."""
    path, name = endless
    text, output = write_text(tmp_path / "text", ["a"]), tmp_path / "output"
    ready = make_run(tmp_path / "run", make_experiment())
    tokenize = ["--languages", "en", "de", "--processes", "1", "--preparation", json.dumps(vars(PREPARATION))]
    for command in [
        ["tokenize", "--source", path, "--target", text, *tokenize, "--output", output],
        ["unpack", "--input", path, "--format", "text", "--output", output],
        ["vocabulary", "--text", path, "--size", 30, "--sentences", 10, "--output", output],
        ["score", "--hyp", path, "--ref", text, "--lang", "de"],
        ["translate", "--run", ready, "--input", path],
        ["translate", "--run", ready, "--input", text, "--weights", path],
        ["table", "table1", "--paper", text, "--measured", path, "--output", output],
    ]:
        assert error(*command).endswith(f"{path}: expected a file, found {name}"), command
    (ready / "experiment.yaml").unlink()
    (ready / "experiment.yaml").symlink_to(path)
    found = error("translate", "--run", ready, "--input", text)
    assert found == f"{ready / 'experiment.yaml'}: expected a file, found {name}"
    with pytest.raises(InputError, match=re.escape(f"{path}: expected a file, found {name}")):
        Subwords(path)
    assert not output.exists()


def test_what_never_ends_is_not_taken(endless, tmp_path):
    path, name = endless
    for file in ("vocabulary.model", "run.json"):
        (tmp_path / "from").mkdir(exist_ok=True)
        (tmp_path / "from" / file).symlink_to(path)
        found = error("take", "--from", tmp_path / "from", "--to", tmp_path / "to", "--file", "0" * 64, file)
        assert found == f"{tmp_path / 'from' / file}: expected a file, found {name}"


def test_what_a_shell_gives_in_place_of_a_file_is_read(tmp_path):
    """`<(...)` and /dev/stdin end with the program that writes them."""
    output = tmp_path / "output"
    for path, shell in (("/dev/stdin", "< <(echo ab)"), ("/dev/fd/9", "9< <(echo ab)")):
        ended = run("unpack", "--input", path, "--format", "text", "--output", output, shell=shell)
        assert (ended.returncode, output.read_text()) == (0, "ab\n")
        output.unlink()


def test_the_workflow_refuses_a_corpus_that_never_ends(endless, tmp_path):
    path, name = endless
    config = {
        "scale": "mine",
        "corpora": {"a": {"files": {"en": {"path": path}, "de": {"path": path}}}},
        "scales": {"mine": {"tasks": {"t": {"source": "en", "target": "de", "train": ["a"], "dev": "a", "test": "a"}}}},
    }
    expected = f"corpora.a.files.en: {path}: expected a file, found {name}"
    with pytest.raises(InputError, match=re.escape(expected)):
        checks.check_files(config)


# Signals.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_stage_in_one_line(tmp_path, number, code):
    """As from a terminal, to all its processes: its workers say nothing, and no half file is left."""
    text = write_text(tmp_path / "text", ["one two three four ."] * 400_000)
    tokenize = ["--languages", "en", "de", "--processes", "2", "--preparation", json.dumps(vars(PREPARATION))]
    command = [*PROGRAM, "tokenize", "--source", text, "--target", text, *tokenize, "--output", tmp_path / "to/train"]
    options = {"stderr": subprocess.PIPE, "env": PROCESSOR, "preexec_fn": heed_signals, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        while not any(path.stat().st_size for path in (tmp_path / "to").glob(".*.part")):
            assert process.poll() is None
        os.killpg(process.pid, number)
        _, shown = process.communicate(timeout=20)
    assert shown.decode() == f"transformer tokenize: ended by {number.name}\n"
    assert process.returncode == code
    assert list((tmp_path / "to").iterdir()) == []


def test_a_signal_ends_the_learning_of_a_vocabulary_at_once(tmp_path):
    """SentencePiece answers none for as long as it learns: minutes, or hours."""
    program = (
        "import os, signal, sys\n"
        "from transformer.runtime.process import manners\n"
        "from transformer.data import subwords\n"
        "def train(**_): os.kill(os.getpid(), signal.SIGTERM); print('still here', file=sys.stderr)\n"
        "subwords.sentencepiece.SentencePieceTrainer.train = train\n"
        "with manners('test'): subwords.learn([], 10, 10, 'model')"
    )
    ended = subprocess.run([sys.executable, "-c", program], env=PROCESSOR, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, b"")


# Standard streams.


@pytest.fixture(scope="module")
def unpack(tmp_path_factory) -> list:
    """Return a command that names its output, in whose path a character is not ASCII."""
    folder = tmp_path_factory.mktemp("é")
    text = write_text(folder / "text", ["das ist ein Hund ."])
    return ["unpack", "--input", text, "--format", "text", "--output", folder / "copy"]


@pytest.mark.parametrize("name", ["--help", "unpack"])
@pytest.mark.parametrize(
    ("shell", "code", "message"),
    [
        (">&-", 1, "Bad file descriptor: 'standard output'"),
        ("> /dev/full", 1, "No space left on device: 'standard output'"),
        ("<&-", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_closed_and_full_streams(unpack, name, shell, code, message):
    command = unpack if name == "unpack" else [name]
    ended = run(*command, shell=shell)
    assert ended.returncode == code
    if message:
        line = ended.stderr.decode()
        assert line.count("\n") == 1
        assert line.startswith(f"transformer {command[0]}: error: ")
        assert message in line
    else:
        assert ended.stderr == b""


@pytest.mark.parametrize("name", ["--help", "unpack"])
def test_nobody_reads_any_more(unpack, name):
    command = unpack if name == "unpack" else [name]
    reading, writing = os.pipe()
    os.close(reading)
    options = {"stdout": writing, "stderr": subprocess.PIPE, "env": PROCESSOR, "cwd": ROOT, "timeout": 60}
    ended = subprocess.run([*PROGRAM, *map(str, command)], **options)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def in_manners(program: str, shell: str = "", **env: str) -> subprocess.CompletedProcess:
    """Run some lines as `python -m transformer` runs a verb."""
    lines = f"import sys\nfrom transformer.runtime.process import manners\nwith manners('test'):\n    {program}"
    command = ["bash", "-c", f"{shlex.join([sys.executable, '-c', lines])} {shell}"]
    return subprocess.run(command, env=PROCESSOR | env, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("program", "shell"),
    [("sys.stdin.buffer.read1(9)", "<&-"), ("list(sys.stdin.buffer)", "<&-"), ("sys.stdout.buffer.write(b'a')", ">&-")],
)
def test_data_from_and_to_closed_streams(program, shell):
    """As `translate` and `parse` read and write them: no other file takes their place."""
    ended = in_manners(program, shell)
    stream = "input" if "stdin" in program else "output"
    expected = f"test: error: [Errno 9] Bad file descriptor: 'standard {stream}'\n"
    assert (ended.returncode, ended.stderr.decode()) == (1, expected)


def test_what_the_terminal_cannot_show(unpack):
    """Messages have escapes, also errors; data are UTF-8."""
    ended = run(*unpack, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "\\xe9" in ended.stdout.decode("ascii")
    ended = run("unpack", "--input", "ü", *unpack[3:], PYTHONIOENCODING="ascii")
    assert ended.stderr.decode("ascii").startswith("transformer unpack: error: \\xfc: cannot be read")
    program = "from transformer.commandline import print_score; print_score({'hyp': 'é'}, '', '-')"
    assert json.loads(in_manners(program, PYTHONIOENCODING="ascii").stdout.decode("utf-8")) == {"hyp": "é"}


# Full disks.


def test_a_full_disk_is_named_with_the_file(tmp_path):
    """The limit on a file's size is a disk that is full at once."""
    text = write_text(tmp_path / "text", ["one two three ."] * 1000)
    line = shlex.join([*PROGRAM, "unpack", "--input", str(text), "--format", "text", "--output", str(tmp_path / "to")])
    full = ["bash", "-c", f"trap '' XFSZ; ulimit -f 4; {line}"]
    ended = subprocess.run(full, env=PROCESSOR, capture_output=True, timeout=60)
    assert ended.returncode == 1
    expected = f"transformer unpack: error: [Errno 27] File too large: '{tmp_path / 'to'}'\n"
    assert ended.stderr.decode() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


# Words that look like code.


def test_words_of_figures_are_drawn_as_they_are():
    """As many dollars as in a formula, and one that matplotlib could not read."""
    words = ["$x$", "$\\frac$"]
    drawn, axes = new(3.5, 3)
    draw(axes, 0, Sentence(words, np.ones((1, 2, 2)) / 2, 1, "a run", {}), {0: "black"}, "title")
    drawn.draw_without_rendering()
    shown = [text for text in axes.texts if text.get_text() in words]
    assert len(shown) == 4
    points = pd.DataFrame({"name": [], "x": [], "y": []})
    of_labels, _ = panels_of([[Panel("ours: $\\frac$", points)] * 2], "x")
    of_labels.draw_without_rendering()


@pytest.mark.slow
def test_a_label_may_begin_with_dashes(tmp_path):
    """Each rule that shows it hands it to its stage whole: what the stage reads from the rule's own command line."""
    project = copy_project(tmp_path)
    own = yaml.safe_load(own_corpus(project).read_text())
    own["scales"]["mine"]["label"] = "--x y"
    own["report"] = {"currency": "--$"}
    (project / "own.yaml").write_text(yaml.safe_dump(own))
    listing = snakemake(project, "-n", "-p", "--configfile", "own.yaml", "--config", "scale=mine")
    assert listing.returncode == 0, listing.stderr
    commands = re.findall(r"python -m transformer ((?:table|figure|report) .*?) 2>&1", listing.stdout)
    labels = set()
    for command in commands:
        verb, *words = shlex.split(command)
        args = {"table": table, "figure": figure, "report": report}[verb].parse(words)
        labels |= {getattr(args, "label", None)}
        assert verb != "report" or (args.label, args.currency) == ("--x y", "--$")
    assert labels == {None, "--x y", "mine: mine-dev"}


# Where a job is started.


def test_without_its_environment_the_workflow_says_so(tmp_path):
    """Rules call `python`, of which there is none here, or one without torch."""
    project = copy_project(tmp_path)
    bare = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "git", "env", "which"):
        (folder / tool).symlink_to(shutil.which(tool))
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    for found in ("none on PATH", f"{folder / 'python'}, which lacks the project's packages"):
        ended = subprocess.run(command, cwd=project, env=bare | {"PATH": str(folder)}, text=True, capture_output=True)
        assert ended.returncode == 1
        assert last_line(ended).startswith("Snakefile: expected `python` on PATH to be that of ")
        assert f"found {found}: activate the environment" in last_line(ended)
        (folder / "python").write_text("#!/bin/bash\nexit 1\n")
        (folder / "python").chmod(0o755)


GPUS = [ROOT / "workflow/scripts/gpus", "here", "1", "1", "true"]


@pytest.mark.parametrize("kind", ["another's", "a link", "a file"])
def test_the_folder_for_locks_on_gpus_is_ones_own(tmp_path, kind):
    place = tmp_path / f"gpus-{os.getuid()}-here"
    if kind == "another's":
        if os.getuid():
            pytest.skip("only root can make a folder of another user")
        place.mkdir(mode=0o777)
        os.chown(place, 12345, 12345)
    elif kind == "a link":
        (tmp_path / "other").mkdir()
        place.symlink_to(tmp_path / "other")
    elif kind == "a file":
        place.touch()
    env = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    env |= {"TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0"}
    ended = subprocess.run(GPUS, env=env, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    assert ended.stderr.startswith("gpus: ")
    assert ended.stderr.count("\n") == 1
    assert str(place) in ended.stderr
