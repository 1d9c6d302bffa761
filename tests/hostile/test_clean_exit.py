"""The end of programs: signals, closed and full outputs."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from msgspec import to_builtins
from support.project import ROOT
from support.toy import PREPROCESSING, PROCESSOR, heed_signals, write_text

# Signals

SCRIPT = ROOT / "workflow/scripts/tokenize_text.py"
# Snakemake starts a script with these lines, including the name of the original file.
PREAMBLE = """from types import SimpleNamespace as Names
from transformer.layout import Data
params = Names(data=Data("{folder}"), languages=["en", "de"], preprocessing={preprocessing}, longest=9)
files = Names(source=["{text}"], target=["{text}"], vocabulary=[])
snakemake = Names(input=files, params=params, log=["{log}"], threads=2, wildcards=Names(split="train"))
__file__ = "{script}"
"""


@pytest.fixture
def starting(tmp_path):
    """Yield a job while its two workers start. It will write to the folder `to`."""
    text = write_text(tmp_path / "text", ["one two three four ."] * 400_000)
    names = {"folder": tmp_path / "to", "text": text, "log": tmp_path / "log", "script": SCRIPT}
    preamble = PREAMBLE.format(preprocessing=to_builtins(PREPROCESSING), **names)
    write_text(tmp_path / "job.py", [preamble, SCRIPT.read_text("utf-8")])
    options = {"stderr": subprocess.PIPE, "env": PROCESSOR, "preexec_fn": heed_signals, "start_new_session": True}
    with psutil.Popen([sys.executable, tmp_path / "job.py"], **options) as process:
        while sum(map(catches_ctrl_c, process.children())) < 2:
            assert process.poll() is None
        yield process


def catches_ctrl_c(process: psutil.Process) -> bool:
    """Return true if Python is running in a process. An unblocked Ctrl-C would then end it with a traceback."""
    caught = re.search(r"SigCgt:\s(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    return bool(int(caught, 16) & 1 << signal.SIGINT - 1)


@pytest.fixture
def tokenizing(starting, tmp_path):
    while not any(path.stat().st_size for path in (tmp_path / "to").glob(".*.part")):
        assert starting.poll() is None
    return starting


@pytest.mark.parametrize("moment", ["starting", "tokenizing"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_stage_in_one_line(request, tmp_path, moment, number, code):
    """A terminal signals all processes. The workers print nothing, and no partial file is left."""
    job = request.getfixturevalue(moment)
    os.killpg(job.pid, number)
    _, shown = job.communicate(timeout=30)
    assert shown.decode() == f"transformer tokenize: ended by {number.name}\n"
    assert job.returncode == code
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_workers_end_with_a_job_that_is_killed(tokenizing, number, code):
    workers = tokenizing.children(recursive=True)
    assert len(workers) > 2  # the third process tracks resources
    tokenizing.send_signal(number)
    assert tokenizing.wait(30) == code
    assert psutil.wait_procs(workers, timeout=30)[1] == []


def test_a_signal_ends_the_learning_of_a_vocabulary_at_once(tmp_path):
    """SentencePiece does not respond to signals while it learns, for minutes or hours."""
    program = (
        "import os, signal, sys\n"
        "from transformer.process import clean_exit\n"
        "from transformer.data import corpus\n"
        "def train(**_): os.kill(os.getpid(), signal.SIGTERM); print('still here', file=sys.stderr)\n"
        "corpus.sentencepiece.SentencePieceTrainer.train = train\n"
        "with clean_exit('test'): corpus.learn([sys.argv[1]], 10, 10, 'model')"
    )
    text = write_text(tmp_path / "text", ["ab"])
    ended = subprocess.run([sys.executable, "-c", program, text], env=PROCESSOR, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, b"")


def test_a_second_signal_waits_for_files_to_be_removed(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from transformer.storage.files import replacing\n"
        "from transformer.process import clean_exit\n"
        "with clean_exit('test'), replacing(sys.argv[1]) as file:\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    finally: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "file"]
    ended = subprocess.run(command, env=PROCESSOR, capture_output=True, timeout=60, preexec_fn=heed_signals)
    assert (ended.returncode, ended.stderr) == (130, b"test: ended by SIGINT\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "code", "messages"),
    [
        ("logging.getLogger('transformer').info('as expected')", 0, ["as expected"]),
        ("open('/missing')", 1, ["transformer test: error: .*No such file or directory: '/missing'"]),
        ("1 / 0", 1, ["transformer test: error:", "Traceback .*", " .*", " .*", "ZeroDivisionError: division by zero"]),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_a_job_writes_the_same_to_its_log_and_to_the_terminal(tmp_path, body, code, messages, full):
    """A full disk under the log changes neither the terminal's output nor the exit code."""
    log = tmp_path / "log"
    if full:
        log.symlink_to("/dev/full")
    program = f"import logging\nfrom transformer.cli import job\nwith job('test', '{log}'):\n    {body}"
    ended = subprocess.run([sys.executable, "-c", program], env=PROCESSOR, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (code, "")
    for text in [ended.stderr] if full else [ended.stderr, log.read_text("utf-8")]:
        lines = text.splitlines()
        assert all(map(re.fullmatch, messages, lines[: len(messages) - 1] + lines[-1:]))
        assert len(lines) >= len(messages)


# Standard streams

PROGRAM = "import sys; from transformer.process import clean_exit\nwith clean_exit('program'): print('é')"


def shell(redirection: str, **env: str) -> subprocess.CompletedProcess:
    """Run a program that prints é, with an addition to its command line such as a closed output."""
    line = f"{shlex.join([sys.executable, '-c', PROGRAM])} {redirection}"
    return subprocess.run(["bash", "-c", line], cwd=ROOT, env=PROCESSOR | env, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        ("> /dev/full", 1, "program: error: .*No space left on device\n"),
        (">&- <&-", 0, ""),
        ("2>&-", 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", 128 + signal.SIGPIPE, ""),
    ],
)
def test_closed_and_full_streams(redirection, code, message):
    ended = shell(redirection)
    assert ended.returncode == code
    assert re.fullmatch(message, ended.stderr.decode())


def test_a_character_that_the_terminal_cannot_show_is_escaped():
    assert (shell("", PYTHONIOENCODING="ascii").stdout, shell("").stdout) == (b"\\xe9\n", "é\n".encode())
    command = [sys.executable, "-m", "transformer", "score", "--hyp", "ü", "--ref", "ü", "--lang", "de"]
    ended = subprocess.run(command, env=PROCESSOR | {"PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=60)
    assert ended.stderr.startswith(b"transformer score: error: \\xfc: ")
