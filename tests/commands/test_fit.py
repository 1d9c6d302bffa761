"""The command `fit` and `transformer.fit`: a model from text files, by other paths the same."""

import logging
import os
import re
import subprocess
import sys

import pytest
import yaml
from support.commands import do, error
from support.project import ROOT
from support.toy import write_text

import transformer
from transformer.data.grammar import take
from transformer.process import EXIT_INTERRUPTED, Interrupted
from transformer.storage.files import InputError

SET = {"steps": 12, "warmup_steps": 4, "checkpoint_every": 4, "averaged_checkpoints": 2}
OPTIONS = ["--like", "demo", "--vocabulary", "200", "--threads", "1"]
CHANGES = ["--set", *(f"{key}={value}" for key, value in SET.items())]

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Write sentences of the demo's grammar as train.en, train.de, dev.en and dev.de."""
    folder = tmp_path_factory.mktemp("texts")
    for name, items in {"train": take(5, 0, 300), "dev": take(5, 300, 20)}.items():
        for language in ("en", "de"):
            write_text(folder / f"{name}.{language}", [getattr(item, language) for item in items])
    return {name: (folder / f"{name}.en", folder / f"{name}.de") for name in ("train", "dev")}


@pytest.fixture(scope="module")
def fitted(texts, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    do("fit", "--train", *texts["train"], "--dev", *texts["dev"], "--output", run, *OPTIONS, *CHANGES)
    return run


def test_python_and_the_command_train_the_same_model(texts, fitted, tmp_path, capsys):
    """And the command `train` does on its files."""
    options = {"like": "demo", "vocabulary": 200, "threads": 1, "settings": SET}
    model = transformer.fit(texts["train"], texts["dev"], tmp_path / "run", **options)
    expected = (fitted / "average.safetensors").read_bytes()
    assert (tmp_path / "run/average.safetensors").read_bytes() == expected
    assert model.experiment.training.steps == SET["steps"]
    again = tmp_path / "again"
    again.mkdir()
    (again / "experiment.yaml").write_bytes((fitted / "experiment.yaml").read_bytes())
    do("train", again, "--data", fitted / "data", "--threads", 1)
    assert (again / "average.safetensors").read_bytes() == expected


@pytest.mark.slow
def test_a_script_needs_no_guard(texts, fitted, tmp_path):
    """With several processes, whose workers would otherwise run the script again."""
    options = f"like='demo', vocabulary=200, threads=2, settings={SET}"
    call = f"transformer.fit({tuple(map(str, texts['train']))}, {tuple(map(str, texts['dev']))}, 'run', {options})"
    script = write_text(tmp_path / "script.py", ["import transformer", "print('once')", call])
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("once")) == (0, 1), done.stderr
    assert (tmp_path / "run/average.safetensors").exists()


def test_the_translations_of_the_first_lines_are_printed(texts, fitted, capsys):
    """A second call trains nothing."""
    do("fit", "--train", *texts["train"], "--dev", *texts["dev"], "--output", fitted, *OPTIONS, *CHANGES)
    printed = capsys.readouterr().out.splitlines()
    sources = texts["dev"][0].read_text().splitlines()[:3]
    translations = [f"    {one.text}" for one in transformer.load(fitted).translate(sources)]
    assert printed == [line for pair in zip(sources, translations, strict=True) for line in pair]


def test_initial_weights_bring_their_vocabulary_and_preprocessing(texts, fitted, tmp_path, caplog):
    """At a learning rate of almost 0, the model remains the initial one."""
    caplog.set_level(logging.INFO)
    still = ["--set", "steps=1", "learning_rate_scale=0.000001", "averaged_checkpoints=1", "checkpoint_every=1"]
    out = ["--output", tmp_path / "run", "--initial", fitted]
    do("fit", "--train", *texts["train"], "--dev", *texts["dev"], *out, *OPTIONS[:2], *OPTIONS[4:], *still)
    assert (tmp_path / "run/vocabulary.model").read_bytes() == (fitted / "vocabulary.model").read_bytes()
    pairs = list(zip(*(path.read_text().splitlines()[:20] for path in texts["dev"]), strict=True))
    before, after = (
        [sum(one.log_probabilities) for one in transformer.load(run).score(pairs)] for run in (fitted, tmp_path / "run")
    )
    assert after == pytest.approx(before, rel=1e-3)
    assert len(set(before)) == len(pairs)


def test_an_interrupted_training_may_resume(texts, tmp_path, monkeypatch, caplog):
    """test_faults.py tests how. The command reports it, with the exit code of `train`."""

    def interrupted(*_):
        raise Interrupted("SIGTERM: saved at step 6")

    monkeypatch.setattr("transformer.training.loop.train_and_publish", interrupted)
    with pytest.raises(SystemExit, match=f"^{EXIT_INTERRUPTED}$"), caplog.at_level(logging.INFO):
        do("fit", "--train", *texts["train"], "--dev", *texts["dev"], "--output", tmp_path / "run", *OPTIONS, *CHANGES)
    assert caplog.messages[-1].endswith("SIGTERM: saved at step 6; the same command resumes the training")


def test_wrong_arguments_are_refused_in_one_line(texts, tmp_path):
    def refused(*options, **other) -> str:
        files = texts | other
        return error("fit", "--train", *files["train"], "--dev", *files["dev"], "--output", tmp_path / "run", *options)

    swapped = refused(dev=texts["dev"][::-1])
    assert "expected file names that end in the same two languages, as in train.en, found" in swapped
    assert "--set: expected KEY=VALUE, found steps" in refused("--set", "steps")
    assert "--like: expected one of the scales (demo," in refused("--like", "none")
    assert "stepps" in refused(*OPTIONS, "--set", "stepps=3")
    few = refused(*OPTIONS, "--set", "steps=4")
    assert re.fullmatch(r"base: steps: expected at least \d+ for \d+ checkpoints, found 4", few.strip())
    missing = tmp_path / "no.en", texts["train"][1]
    assert "no.en" in refused(*OPTIONS, train=missing)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine").write_text("mine")
    assert "expected a new folder or a run of `fit`, found other files" in refused(*OPTIONS)
    with pytest.raises(InputError, match="expected one of the scales"):
        transformer.fit(texts["train"], texts["dev"], tmp_path / "new", like="none")
    assert yaml.safe_load((tmp_path / "run/mine").read_text()) == "mine"
