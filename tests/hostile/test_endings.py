"""Unusual input and unusual launches end soon, with the right value or one clear line, and without lost files."""

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from support.commands import do, error
from support.project import ROOT
from support.toy import write_text

from transformer.config import settings
from transformer.data.tokenization import Normalizer
from transformer.device import use_threads
from transformer.storage.files import InputError, replacing, sha256
from transformer.training.distributed import joined

TREE = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))))"


@pytest.fixture(autouse=True)
def soon():
    """End a test that takes longer than a minute. Normally each test takes a second or two."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("no end in a minute"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize(
    ("start", "mark", "end", "most"),
    [('"', ".", "", 10**6), ("", ".", '"a', 10**6), ('"', ",", "", 10**6), ("", '."', "", 50_000)],
)
def test_the_longest_lines_are_normalised(language: str, start: str, mark: str, end: str, most: int):
    longest = start + mark * most + end
    assert len(Normalizer(language).normalize(longest)) == len(longest)


@pytest.mark.parametrize(
    ("lines", "language", "left_out"),
    [
        (["wort " * 300, "ein Wort"], "de", False),
        (["wort " * 301, "ein Wort"], "de", True),
        (["狗" * 301], "zh", True),
        (["wort " * 50] * 60, "de", False),
        (["wort " * 80] * 60, "de", True),
    ],
    ids=["300 words", "301 words", "301 characters", "3,000 words", "4,800 words"],
)
def test_ter_is_left_out_where_it_would_take_minutes(
    tmp_path: Path, capsys, lines: list, language: str, left_out: bool
):
    text, output = write_text(tmp_path / "text", lines), tmp_path / "json"
    do("score", "--hyp", text, "--ref", text, "--lang", language, "--json", output)
    problem = "! TER is left out: expected lines of up to 300 words, and up to 3,000 words"
    assert (problem in capsys.readouterr().out) == left_out
    assert ("ter" not in json.loads(output.read_text())["scores"]) == left_out


@contextmanager
def pipe(text: bytes):
    """Yield the path of a pipe that provides this text once."""
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    yield f"/dev/fd/{reading}"
    os.close(reading)


@pytest.mark.parametrize(
    ("command", "line", "sides"), [("score --lang de", "ein Hund .", "hyp ref"), ("evalb", TREE, "test gold")]
)
def test_a_pipe_is_read_once(tmp_path: Path, command: str, line: str, sides: str):
    (piped, other), output, text = sides.split(), tmp_path / "json", write_text(tmp_path / "text", [line])
    with pipe(text.read_bytes()) as path:
        do(*command.split(), f"--{piped}", path, f"--{other}", text, "--json", output)
    written = json.loads(output.read_text())
    assert written[f"{piped}_sha256"] == written[f"{other}_sha256"] == sha256(text)
    with pipe(text.read_bytes() * 3) as path:
        problem = error(*command.split(), f"--{piped}", path, f"--{other}", text)
    assert {f"{path} has 3", f"{text} has 1"} == set(problem.partition("found: ")[2].split(", "))


@pytest.mark.parametrize(
    ("gold", "test", "f1", "skipped"),
    [
        (TREE, "(())", None, 1),
        ("(S (CD 10\u3000000) (NNS\tcats))", "(S (CD 10\u3000000) (NNS cats))", 100, 0),
    ],
)
def test_failed_parses_and_foreign_blanks(tmp_path: Path, gold: str, test: str, f1: float | None, skipped: int):
    files = [write_text(tmp_path / name, [line]) for name, line in (("gold", gold), ("test", test))]
    do("evalb", "--gold", files[0], "--test", files[1], "--json", tmp_path / "json")
    scores = json.loads((tmp_path / "json").read_text())["scores"]["all"]
    assert (scores["f1"], scores["skipped"], scores["errors"]) == (f1, skipped, 0)


@pytest.mark.parametrize("name", ["results", "results/demo", "resources", "logs"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, monkeypatch, name: str):
    monkeypatch.chdir(ROOT)
    content = settings.changes(["config.yaml"], [])
    monkeypatch.chdir(tmp_path)
    settings.accept(content)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("mine")
    with pytest.raises(SystemExit, match=f"^{name}: expected a folder or none, found a file$"):
        settings.accept(content)


LAUNCH = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE: expected a number from 1 .*, found two"),
        ({"RANK": None}, "RANK: expected a number from 0 to 1 .*, found nothing"),
        ({"MASTER_ADDR": "a..b"}, r"MASTER_ADDR: expected rank 0's machine, found a\.\.b: "),
    ],
)
def test_a_wrong_launch_is_one_line(monkeypatch, on_the_processor, changes: dict, problem: str):
    for name, value in (LAUNCH | changes).items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"^{problem}"), joined():
        pass


def test_more_threads_than_any_machine_serves_are_refused():
    with pytest.raises(InputError, match=r"^--threads: expected up to .* \(16 per processor\), found 1000000$"):
        use_threads(10**6)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot set the affinity")
def test_the_number_of_threads_is_that_of_the_available_processors():
    """A cluster job may have only some of a node's processors."""
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {min(before)})
    try:
        use_threads(None)
        assert torch.get_num_threads() == 1
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def test_a_link_at_a_temporary_name_is_not_followed(tmp_path: Path, monkeypatch):
    mine, names = write_text(tmp_path / "mine", ["years of work"]), set()
    for _ in range(2):
        with replacing(tmp_path / "out"):
            names |= {path.name for path in tmp_path.glob(".out.*.part")}
    assert len(names) == 2
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".out.guessed.part").symlink_to(mine)
    with pytest.raises(FileExistsError), replacing(tmp_path / "out"):
        pass
    assert mine.read_text() == "years of work\n"
