"""Inputs of ill will: files that never end, words that look like code, brackets without end."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from msgspec.structs import asdict
from support.commands import error
from support.project import ROOT, copy_project, own_corpus, snakemake
from support.toy import (
    PREPARATION,
    PROCESSOR,
    make_experiment,
    make_run,
    write_text,
)

from transformer.commands import figure, report, table
from transformer.config import settings
from transformer.data.subwords import Subwords
from transformer.files import InputError
from transformer.parsing.trees import bracketed, parse
from transformer.report.figures.cost import Panel, panels_of
from transformer.report.figures.heads import Sentence, draw
from transformer.report.figures.style import new

PROGRAM = [sys.executable, "-m", "transformer"]
ENDLESS = {"pipe": "a named pipe", "socket": "a socket", "/dev/zero": "a device"}
DEEP = 200_000


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
    tokenize = ["--languages", "en", "de", "--processes", "1", "--preparation", json.dumps(asdict(PREPARATION))]
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
    for path, shell in (
        ("/dev/stdin", "< <(echo ab)"),
        ("/dev/fd/9", "9< <(echo ab)"),
        ("/proc/self/fd/9", "9< <(echo ab)"),
    ):
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
        settings.check_files(config)


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
    stages = {"table": table, "figure": figure, "report": report}
    labels, verbs = set(), set()
    for command in commands:
        verb, *words = shlex.split(command)
        args = stages[verb].parse(words)
        labels |= {getattr(args, "label", None)}
        assert verb != "report" or (args.label, args.currency) == ("--x y", "--$")
        verbs.add(verb)
    assert verbs == {*stages}
    assert labels == {None, "--x y", "mine: mine-dev"}


def test_brackets_without_end():
    """As deep as no recursion reaches; one that is missing is missed."""
    tree = f"{'(S ' * DEEP}(A a){')' * DEEP}"
    ((_, read),) = parse([tree], "trees")
    assert bracketed(read) == tree
    with pytest.raises(InputError, match=r"trees, line 1: unbalanced brackets: .* lacks 1 '\)'"):
        list(parse([tree[:-1]], "trees"))
