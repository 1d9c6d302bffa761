"""Damaged and foreign files: one line that names the file and what is wrong with it, and never a wrong result."""

import json
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.limited import MUTATIONS
from support.made import DATA, RUN, train_run, write_others
from support.toy import model_config

from transformer import __main__
from transformer.commands import translate
from transformer.config.experiment import Decoding, load
from transformer.config.reading import read_yaml
from transformer.data.manifest import read_manifest
from transformer.data.subwords import Subwords
from transformer.evaluation.analyses import PAYLOADS
from transformer.evaluation.records import Run, read_of_run, read_translated
from transformer.files import InputError
from transformer.model import weights
from transformer.parsing.repairs import read_repairs
from transformer.records import read_json
from transformer.report.figures.attention import read_attention
from transformer.report.tables import render
from transformer.report.tables.table1 import read_measured
from transformer.training import loop
from transformer.training.metrics import read_metrics

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
    f"{DATA}/train.source.offsets": f"train new --data {DATA} --threads 1",
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
    (f"{RUN}/experiment.yaml", ["model", "P_drop"], float("inf"), "model.P_drop: expected a finite number, found inf"),
    (f"{RUN}/experiment.yaml", ["model", "h"], -1, "model.h: expected int >= 1, found -1"),
    (f"{RUN}/experiment.yaml", ["model", "N"], True, "model.N: expected int, found True"),
    (f"{RUN}/experiment.yaml", ["model", "d_ff"], 10**6, "expected shape (1000000,"),
    (f"{RUN}/decoding.yaml", ["alpha"], "much", "alpha: expected float, found 'much'"),
    (f"{RUN}/decoding.yaml", ["beam"], 10**400, "beam: expected a number of at most"),
    (f"{RUN}/run.json", ["digest"], 5, "run.json, digest: expected str, found 5"),
    (f"{RUN}/run.json", ["seconds"], float("inf"), "run.json, seconds: expected a finite number, found inf"),
    (f"{RUN}/run.json", ["steps"], True, "run.json, steps: expected int, found True"),
    (f"{RUN}/test.json", ["scores", "sacrebleu"], "high", "test.json, scores.sacrebleu: expected object, found 'high'"),
    (f"{RUN}/test.json", ["run", "averaged_steps"], [], "run.averaged_steps: expected array of length >= 1, found []"),
    (f"{RUN}/test.json", ["draws", 3], "x", "draws[3]: expected float, found 'x'"),
    (f"{RUN}/test.json", ["draws", 3], float("nan"), "draws[3]: expected a finite number, found nan"),
    (f"{DATA}/data.json", ["files"], {}, "files: expected object of length >= 1, found {}"),
    (f"{DATA}/data.json", ["files", "vocabulary.model"], "00", "data.json, sha256: expected"),
    (f"{DATA}/train.json", ["kept"], -3, "train.json, kept: expected int >= 0, found -3"),
    ("layers.json", ["times", 0, "seconds"], 0, "times[0].seconds: expected float > 0.0, found 0"),
    ("attention.json", ["sentences", 0, "encoder", 0, 0, 0, 0], float("nan"), "expected a finite number, found nan"),
    ("attention.json", ["sentences", 1, "cross"], [[[[1]]]], "sentence 2, cross: expected weights of shape"),
    ("parses.json", ["scores"], [0.5], "parses.json, scores: expected 2, the lines of trees, found 1"),
    ("parses.json", ["repaired"], {"3": "x"}, "repaired: expected lines from 1 to 2, found '3'"),
    ("parses.json", ["repaired"], {"01": "x"}, "repaired: expected lines from 1 to 2, found '01'"),
    ("parses.json", ["repaired"], {"\u0661": "x"}, "repaired: expected lines from 1 to 2, found '\u0661'"),
    ("parses.json", ["repaired"], {"0": "x"}, "repaired: expected lines from 1 to 2, found '0'"),
    ("parses.json", ["repaired"], {"9" * 9999: "x"}, "repaired: expected lines from 1 to 2, found '999"),
    ("parses.json", ["scores", 0], None, "scores[0]: expected a score, found None"),
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


def test_aliases_stay_legal(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 1}\nd: {<<: [*a, *a], x: 3}\n")
    same = {"x": [1, 2]}
    assert read_yaml(tmp_path / "a.yaml") == {"a": same, "b": same, "c": same | {"y": 1}, "d": {"x": 3}}


