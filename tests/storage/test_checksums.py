"""Foreign and damaged files cause one line with the file's name, never a wrong result."""

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
from support.toy import forge, make_data, make_experiment, make_run, random_lines, write_text

from transformer.config.experiment import Decoding, load, save, verified_run
from transformer.data.corpus import Counts, Subwords, learn
from transformer.data.preprocessing import encode_splits
from transformer.layout import Data, Run
from transformer.model import weights
from transformer.report import page
from transformer.report.tables.render import Cell, Grid, Table, write_table
from transformer.storage.checksums import read_manifest, read_trained
from transformer.storage.files import InputError
from transformer.storage.records import read_json, read_parses, read_translated
from transformer.training import loop
from transformer.training.distributed import World

ROOT = Path(__file__).parents[2]
RUN, DATA, EXPORT = "runs/en-de/base/1", "data/en-de", "export"
PAIRS = ["--source", "test.en", "--target", "test.en", "--sentences", 10, "--output", "out.json"]
COMMANDS = {
    "train": ["train", RUN, "--data", DATA, "--threads", 1],
    "translate": ["translate", "--run", RUN, "--input", "test.en", "--output", "out"],
    "score": ["score", "--hyp", f"{RUN}/test.hyp", "--ref", "test.en", "--lang", "de", "--run", RUN],
    "export": ["export", "--run", RUN, "--to", "again"],
    "averaging": ["analyse", "averaging", "--run", RUN, "--checkpoints", 1, *PAIRS],
    "lengths": ["analyse", "lengths", "--run", RUN, "--data", DATA, "--times", 1, *PAIRS],
    "translate by export": ["translate", "--run", EXPORT, "--input", "test.en", "--output", "out"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a folder with a run from its data to its export, with files of other runs and further inputs."""
    folder = tmp_path_factory.mktemp("made")
    make_data(folder / DATA, random_lines(1, 30), random_lines(2, 8))
    make_data(folder / "other", random_lines(3, 30), random_lines(4, 8))
    text = write_text(folder / "backwards.txt", [line[::-1] for line in random_lines(0, 200)])
    learn([text], 28, 1000, folder / "backwards.model")
    assert len(Subwords(folder / "backwards.model")) == len(Subwords(folder / DATA / "vocabulary.model"))
    make_run(folder / RUN, make_experiment(steps=6))
    write_text(folder / "test.en", ["ab cd", "ef gh ij", "kl", "mn op"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        do(*COMMANDS["train"])
        do(*COMMANDS["translate"][:-1], f"{RUN}/test.hyp")
        do(*COMMANDS["score"], "--json", f"{RUN}/test.json")
        do("export", "--run", RUN, "--to", EXPORT)
    parses = {"sentences": 2, "repaired": {"2": "no tree"}, "scores": [-0.5, -0.7]}
    (folder / "parses.json").write_text(json.dumps(parses))
    grid = Grid(("Model",), [{"Model": "base", "BLEU": Cell("27.3", ("en-de/base/1",))}])
    table = Table("table1", "T", "C", grid, ["a note", ["a list"], grid])
    write_table(table, str(folder / "table1"), pd.DataFrame({"a": [1]}))
    return folder


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def of(other: str) -> Callable[[Path], None]:
    return lambda path: shutil.copy(other, path)


def with_model(**changes) -> Callable[[Path], None]:
    """Change settings without changing the shape of a weight."""
    return lambda path: save(make_experiment(steps=6, model=changes), path)


def count_again(path: Path) -> None:
    path.write_text(path.read_text().replace('"flops": ', '"flops": 1'))


MODEL, RECORD = f"{RUN}/vocabulary.model", f"{RUN}/experiment.yaml"
FAULTS = [  # the file, its fault, the command that reads it next
    *((f"{DATA}/{name}", of(f"other/{name}"), "train") for name in ("train.source.ids", "dev.target.ids")),
    *((f"{DATA}/{name}", flip, "train") for name in ("train.target.ids", "train.source.offsets", "vocabulary.model")),
    (f"{DATA}/train.source.offsets", flip, "lengths"),
    *((f"{DATA}/{split}.{side}.tok", flip, "encode") for split, side in (("train", "source"), ("dev", "target"))),
    (f"{DATA}/vocabulary.model", of("backwards.model"), "train"),
    *((MODEL, of("backwards.model"), command) for command in ("translate", "score", "export", "averaging")),
    (RECORD, with_model(h=1, d_k=14, d_v=22), "score"),  # each command verifies a run with the same function
    (f"{RUN}/run.json", count_again, "translate"),
    *((f"{RUN}/average.safetensors", change, "translate") for change in (flip, cut, of(f"{RUN}/last.safetensors"))),
    (f"{DATA}/train.source.ids", cut, "train"),
    (f"{DATA}/data.json", lambda path: path.write_text(path.read_text().replace('ids": "', 'ids": "0')), "train"),
    *((path, cut, "averaging") for path in (f"{RUN}/checkpoints/00000006.safetensors",)),
    (f"{EXPORT}/experiment.yaml", with_model(scaled=False), "translate by export"),
    (f"{EXPORT}/vocabulary.model", of("backwards.model"), "translate by export"),
    (f"{EXPORT}/decoding.yaml", lambda path: path.write_text(path.read_text() + "\n"), "translate by export"),
]


NUMBERS = [f"{number} {Path(name).name}" for number, (name, *_) in enumerate(FAULTS)]


@pytest.mark.usefixtures("on_the_processor")
@pytest.mark.parametrize(("name", "change", "command"), FAULTS, ids=NUMBERS)
def test_a_file_of_others_or_a_damaged_one_is_refused(place, name, change, command):
    if command == "train":
        shutil.rmtree(place / RUN)
        make_run(place / RUN, make_experiment(steps=6))
    change(place / name)
    with pytest.raises((SystemExit, InputError)) as stopped:
        encode_splits(Data(DATA), processes=1) if command == "encode" else do(*COMMANDS[command])
    assert name in str(stopped.value)
    assert "\n" not in str(stopped.value)


@pytest.mark.usefixtures("on_the_processor")
def test_a_finished_run_stays_though_its_data_are_damaged(place, caplog):
    before = read_trained(Run(RUN).record)
    cut(place / DATA / "dev.source.ids")
    do(*COMMANDS["train"])
    assert f"{DATA}/dev.source.ids: damaged, or replaced after {DATA}/data.json was written" in caplog.text
    assert read_trained(Run(RUN).record) == before
    flip(place / DATA / "vocabulary.model")
    with pytest.raises(SystemExit, match=f"{DATA}/vocabulary.model: damaged, or replaced after"):
        do(*COMMANDS["train"])


def sampled(place: Path):
    return page._sample_translations("run", f"{RUN}/test.hyp", "test.en", "test.en", 1)


@pytest.mark.parametrize("name", [f"{RUN}/test.hyp", "test.en"])
def test_the_page_shows_the_scored_translation(place, name):
    sampled(place)
    flip(place / name)
    with pytest.raises(InputError, match=f"^{name}: damaged, or replaced after {RUN}/test.json was written"):
        sampled(place)


def test_older_records_are_read_as_they_are(place):
    """They have no checksums of their files."""
    record = read_trained(Run(RUN).record)
    assert record["files"].keys() == {"vocabulary.model", "average.safetensors", "last.safetensors", "metrics.jsonl"}
    forge(place / RUN)
    assert "files" not in read_trained(Run(RUN).record)
    of("backwards.model")(place / MODEL)
    do(*COMMANDS["translate"])
    recorded = sorted(ROOT.glob("results/record/*/runs/*/*/*/run.json"))
    assert len(recorded) > 50
    for run in (Run(path.parent) for path in recorded):
        verified_run(run, *(path for path in (run.vocabulary, run.average) if path.exists()))
    assert all(map(read_manifest, ROOT.glob("results/record/*/data/*/data.json")))


@pytest.mark.usefixtures("on_the_processor")
def test_each_of_several_processes_reads_a_share(place, monkeypatch):
    """The fault found by one process is reported to all."""
    read, data, processor = [], Data(DATA), torch.device("cpu")
    monkeypatch.setattr(loop, "require_sums", lambda record, sums, paths: read.extend(path.name for path in paths))
    monkeypatch.setattr(World, "gather", lambda world, value: [value, "dev.target.ids: damaged"][: world.size])
    assert loop._data_fault(data, {}, World(0, 1, processor)) is None
    assert len(set(read)) == len(read) == 9
    read.clear()
    assert {loop._data_fault(data, {}, World(rank, 2, processor)) for rank in range(2)} == {"dev.target.ids: damaged"}
    assert len(set(read)) == len(read) == 9


# Files not written by this project

READERS: dict[str, Callable[[Path], Any]] = {
    f"{RUN}/experiment.yaml": load,
    f"{RUN}/decoding.yaml": partial(load, section=Decoding),
    f"{RUN}/run.json": read_trained,
    f"{RUN}/test.json": read_translated,
    f"{DATA}/data.json": read_manifest,
    f"{DATA}/train.json": partial(read_json, kind=Counts),
    "parses.json": lambda path: read_parses(path, "trees", 2),
    "table1.json": partial(read_json, kind=Table),
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
# Single values: the file, the keys, the value, and the expected words of the error.
VALUES: list[tuple[str, list, Any, str]] = [
    (f"{RUN}/test.json", ["scores", "sacrebleu"], "high", "scores.sacrebleu: expected object, found 'high'"),
    (f"{RUN}/test.json", ["draws", 3], float("nan"), "cannot be read as JSON"),
    ("parses.json", ["scores"], [0.5], "scores: expected 2 (the lines of trees), found 1"),
    ("parses.json", ["repaired"], {"3": "x"}, "repaired: expected lines from 1 to 2, found '3'"),
    ("table1.json", ["grid", "rows", 0, "BLEU"], 3, "grid.rows.0.BLEU: expected text or a mapping, found 3"),
]


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
    content.pop("sha256", None)  # which finds every edit
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    path.write_text(yaml.safe_dump(content) if name.endswith("yaml") else json.dumps(content))
    with pytest.raises(InputError, match=rf"^{path}: {re.escape(words)}"):
        READERS[name](path)


def test_weights_that_are_not_finite_are_named(place: Path):
    path, bad = place / RUN / "average.safetensors", "encoder.0.feed_forward.inner.weight"
    tensors, header = weights.load_tensors(path)
    weights.save_tensors(path, tensors | {bad: tensors[bad] * torch.inf}, header)
    forge(path.parent)
    assert f"{path.name}: {bad}: expected finite numbers" in error(*COMMANDS["translate"])


@pytest.mark.usefixtures("on_the_processor")
def test_damaged_lines_of_a_log_are_dropped_and_named(place: Path, caplog):
    """The training resumes after binary garbage, a wrong type, or half a line. The other lines stay."""
    (place / RUN / "run.json").unlink()
    (state,) = (place / RUN / "state").glob("*/")
    (state / "run.json").unlink()
    log = state / "metrics.jsonl"
    good = log.read_bytes().splitlines(keepends=True)
    bad = [b"\x00\xff\n", b'{"step": "1"}\n', b'{"step": 1, "rate": NaN}\n', b'{"step": 2, "ra']
    log.write_bytes(b"".join([good[0], bad[0], *good[1:], *bad[1:]]))
    do(*COMMANDS["train"])
    assert (place / RUN / "metrics.jsonl").read_bytes().splitlines(keepends=True) == good
    dropped = [line for line in caplog.messages if line.startswith("deleted a damaged line")]
    numbers = [2, *range(len(good) + 2, len(good) + 5)]
    assert [int(re.search(r"metrics.jsonl, line (\d+)", line)[1]) for line in dropped] == numbers
