"""`translate` answers lines as they arrive, and translates files in bulk."""

import json
import os
import subprocess
import sys

import pytest
from support.commands import do, error
from support.serving import make_trial
from support.toy import PROCESSOR, random_lines, write_text

import transformer
from transformer.commands import translate
from transformer.commands.translate import PIECE, arriving
from transformer.storage.files import LONGEST_LINE


def test_of_a_line_without_end_only_its_beginning_is_held():
    """This line is the last one, and the decoder rejects it."""
    reading, writing = os.pipe()
    with open(reading, "rb") as ours, subprocess.Popen(["yes", "no line feed"], stdout=subprocess.PIPE) as endless:
        command = ["sh", "-c", "printf 'one\\n'; exec tr -d '\\n'"]
        with subprocess.Popen(command, stdin=endless.stdout, stdout=writing):
            endless.stdout.close()
            os.close(writing)
            lines = [line for group in arriving(ours) for line in group]
            ours.close()
    assert lines[0] == b"one\n"
    assert [LONGEST_LINE < len(line) <= LONGEST_LINE + PIECE for line in lines[1:]] == [True]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an untrained run. Any answers are enough for these tests."""
    return make_trial(tmp_path_factory.mktemp("run") / "1")


def test_translate_answers_each_line_before_the_next_comes(run, tmp_path, monkeypatch):
    """A user at a terminal gets each answer immediately, and it equals the answer for a file.

    The error on a bad line contains its number. A line that arrives together with the bad line, before it, is answered.
    """
    lines = [line.encode() + b"\n" for line in random_lines(5, 4)]
    (tmp_path / "text").write_bytes(b"".join(lines))
    monkeypatch.setattr(translate, "TOGETHER", 3)
    do("translate", "--run", run, "--input", tmp_path / "text", "--output", tmp_path / "out")
    command = [sys.executable, "-m", "transformer", "translate", "--run", run, "--threads", "1"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes, env=PROCESSOR, bufsize=0) as process:
        answers = []
        for line in lines:
            process.stdin.write(line)
            answers.append(process.stdout.readline())
        process.stdin.write(lines[0] + b"ab " * 2000)  # without a line feed
        process.stdin.close()
        assert process.stdout.read() == answers[0]
        assert b"standard input: line 6: expected up to 1019 subwords" in process.stderr.read()
    assert process.returncode == 1
    assert b"".join(answers) == (tmp_path / "out").read_bytes()


def test_a_sentence_is_translated_like_a_file(run, tmp_path, capfd):
    (line,) = random_lines(5, 1)
    text = write_text(tmp_path / "text", [line])
    do("translate", "--run", run, "--input", text)
    expected = capfd.readouterr().out
    do("translate", line, "--run", run)
    assert capfd.readouterr().out == expected != ""
    assert error("translate", line, "--run", run, "--input", text).startswith("expected a sentence or --input, found ")
    assert error("translate", " ", "--run", run) == "expected a sentence, found a blank one"
    assert error("translate", "\udcff", "--run", run).startswith("sentence, line 1: expected UTF-8")


def test_options_of_other_toolkits(run, tmp_path):
    """The n best are in Moses' format, or in JSON with scores and tokens, and equal those of the Python interface."""
    lines, source = ["ab cd", "", "ef"], tmp_path / "text"
    write_text(source, lines)
    words = ["translate", "--run", run, "--input", source, "--output", tmp_path / "out"]
    words += ["--beam-size", 2, "--length-penalty", 1]
    do(*words, "--n-best", 2)
    expected = transformer.load(run).translate(lines, beam_size=2, length_penalty=1, n_best=2)
    found = [line.split(" ||| ") for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    every = [(number, one) for number, best in enumerate(expected) for one in (best, *best.others)]
    assert found == [[str(number), one.text, f"{one.score:.4f}"] for number, one in every]
    do(*words, "--json", "--n-best", 2)
    answers = list(map(json.loads, (tmp_path / "out").read_text("utf-8").splitlines()))
    assert answers == [
        {"source": line, "translations": best.ranked()} for line, best in zip(lines, expected, strict=True)
    ]
    assert error(*words, "--n-best", 3) == "n_best: expected 1 to 2 (the beam size), found 3"


def test_a_terminal_shows_the_training_data_once(run, tmp_path, monkeypatch, caplog):
    words = ["translate", "--run", run, "--input", write_text(tmp_path / "text", ["ab"]), "--output", tmp_path / "out"]
    do(*words)
    assert caplog.messages == []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    do(*words)
    assert caplog.messages[0] == "en-de/base/1, en to de. Data: toy: sentences to copy."