@pytest.mark.parametrize(("name", "keys", "value", "words"), VALUES)
def test_an_impossible_value_is_named(place: Path, name: str, keys: list, value: Any, words: str):
    path = place / name
    content = target = (load_yaml if name.endswith("yaml") else json.loads)(path.read_text())
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    path.write_text(dump_yaml(content) if name.endswith("yaml") else json.dumps(content))
    message = refused(READERS[name])
    assert words in message
    assert Path(name).parts[0] in message


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Fail where the block takes longer."""

    def late(*_):
        pytest.fail("not ended in time")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load_yaml(text: str) -> dict:
    import yaml

    return yaml.safe_load(text)


def dump_yaml(content: dict) -> str:
    import yaml

    return yaml.safe_dump(content)


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


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ([0, 3, 3], "expected offsets that grow, found 3 after 3 at sentence 2"),
        ([1, 4], "expected offsets from 0, found them from 1"),
    ],
)
def test_offsets_that_do_not_grow_are_named(place: Path, offsets: list[int], words: str):
    path = place / DATA / "train.source.offsets"
    path.write_bytes(b"".join(number.to_bytes(8, "little") for number in offsets))
    assert words in refused(READERS[f"{DATA}/train.source.offsets"])


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


def test_sentencepiece_s_own_space_is_not_taken_in_silence(place: Path, capsys):
    (place / "test.en").write_text("ab\u2581cd\nef\n")
    __main__.main(TRANSLATE.split())
    assert capsys.readouterr().err == "test.en: 1 line holds \u2581 (U+2581), which is read as a space\n"


def test_sentencepiece_s_own_space_is_counted_once_for_all_groups(place: Path, capsys, monkeypatch):
    """Also where the text ends at a bad line."""
    monkeypatch.setattr(translate, "TOGETHER", 2)
    (place / "test.en").write_bytes("ab\u2581cd\nef\ng\u2581h\n".encode() * 3 + b"\xff\n")
    assert "test.en, line 10: expected UTF-8" in refused(TRANSLATE)
    assert capsys.readouterr().err == "test.en: 6 lines hold \u2581 (U+2581), which is read as a space\n"


# Mutations ------------------------------------------------------------------------------------------------------------

READ: dict[str, Callable[[Path], Any]] = {
    f"{RUN}/experiment.yaml": load,
    f"{RUN}/decoding.yaml": lambda path: load(path, Decoding),
    f"{RUN}/run.json": lambda path: read_json(path, Run),
    f"{RUN}/test.json": read_translated,
    f"{RUN}/metrics.jsonl": read_metrics,
    f"{RUN}/average.safetensors": lambda path: weights.load_model(path, model_config()).state_dict(),
    f"{RUN}/vocabulary.model": lambda path: Subwords(path).new_word(40),
    f"{DATA}/data.json": read_manifest,
    "layers.json": read_measured,
    "attention.json": read_attention,
    "parses.json": lambda path: read_repairs(path, "trees", 2),
    "table1.json": render.read,
    **{f"{name}.json": lambda path, kind=kind: read_of_run(path, kind) for name, kind in PAYLOADS.items()},
}
PIECES = [b"null", b"-1", b"1e999", b"NaN", b".nan", b"true", b'"\\ud800"', b"{}", b"[]", b"9" * 400, b"\x00", b"\xff"]
PIECES += [b"*a", b"&a ", b"2001-01-99"]


def mutated(content: bytes, source: random.Random) -> bytes:
    """Return bytes flipped, cut out, doubled, or a word replaced by an odd one."""
    start = source.randrange(min(len(content), 8000))  # of weights, most often in the header
    end = min(len(content), start + source.choice((1, 1, 4, 60)))
    part = content[start:end]
    choices = [
        bytes([source.randrange(256)]) + part[1:],
        b"",
        part * 2,
        source.choice(PIECES),
        source.choice(PIECES) + part,
    ]
    return content[:start] + source.choice(choices) + content[end:]


def test_mutations_are_refused_or_read(made: Path, tmp_path: Path):
    """Whatever is read of weights has the tensors that were saved; JSON holds what Python's own reader finds."""
    source = random.Random(MUTATIONS)
    contents = {name: (made / name).read_bytes() for name in READ}
    tensors = weights.load(made / RUN / "average.safetensors")[0]
    refusals: list[tuple[str, str]] = []
    for number in range(MUTATIONS):
        name = list(READ)[number % len(READ)]
        path = tmp_path / Path(name).name
        path.write_bytes(content := mutated(contents[name], source))
        try:
            found = READ[name](path)
        except InputError as error:
            refusals.append((str(path), str(error)))
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {content[:2000]!r}") from error
        if name.endswith("safetensors"):
            assert all(torch.equal(found[key], tensor) for key, tensor in tensors.items()), content
        elif isinstance(found, dict):
            assert found == json.loads(content)
    assert len(refusals) > MUTATIONS / 3
    assert [error for path, error in refusals if path not in error or "\n" in error] == []
