"""Damaged and foreign files: one line that names the file and what is wrong with it, and never a wrong result."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.made import DATA, RUN, train_run, write_others

from transformer import __main__
from transformer.commands import translate
from transformer.model import weights
from transformer.training import loop

PAPER = Path(__file__).parents[2] / "workflow/paper"
FIGURE = "--output figure"
SCORE = f"score --hyp {RUN}/test.hyp --ref test.en --lang de --run {RUN}"
TRANSLATE = f"translate --run {RUN} --input test.en --output new.hyp --threads 1"
CURVES = f"figure curves --metrics {RUN}/metrics.jsonl --expected --paper {PAPER}/table3.csv --task en-de --label L"
CURVES += f" {FIGURE}"
REPORT = "report --scale s --title T --label L --samples 1 --output report.html"
TABLE5 = f"table table5 --paper {PAPER}/table5.csv --label L --score --output table"

# By file: a command that reads it.
READERS = {
    f"{RUN}/experiment.yaml": TRANSLATE,
    f"{RUN}/decoding.yaml": TRANSLATE,
    f"{RUN}/run.json": SCORE,
    f"{RUN}/average.safetensors": TRANSLATE,
    f"{RUN}/vocabulary.model": TRANSLATE,
    f"{RUN}/test.json": f"table table2 --paper {PAPER}/table2.csv --label L --score {RUN}/test.json --output table",
    f"{RUN}/metrics.jsonl": CURVES,
    f"{DATA}/data.json": f"train new --data {DATA} --threads 1",
    f"{DATA}/train.json": f"encode --data {DATA} --splits train --processes 1",
    "layers.json": f"table table1 --paper {PAPER}/table1.csv --measured layers.json --output table",
    "attention.json": f"figure figure5 --attention attention.json {FIGURE}",
    "parses.json": "silver --trees trees --parses parses.json --keep 1 --most-words 9 --output silver.trees",
    "run.json": f"{REPORT} --run run.json",
    "table1.json": f"{REPORT} --table table1.json",
    "figure.json": f"{REPORT} --figure figure.svg",
    "heads.json": f"figure head_importance --heads heads.json {FIGURE}",
    "lengths.json": f"figure bleu_length --lengths lengths.json --expected --label L {FIGURE}",
    "averaging.json": f"{TABLE5} --averaging averaging.json",
    "smoothing.json": f"{TABLE5} --smoothing smoothing.json",
}
TEXTS = [name for name in READERS if name.endswith((".json", ".yaml"))]
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "too deep": lambda content: b"[\n" * 3_000,
    "not UTF-8": lambda content: b"\xff" + content,
    "a list": lambda content: b"[1, 2]",
    "half a character": lambda content: b'{"\\ud800": "\\udfff"}',
    "a key twice": lambda content: b'{"a": 1, "a": 2}',
}
# Single values: the file, the keys, the value there, and the words that say so.
VALUES: list[tuple[str, list, Any, str]] = [
    (
        f"{RUN}/experiment.yaml",
        ["training", "rate"],
        float("nan"),
        "training.rate: expected a finite number, found nan",
    ),
    (f"{RUN}/experiment.yaml", ["model", "h"], -1, "model.h: expected int >= 1, found -1"),
    (f"{RUN}/experiment.yaml", ["model", "d_ff"], 10**6, "expected shape (1000000,"),
    (f"{RUN}/decoding.yaml", ["alpha"], "much", "alpha: expected float, found 'much'"),
    (f"{RUN}/run.json", ["digest"], 5, "run.json, digest: expected str, found 5"),
    (f"{RUN}/test.json", ["scores", "sacrebleu"], "high", "test.json, scores.sacrebleu: expected object, found 'high'"),
    (f"{RUN}/test.json", ["run", "averaged_steps"], [], "run.averaged_steps: expected array of length >= 1, found []"),
    (f"{RUN}/test.json", ["draws", 3], float("nan"), "draws[3]: expected a finite number, found nan"),
    (f"{DATA}/data.json", ["files", "vocabulary.model"], "00", "data.json, sha256: expected"),
    (f"{DATA}/train.json", ["kept"], -3, "train.json, kept: expected int >= 0, found -3"),
    ("layers.json", ["times", 0, "seconds"], 0, "times[0].seconds: expected float > 0.0, found 0"),
    ("attention.json", ["sentences", 0, "encoder", 0, 0, 0, 0], float("nan"), "expected a finite number, found nan"),
    ("attention.json", ["sentences", 1, "cross"], [[[[1]]]], "sentence 2, cross: expected weights of shape"),
    ("parses.json", ["scores"], [0.5], "parses.json, scores: expected 2, the lines of trees, found 1"),
    ("parses.json", ["repaired"], {"3": "x"}, "repaired: expected lines from 1 to 2, found '3'"),
    ("parses.json", ["repaired"], {"01": "x"}, "repaired: expected lines from 1 to 2, found '01'"),
    ("run.json", ["starts"], [], "starts: expected array of length >= 1, found []"),
    ("table1.json", ["grid", "rows", 0, "BLEU"], 3, "table1.json, grid.rows[0][...]: expected str | object, found int"),
    ("figure.json", ["inches"], "wide", "figure.json, inches: expected float, found 'wide'"),
    ("heads.json", ["kinds", "encoder", "increase"], [[0.1, 0.2]], "expected 1 layers of 1 heads, found shape (1, 2)"),
    ("lengths.json", ["groups", 0, "tokens"], None, "groups[0].tokens: expected float, found None"),
    ("averaging.json", ["averages", 0, "checkpoints"], 0, "averages[0].checkpoints: expected int >= 1, found 0"),
    ("smoothing.json", ["epsilon_ls"], 1.5, "epsilon_ls: expected float <= 1.0, found 1.5"),
]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    train_run(folder)
    write_others(folder)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch) -> Path:
    """Return a folder, which is the working one, with copies that a test may damage."""
    shutil.copytree(made, tmp_path / "place")
    shutil.copytree(made / RUN, tmp_path / "place/new")
    shutil.rmtree(tmp_path / "place/new/state")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def refused(command: str) -> str:
    """Return the one line with which a command ends."""
    with pytest.raises(SystemExit) as error:
        __main__.main(command.split())
    message = str(error.value)
    assert message.startswith(f"transformer {command.split()[0]}: error: ")
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_file_is_named(place: Path, name: str, damage: str):
    path = place / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert name in refused(READERS[name])
    assert not [left for left in place.rglob("*.part")]


@pytest.mark.parametrize(("name", "keys", "value", "words"), VALUES)
def test_an_impossible_value_is_named(place: Path, name: str, keys: list, value: Any, words: str):
    path = place / name
    content = target = (yaml.safe_load if name.endswith("yaml") else json.loads)(path.read_text())
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    path.write_text(yaml.safe_dump(content) if name.endswith("yaml") else json.dumps(content))
    message = refused(READERS[name])
    assert words in message
    assert Path(name).parts[0] in message


@pytest.mark.parametrize("name", ["average.safetensors", "vocabulary.model"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "too deep", "not UTF-8"])
def test_damaged_weights_and_vocabularies_are_named(place: Path, name: str, damage: str):
    path = place / RUN / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert name in refused(TRANSLATE)


WEIGHT = "encoder.0.feed_forward.inner.weight"
CHANGES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "nan": (lambda tensor: tensor * float("nan"), "expected finite numbers"),
    "infinite": (lambda tensor: tensor / 0, "expected finite numbers"),
    "double": (torch.Tensor.double, "expected torch.float32, found torch.float64"),
    "half": (torch.Tensor.half, "expected torch.float32, found torch.float16"),  # one tensor, among others that are not
    "turned": (lambda tensor: tensor.T.contiguous(), "expected shape"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", [TRANSLATE, f"export --run {RUN} --to exported", f"average --run {RUN}"])
def test_weights_that_the_model_cannot_have_are_named(place: Path, change: str, command: str):
    paths = [place / RUN / "average.safetensors"]
    if command.startswith("average"):
        paths = sorted((place / RUN / "checkpoints").iterdir())[1:2]
        paths[0].rename(place / "linked")  # another name of last.safetensors, perhaps
        shutil.copyfile(place / "linked", paths[0])
    altered, words = CHANGES[change]
    tensors, header = weights.load(paths[0])
    weights.save(paths[0], tensors | {WEIGHT: altered(tensors[WEIGHT])}, header)
    message = refused(command)
    assert f"{paths[0].name}: {WEIGHT}: {words}" in message


@pytest.mark.parametrize(("owner", "name"), [(loop.Learner, "update"), (loop.Evaluation, "perplexity")])
def test_full_memory_in_training_is_one_line(place: Path, monkeypatch, capsys, owner: type, name: str):
    """With the step and the last state before it, without a traceback."""
    monkeypatch.setattr(owner, name, lambda *_, **__: torch.empty(1 << 50))
    message = refused(f"train new --data {DATA} --threads 1")
    assert re.search("error: step .* RuntimeError: .*can't allocate memory.*; last state: ", message)
    assert "Traceback" not in capsys.readouterr().err


def test_damaged_lines_of_a_log_are_dropped_and_named(place: Path, capsys):
    """A training goes on: with binary garbage, a wrong type, half a line; the other lines stay."""
    shutil.rmtree(place / "new")
    shutil.copytree(place / RUN, place / "new")
    (place / "new/run.json").unlink()
    (state,) = (place / "new/state").glob("*/")
    (state / "run.json").unlink()
    log = state / "metrics.jsonl"
    good = log.read_bytes().splitlines(keepends=True)
    bad = [b"\x00\xff\n", b'{"step": "1"}\n', b'{"step": 1, "rate": NaN}\n', b'{"step": 2, "ra']
    log.write_bytes(b"".join([good[0], bad[0], *good[1:], *bad[1:]]))
    __main__.main(["train", "new", "--data", DATA, "--threads", "1"])
    assert (place / "new/metrics.jsonl").read_bytes().splitlines(keepends=True) == good
    dropped = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dropped a damaged line")]
    numbers = [2, *range(len(good) + 2, len(good) + 5)]
    assert [f"metrics.jsonl, line {number}" in line for number, line in zip(numbers, dropped, strict=True)] == [
        True
    ] * 4


def test_a_damaged_log_is_not_drawn(place: Path):
    log = place / RUN / "metrics.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    assert "metrics.jsonl, line" in refused(CURVES)


def test_a_mark_at_the_start_of_a_text_is_no_part_of_it(place: Path):
    __main__.main(TRANSLATE.split())
    expected = (place / "new.hyp").read_bytes()
    (place / "test.en").write_bytes(b"\xef\xbb\xbf" + (place / "test.en").read_bytes())
    __main__.main(TRANSLATE.split())
    assert (place / "new.hyp").read_bytes() == expected


def test_sentencepiece_s_own_space_is_counted_once_for_all_groups(place: Path, caplog, monkeypatch):
    """Also where the text ends at a bad line."""
    monkeypatch.setattr(translate, "TOGETHER", 2)
    (place / "test.en").write_bytes("ab\u2581cd\nef\ng\u2581h\n".encode() * 3 + b"\xff\n")
    assert "test.en, line 10: expected UTF-8" in refused(TRANSLATE)
    assert caplog.messages == ["test.en: 6 lines hold \u2581 (U+2581), which is read as a space"]
