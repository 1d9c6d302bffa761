"""Lines as they arrive: through pipes whose writers take their time, and through `translate` itself."""

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.toy import PROCESSOR, make_experiment, make_run, make_vocabulary, random_lines, random_model

from transformer.model import weights as checkpoints
from transformer.translation.stream import PIECE, Arriving, chunks


@pytest.fixture
def pipe():
    """Both ends, unbuffered."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as ours, open(writing, "wb", buffering=0) as theirs:
        yield ours, theirs


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\xff", b""]), max_size=20))
def test_lines_are_cut_as_files_cut_them(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"".join(pieces))
    with open(path, "rb") as file, open(path, "rb") as same:
        assert list(Arriving(file)) == list(same)


def test_lines_longer_than_a_piece(tmp_path):
    lines = [b"a" * (PIECE - 1) + b"\n", b"b" * PIECE + b"\n", b"c" * (3 * PIECE)]
    (tmp_path / "text").write_bytes(b"".join(lines))
    with open(tmp_path / "text", "rb") as file:
        assert list(Arriving(file)) == lines


def test_what_is_there_comes_in_bulk(tmp_path):
    (tmp_path / "text").write_bytes(b"".join(b"%d\n" % n for n in range(10)))
    with open(tmp_path / "text", "rb") as file:
        arriving = Arriving(file)
        assert [len(chunk) for chunk in chunks(arriving, arriving.ready, 4)] == [4, 4, 2]


def test_what_is_there_is_not_held_back(pipe):
    """Neither by a writer that is silent, nor by one in the middle of a line."""
    reading, writing = pipe
    arriving = Arriving(reading)
    found = chunks(arriving, arriving.ready, 1000)
    writing.write(b"one\n")
    assert next(found) == [b"one\n"]
    writing.write(b"two\nthree\nfo")
    assert next(found) == [b"two\n", b"three\n"]
    writing.write(b"ur")
    writing.close()
    assert list(found) == [[b"four"]]


def test_no_line_is_not_ready(pipe):
    reading, writing = pipe
    arriving = Arriving(reading)
    assert not arriving.ready(time.monotonic() + 0.01)
    writing.write(b"one\n")
    assert arriving.ready(0.0)
    assert next(arriving) == b"one\n"
    writing.close()
    assert not arriving.ready(time.monotonic() + 60)
    assert next(arriving, None) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that has learned nothing, which is enough to answer."""
    run = make_run(tmp_path_factory.mktemp("run") / "1", make_experiment())
    make_vocabulary(run / "vocabulary.model")
    checkpoints.save(run / "average.safetensors", random_model(1).state_dict(), {})
    return run


def test_translate_answers_each_line_before_the_next_comes(run):
    """As a person at a terminal expects, or a program that asks and waits."""
    command = [sys.executable, "-m", "transformer", "translate", "--run", run, "--threads", "1"]
    lines = [line.encode() + b"\n" for line in random_lines(5, 4)]
    whole = subprocess.run(command, input=b"".join(lines), capture_output=True, env=PROCESSOR, check=True).stdout
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=PROCESSOR, bufsize=0) as process:
        answers = []
        for line in lines:
            process.stdin.write(line)
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.stdout.read() == b""
    assert b"".join(answers) == whole


def test_what_was_read_before_a_bad_line_is_answered(run):
    """And the line is named by its place in the whole text."""
    command = [sys.executable, "-m", "transformer", "translate", "--run", run, "--threads", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PROCESSOR, bufsize=0
    ) as process:
        process.stdin.write(b"ab\n")
        assert process.stdout.readline().endswith(b"\n")
        process.stdin.write(b"cd\n" + b"ab " * 2000 + b"\n")
        process.stdin.close()
        assert b"standard input: line 3: 2001 subwords, at most" in process.stderr.read()
    assert process.returncode == 1


@pytest.mark.parametrize("bad", [b"bad \xff", b"ab " * 2000], ids=["bytes", "length"])
def test_lines_that_came_with_a_bad_one_are_answered(run, tmp_path, bad):
    """All of them, however many were read together with it."""
    (tmp_path / "text").write_bytes(b"ab cd\nab\n" + bad + b"\nef\n")
    command = [sys.executable, "-m", "transformer", "translate", "--run", run, "--input", tmp_path / "text"]
    found = subprocess.run([*command, "--threads", "1"], capture_output=True, env=PROCESSOR, check=False)
    assert found.returncode == 1
    assert found.stdout.count(b"\n") == 2
    assert b"line 3: " in found.stderr
