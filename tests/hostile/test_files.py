"""Damaged and foreign files: one line that names the file and what is wrong with it, and never a wrong result."""

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from support.commands import do, error
from support.page import attention
from support.scored import score
from support.toy import make_data, make_experiment, make_run, random_lines, write_text

from transformer.config.experiment import Decoding, load
from transformer.data.corpus import Counts, Manifest
from transformer.evaluation.analyses import PAYLOADS, Attention
from transformer.evaluation.layers import COSTS, LAYERS, Measured
from transformer.files import InputError
from transformer.model import weights
from transformer.records import Trained, read_json, read_of_run, read_parses, read_translated
from transformer.report.tables.render import Cell, Grid, Table, read_table, write_table
from transformer.training import loop

RUN, DATA = "runs/en-de/base/1", "data/en-de"
TRANSLATE = f"translate --run {RUN} --input test.en --output new.hyp --threads 1"
TRAIN = f"train new --data {DATA} --threads 1"

READERS: dict[str, Callable[[Path], Any]] = {
    f"{RUN}/experiment.yaml": load,
    f"{RUN}/decoding.yaml": partial(load, section=Decoding),
    f"{RUN}/run.json": partial(read_json, kind=Trained),
    f"{RUN}/test.json": read_translated,
    f"{DATA}/data.json": partial(read_json, kind=Manifest),
    f"{DATA}/train.json": partial(read_json, kind=Counts),
    "parses.json": lambda path: read_parses(path, "trees", 2),
    "layers.json": partial(read_json, kind=Measured),
    "attention.json": partial(read_json, kind=Attention),
    "table1.json": read_table,
    **{f"{name}.json": partial(read_of_run, kind=kind) for name, kind in PAYLOADS.items()},
}
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
    (f"{RUN}/experiment.yaml", ["training", "rate"], 1e9, "training.rate: expected float <= 1000000.0"),
    (f"{RUN}/experiment.yaml", ["model", "h"], -1, "model.h: expected int >= 1, found -1"),
    (f"{RUN}/decoding.yaml", ["alpha"], "much", "alpha: expected float, found 'much'"),
    (f"{RUN}/run.json", ["digest"], 5, "digest: expected str, found 5"),
    (f"{RUN}/test.json", ["scores", "sacrebleu"], "high", "scores.sacrebleu: expected object, found 'high'"),
    (f"{RUN}/test.json", ["draws", 3], float("nan"), "cannot be read as JSON"),
    (f"{DATA}/train.json", ["kept"], -3, "kept: expected int >= 0, found -3"),
    ("layers.json", ["times", 0, "seconds"], 0, "times[0].seconds: expected float > 0.0, found 0"),
    ("parses.json", ["scores"], [0.5], "scores: expected 2, the lines of trees, found 1"),
    ("parses.json", ["repaired"], {"3": "x"}, "repaired: expected lines from 1 to 2, found '3'"),
    ("table1.json", ["grid", "rows", 0, "BLEU"], 3, "grid.rows[0][...]: expected str | object, found int"),
    ("lengths.json", ["groups", 0, "tokens"], None, "groups[0].tokens: expected float, found None"),
    ("averaging.json", ["averages", 0, "checkpoints"], 0, "averages[0].checkpoints: expected int >= 1, found 0"),
]


SCORE = {"bleu": 30.0, "low": 29.0, "high": 31.0, "draws": [29.0, 31.0], "length_ratio": 1.0}
KIND = {"increase": [[0.1]], "distance": [[2.0]], "equal": 3.0}
KIND |= {"curve": [{"masked": 1, "layer": 1, "head": 1, "loss": 0.7}]}
KINDS = dict.fromkeys(("encoder", "decoder", "cross"), KIND)
MASKED, LONG = SCORE | {"kind": None, "masked": 0}, SCORE | {"times": None, "sentences": 5, "tokens": 4.5}
PAYLOAD = {
    "averaging": {"averages": [SCORE | {"checkpoints": 1, "perplexity": 2.0}]},
    "heads": {"layers": 1, "heads": 1, "loss": 0.5, "kinds": KINDS, "bleu": [MASKED]},
    "lengths": {"positions": "sinusoid", "longest": 9, "skipped": 0, "groups": [LONG]},
    "smoothing": {
        **{"epsilon_ls": 0.1, "perplexity": 2.0, "perplexity_draws": [2.0], "beams": [SCORE | {"beam": 4}]},
        "calibration": {"error": 0.1, "confidence": 0.5, "accuracy": 0.6},
    },
}


