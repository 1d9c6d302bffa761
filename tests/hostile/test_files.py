"""Damaged and foreign files: one line that names the file and what is wrong with it, and never a wrong result."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support.commands import do, error
from support.toy import forge, make_data, make_experiment, make_run, random_lines

from transformer.checksums import read_manifest, read_trained
from transformer.config.experiment import Decoding, load
from transformer.data.corpus import Counts
from transformer.files import InputError
from transformer.model import weights
from transformer.records import read_json, read_parses, read_translated
from transformer.report.tables.render import Cell, Grid, Table, read_table, write_table

RUN, DATA = "runs/en-de/base/1", "data/en-de"
TRAIN = f"train new --data {DATA} --threads 1".split()
TRANSLATE = f"translate --run {RUN} --input test.en --output {RUN}/test.hyp --threads 1".split()
SCORE = f"score --hyp {RUN}/test.hyp --ref test.en --lang de --run {RUN} --json {RUN}/test.json".split()

READERS: dict[str, Callable[[Path], Any]] = {
    f"{RUN}/experiment.yaml": load,
    f"{RUN}/decoding.yaml": partial(load, section=Decoding),
    f"{RUN}/run.json": read_trained,
    f"{RUN}/test.json": read_translated,
    f"{DATA}/data.json": read_manifest,
    f"{DATA}/train.json": partial(read_json, kind=Counts),
    "parses.json": lambda path: read_parses(path, "trees", 2),
    "table1.json": read_table,
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
    (f"{RUN}/test.json", ["scores", "sacrebleu"], "high", "scores.sacrebleu: expected object, found 'high'"),
    (f"{RUN}/test.json", ["draws", 3], float("nan"), "cannot be read as JSON"),
    ("parses.json", ["scores"], [0.5], "scores: expected 2, the lines of trees, found 1"),
    ("parses.json", ["repaired"], {"3": "x"}, "repaired: expected lines from 1 to 2, found '3'"),
    ("table1.json", ["grid", "rows", 0, "BLEU"], 3, "grid.rows.0.BLEU: expected str | a mapping, found 3"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a folder with a run, from its data to its scores, and with other files that commands read."""
    folder = tmp_path_factory.mktemp("made")
    make_data(folder / DATA, random_lines(1, 30), random_lines(2, 8))
    make_run(folder / RUN, make_experiment(steps=6))
    (folder / "test.en").write_text("ab cd\nef gh ij\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in (["train", RUN, *TRAIN[2:]], TRANSLATE, SCORE):
            do(*command)
    parses = {"sentences": 2, "repaired": {"2": "no tree"}, "scores": [-0.5, -0.7]}
    (folder / "parses.json").write_text(json.dumps(parses))
    grid = Grid(("Model",), [{"Model": "base", "BLEU": Cell("27.3", ("en-de/base/1",))}])
    table = Table("table1", "T", "C", grid, ["a note", ["a list"], grid])
    write_table(table, str(folder / "table1"), pd.DataFrame({"a": [1]}))
    return folder


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
    with pytest.raises(InputError, match=rf"^{path}: {re.escape(words)}"):
        READERS[name](path)


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(place: Path, factor: float):
    path, bad = place / RUN / "average.safetensors", "encoder.0.feed_forward.inner.weight"
    tensors, header = weights.load(path)
    weights.save(path, tensors | {bad: tensors[bad] * factor}, header)
    forge(path.parent)
    assert f"{path.name}: {bad}: expected finite numbers" in error(*TRANSLATE)


def test_damaged_lines_of_a_log_are_dropped_and_named(place: Path, caplog):
    """A training goes on: with binary garbage, a wrong type, half a line; the other lines stay."""
    shutil.copytree(place / RUN, place / "new")
    (place / "new/run.json").unlink()
    (state,) = (place / "new/state").glob("*/")
    (state / "run.json").unlink()
    log = state / "metrics.jsonl"
    good = log.read_bytes().splitlines(keepends=True)
    bad = [b"\x00\xff\n", b'{"step": "1"}\n', b'{"step": 1, "rate": NaN}\n', b'{"step": 2, "ra']
    log.write_bytes(b"".join([good[0], bad[0], *good[1:], *bad[1:]]))
    do(*TRAIN)
    assert (place / "new/metrics.jsonl").read_bytes().splitlines(keepends=True) == good
    dropped = [line for line in caplog.messages if line.startswith("dropped a damaged line")]
    numbers = [2, *range(len(good) + 2, len(good) + 5)]
    assert [int(re.search(r"metrics.jsonl, line (\d+)", line)[1]) for line in dropped] == numbers
