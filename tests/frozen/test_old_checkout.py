"""The numbers are the same as before a rewrite: data, trainings and translations of two checkouts.

The other checkout is the last commit with the package's former layout. It trained all runs of the record.
"""

import gzip
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from support.mirror import mirrored
from support.project import ROOT, transformer
from support.toy import DECODING, PREPROCESSING, make_experiment, random_lines, write_text

from transformer.config.experiment import given, save
from transformer.data.preprocessing import encode_splits, learn_vocabulary, tokenize_split
from transformer.layout import Data
from transformer.storage.files import sha256

pytestmark = pytest.mark.slow
OLD = "1dec4f5bb8a3834df427356c7f8bf7372e3d8a56"
RUN, DATA = "runs/en-de/base/1", "data/en-de"
FORMS = {  # of the model: every option of Table 5
    "paper": {},
    "pre-norm": {"norm": "pre", "positions": "learned"},
    "no-residual": {"residual": False, "positions": "none"},
    "additive": {"attention": "additive", "tied": False},
    "unscaled": {"scaled": False, "positions": "words"},
}


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(["git", "archive", OLD], cwd=ROOT, capture_output=True)
    assert archive.returncode == 0, f"this test needs the history of the project: {archive.stderr.decode()}"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def call(checkout: Path, *arguments: str) -> None:
    result = transformer(checkout, *arguments)
    assert result.returncode == 0, result.stderr


def prepare_by_commands(checkout: Path, data: Path) -> None:
    for split in ("train", "dev"):
        texts = ["--source", f"{data}/{split}.en", "--target", f"{data}/{split}.de", "--languages", "en", "de"]
        options = ["--preparation", json.dumps(given(PREPROCESSING)), "--processes", "1"]
        call(checkout, "tokenize", *texts, *options, "--output", str(data / split))
    sides = [str(data / f"train.{side}.tok") for side in ("source", "target")]
    size = ["--size", "28", "--sentences", "1000", "--output", str(data / "vocabulary.model")]
    call(checkout, "vocabulary", "--text", *sides, *size)
    call(checkout, "encode", "--data", str(data), "--splits", "train", "dev", "--processes", "1")


def prepare(data: Data) -> None:
    for split in ("train", "dev"):
        texts = data.folder / f"{split}.en", data.folder / f"{split}.de"
        tokenize_split(data, split, [texts], ("en", "de"), PREPROCESSING, processes=1)
    learn_vocabulary(data, 28, ("en", "de"), PREPROCESSING)
    encode_splits(data, processes=1)


def train(checkout: Path, place: Path, form: dict) -> dict[str, str]:
    """Prepare, train eleven steps with dropout, average and translate. Return the checksums of the outputs."""
    data, run = place / DATA, place / RUN
    data.mkdir(parents=True)
    run.mkdir(parents=True)
    for split, count in (("train", 40), ("dev", 8)):
        for seed, language in enumerate(("en", "de")):
            write_text(data / f"{split}.{language}", random_lines(seed, count))
    prepare(Data(data)) if checkout == ROOT else prepare_by_commands(checkout, data)
    experiment = given(make_experiment(steps=11, model=form))  # omits keys that the older commit does not have
    (run / "experiment.yaml").write_text(yaml.safe_dump(experiment), "utf-8")
    save(DECODING, run / "decoding.yaml")
    call(checkout, "train", str(run), "--data", str(data), "--threads", "1")
    if checkout != ROOT:  # the old checkout has a separate command for averaging
        call(checkout, "average", "--run", str(run))
    output = ["--input", str(data / "dev.en"), "--output", str(run / "test.hyp"), "--threads", "1"]
    call(checkout, "translate", "--run", str(run), *output)
    endings = (".ids", ".offsets", ".tok", ".model", ".hyp", ".safetensors")
    kept = [path for path in (*data.iterdir(), *run.iterdir()) if path.suffix in endings]
    return {path.name: sha256(path) for path in [*kept, data / "data.json"]}


@pytest.mark.parametrize("form", FORMS)
def test_both_train_the_same_weights(old, tmp_path, form):
    expected = train(old, tmp_path / "old", FORMS[form])
    found = train(ROOT, tmp_path / "new", FORMS[form])
    assert {"last.safetensors", "average.safetensors", "test.hyp"} < expected.keys()
    assert found == expected


@pytest.mark.parametrize("task", ["en-de", "en-fr"])
def test_both_translate_equally_with_the_shipped_weights(old, tmp_path, task):
    (run,) = (ROOT / f"results/record/multi30k/runs/{task}/base").glob("*/average.safetensors")
    lines = gzip.decompress(mirrored("multi30k-test_2016_flickr.en.gz").read_bytes()).splitlines(keepends=True)
    text = tmp_path / "text"
    text.write_bytes(b"".join(lines[:50]))
    for name, checkout in (("new", ROOT), ("old", old)):
        options = ["--input", str(text), "--output", str(tmp_path / name), "--threads", "1"]
        call(checkout, "translate", "--run", str(run.parent), *options)
    assert (tmp_path / "new").read_bytes() == (tmp_path / "old").read_bytes()