def train_run(folder: Path) -> None:
    """Make a run in a folder by the subcommands, from its data to the score of its translations."""
    make_data(folder / DATA, random_lines(1, 30), random_lines(2, 8))
    make_run(folder / RUN, make_experiment(steps=6))
    write_text(folder / "test.en", ["ab cd", "ef gh ij"])
    with contextlib.chdir(folder):
        do("train", RUN, "--data", DATA, "--threads", 1)
        do("average", "--run", RUN)
        do("translate", "--run", RUN, "--input", "test.en", "--output", f"{RUN}/test.hyp", "--threads", 1)
        texts = ["--hyp", f"{RUN}/test.hyp", "--ref", "test.en", "--lang", "de"]
        do("score", *texts, "--run", RUN, "--json", f"{RUN}/test.json")


def write_others(folder: Path) -> None:
    """Write, as the pipeline would, what the run does not have."""
    start = {"threads": 1, "hardware": "CPU", "versions": {"torch": "2"}, "commit": "c", "date": "d"}
    time = {"n": 8, "d": 4, "k": 3, "r": 3, "multiply_adds": 9, "seconds": 0.1, "quartiles": 0.01}
    times = [{"layer": layer, "grid": grid} | time for layer in COSTS for grid in "nd"]
    connections = [{"layer": layer, "n": 8, "path": 1, "sequential": 2} for layer in LAYERS]
    common = {"run": score(30.0)["run"], "language": "de", "sentences": 9, "target_sha256": "ab"}
    contents = {analysis: common | PAYLOAD[analysis] for analysis in PAYLOADS}
    contents |= {"layers": start | {"times": times, "connections": connections}, "attention": attention()}
    contents["parses"] = {"sentences": 2, "repaired": {"2": "no tree"}, "scores": [-0.5, -0.7]}
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    grid = Grid(("Model",), [{"Model": "base", "BLEU": Cell("27.3", ("en-de/base/1",))}])
    table = Table("table1", "T", "C", grid, ["a note", ["a list"], grid])
    write_table(table, str(folder / "table1"), pd.DataFrame({"a": [1]}))


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


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named(place: Path, name: str, damage: str):
    path = place / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(InputError, match=rf"^{path}\b[^\n]*$"):
        READERS[name](path)


@pytest.mark.parametrize(("name", "keys", "value", "words"), VALUES)
def test_an_impossible_value_is_named(place: Path, name: str, keys: list, value: Any, words: str):
    path = place / name
    content = target = yaml.safe_load(path.read_text())  # JSON is YAML
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    path.write_text(yaml.safe_dump(content) if name.endswith("yaml") else json.dumps(content))
    with pytest.raises(InputError, match=rf"^{path}[:,] {re.escape(words)}"):
        READERS[name](path)


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
    message = error(*command.split())
    assert f"{paths[0].name}: {WEIGHT}: {words}" in message


@pytest.mark.parametrize(("owner", "name"), [(loop.Learner, "update"), (loop.Evaluation, "perplexity")])
def test_full_memory_in_training_is_one_line(place: Path, monkeypatch, capsys, owner: type, name: str):
    """With the step and the last state before it, without a traceback."""
    monkeypatch.setattr(owner, name, lambda *_, **__: torch.empty(1 << 50))
    message = error(*TRAIN.split())
    assert re.search("^step .* RuntimeError: .*can't allocate memory.*; last state: ", message)
    assert "Traceback" not in capsys.readouterr().err


def test_damaged_lines_of_a_log_are_dropped_and_named(place: Path, caplog):
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
    do(*TRAIN.split())
    assert (place / "new/metrics.jsonl").read_bytes().splitlines(keepends=True) == good
    dropped = [line for line in caplog.messages if line.startswith("dropped a damaged line")]
    numbers = [2, *range(len(good) + 2, len(good) + 5)]
    assert [int(re.search(r"metrics.jsonl, line (\d+)", line)[1]) for line in dropped] == numbers
