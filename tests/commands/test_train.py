"""The command `train`, called like the workflow calls it."""

import json
import shutil

import pytest
from support.commands import do, error
from support.toy import make_experiment, make_run, random_lines, write_text

from transformer.config.experiment import load
from transformer.layout import Run
from transformer.model.transformer import Transformer

FILES = "average.safetensors checkpoints decoding.yaml experiment.yaml last.safetensors metrics.jsonl run.json state"
VARYING = ("seconds", "target_tokens_per_second", "starts", "finished", "commit", "hardware")  # differ between starts

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(learned):
    return learned / "data"


@pytest.fixture(scope="module")
def trained(learned, tmp_path_factory):
    return shutil.copytree(learned / "run", tmp_path_factory.mktemp("run") / "1")


def do_train(run, data):
    do("train", run, "--data", data, "--threads", 1)


def entries(path):
    """Return the objects in run.json or metrics.jsonl, without the parts that differ between starts."""
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in VARYING} for line in lines]


def test_train_leaves_the_files_that_later_steps_read(trained, data):
    assert sorted(path.name for path in trained.iterdir()) == [*FILES.split(), "vocabulary.model"]
    names = [path.name for path in sorted((trained / "checkpoints").iterdir())]
    assert names == ["00000390.safetensors", "00000395.safetensors", "00000400.safetensors"]
    assert (trained / "vocabulary.model").read_bytes() == (data / "vocabulary.model").read_bytes()
    assert (trained / "last.safetensors").read_bytes() == (trained / "checkpoints" / names[-1]).read_bytes()
    assert entries(trained / "metrics.jsonl")[-1]["step"] == 400
    (entry,), experiment = entries(trained / "run.json"), load(trained / "experiment.yaml")
    assert entry["data_sha256"] == json.loads((data / "data.json").read_text())["sha256"]
    assert entry["digest"] == experiment.digest(entry["data_sha256"])
    assert (entry["task"], entry["experiment"], entry["seed"], entry["steps"]) == ("en-de", "base", 1, 400)
    assert entry["parameters"] == sum(weight.numel() for weight in Transformer(experiment.model).parameters())


def test_a_finished_run_is_republished_without_training(trained, data, caplog):
    """A workflow that has deleted its outputs needs this."""
    caplog.set_level("INFO")
    states = {path: path.stat().st_mtime_ns for path in (trained / "state").rglob("*.safetensors")}
    before = {name: entries(trained / name) for name in ("run.json", "metrics.jsonl")}
    weights = (trained / "checkpoints/00000395.safetensors").read_bytes()
    shutil.rmtree(trained / "checkpoints")
    for name in (*before, "vocabulary.model"):
        (trained / name).unlink()
    do_train(trained, data)
    assert caplog.messages[0].startswith("already trained: ")
    assert states == {path: path.stat().st_mtime_ns for path in (trained / "state").rglob("*.safetensors")}
    assert before == {name: entries(trained / name) for name in before}
    assert weights == (trained / "checkpoints/00000395.safetensors").read_bytes()
    assert (trained / "vocabulary.model").exists()


def test_a_vocabulary_that_is_larger_than_the_model_is_refused(data, tmp_path):
    small = make_run(tmp_path / "small", make_experiment(model={"embedding_rows": 20}))
    problem = "expected up to 20 subwords (the model's rows), found 28"
    assert error("train", small, "--data", data, "--threads", 1) == f"{data}/vocabulary.model: {problem}"
    assert not Run(small).average.exists()


def test_a_trained_run_translates(trained, tmp_path):
    """The run has learned to copy: unseen lines come out unchanged and in order."""
    unseen = ["", *random_lines(99, 40), ""]
    text, output = write_text(tmp_path / "input.txt", unseen), tmp_path / "output/test.hyp"
    do("translate", "--run", trained, "--threads", 1, "--input", text, "--output", output)
    translations = output.read_text("utf-8").split("\n")
    assert translations.pop() == ""
    assert translations[0] == translations[-1] == ""
    assert sum(map(str.__eq__, translations, unseen)) > 0.75 * len(unseen)
