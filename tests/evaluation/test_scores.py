"""Recorded translations and parses get the recorded scores, byte for byte."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
import torch
from support.commands import do
from support.mirror import mirrored

from transformer.files import sha256
from transformer.layout import Resources, Run, Scale
from transformer.model import weights

RECORD = Scale(Path(__file__).parents[2] / "results/record/multi30k")
HERE, CORPORA = Scale("results/multi30k"), Resources("resources")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resources/corpora").mkdir(parents=True)


def recorded(task: str, experiment: str, seed: int, file: str) -> tuple[Run, Path, dict]:
    """Copy a recorded run with weights that only say whose they are. Returns it, the weights, and the recorded score."""
    run = HERE.run(task, experiment, seed)
    shutil.copytree(RECORD.run(task, experiment, seed).folder, run.folder)
    score = json.loads((run.folder / file).read_text("utf-8"))
    header = {"digest": score["run"]["digest"], "steps": score["run"]["averaged_steps"]}
    stand_in = run.last if ".last" in file else run.average
    weights.save(stand_in, {"x": torch.zeros(1)}, header)
    score["run"]["weights_sha256"] = sha256(stand_in)
    return run, stand_in, score


def rewritten(score: dict) -> str:
    """Return the text of a score file: indented, and the draws in one line."""
    draws = score.pop("draws")
    return f'{json.dumps(score, indent=2, ensure_ascii=False)[:-2]},\n  "draws": {json.dumps(draws)}\n}}\n'


@pytest.mark.parametrize(
    ("task", "experiment", "split", "suffix", "corpus"),
    [
        ("en-de", "base", "test", "", "multi30k-test_2016_flickr"),
        ("en-fr", "base", "test", "", "multi30k-test_2016_flickr"),
        ("en-de", "heads-1", "dev", ".last", "multi30k-val"),
    ],
)
def test_translations(place, task, experiment, split, suffix, corpus):
    language = task.removeprefix("en-")
    reference = CORPORA.corpus(corpus, language)
    reference.write_bytes(gzip.decompress(mirrored(f"{corpus}.{language}.gz").read_bytes()))
    run, stand_in, score = recorded(task, experiment, 1, f"{split}{suffix}.json")
    texts = ["--hyp", run.translation(split, suffix), "--ref", reference, "--lang", language]
    do("score", *texts, "--run", run.folder, "--weights", stand_in, "--json", "score.json")
    assert Path("score.json").read_text("utf-8") == rewritten(score)


@pytest.mark.parametrize("task", ["supervised", "semi-supervised"])
def test_parses(place, task):
    """The recorded trees come without words, which are the treebank's."""
    gold = CORPORA.corpus("gum-test", "trees")
    do("treebank", "--format", "gum", "--input", mirrored("gum.tar.gz"), "--split", "test", "--output", gold)
    run, _, score = recorded(task, "parser", 1, "test.json")
    assert score["test_sha256"] != sha256(run.trees("test"))
    score["test_sha256"] = sha256(run.trees("test"))
    texts = ["--gold", gold, "--test", run.trees("test"), "--gold-tags", "--parses", run.parses("test")]
    do("evalb", *texts, "--run", run.folder, "--json", "score.json")
    assert Path("score.json").read_text("utf-8") == rewritten(score)
