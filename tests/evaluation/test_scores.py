"""Recorded translations and parses get the recorded scores, byte for byte. Bad score files are reported."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from support.commands import do
from support.mirror import mirrored
from support.scored import score, write_scores

from transformer.evaluation.scores import read_scores
from transformer.layout import Resources, Results, Run
from transformer.model import weights
from transformer.parsing.treebanks import extract_trees
from transformer.storage.files import InputError, sha256
from transformer.storage.provenance import commit, model_code

RECORD = Results(Path(__file__).parents[2] / "results/record/multi30k")
HERE, CORPORA = Results("results/multi30k"), Resources("resources")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resources/corpora").mkdir(parents=True)


def recorded(task: str, experiment: str, seed: int, file: str) -> tuple[Run, Path, dict]:
    """Copy a recorded run with stand-in weights. Return the run, the weights, and the recorded score."""
    run = HERE.run(task, experiment, seed)
    shutil.copytree(RECORD.run(task, experiment, seed).folder, run.folder)
    content = json.loads((run.folder / file).read_text("utf-8"))
    header = {"digest": content["run"]["digest"], "steps": content["run"]["averaged_steps"]}
    stand_in = run.last if ".last" in file else run.average
    weights.save_tensors(stand_in, {"x": torch.zeros(1)}, header)
    content["run"]["weights_sha256"] = sha256(stand_in)
    return run, stand_in, content


def rewritten(content: dict) -> str:
    """Return the text of a score file from this commit: indented, with its checksum, and the draws in one line."""
    content["run"]["scored_with"] = {"commit": commit(), "model_code": model_code()}
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    draws = content.pop("draws")
    content["sha256"] = checksum
    return f'{json.dumps(content, indent=2, ensure_ascii=False)[:-2]},\n  "draws": {json.dumps(draws)}\n}}\n'


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
    run, stand_in, expected = recorded(task, experiment, 1, f"{split}{suffix}.json")
    texts = ["--hyp", run.translation(split, suffix), "--ref", reference, "--lang", language]
    do("score", *texts, "--run", run.folder, "--weights", stand_in, "--json", "score.json")
    assert Path("score.json").read_text("utf-8") == rewritten(expected)


@pytest.mark.parametrize("task", ["supervised", "semi-supervised"])
def test_parses(place, task):
    """The recorded trees have no words, because the words belong to the treebank."""
    gold = CORPORA.corpus("gum-test", "trees")
    extract_trees(mirrored("gum.tar.gz"), gold, split="test")
    run, _, expected = recorded(task, "parser", 1, "test.json")
    assert expected["test_sha256"] != sha256(run.trees("test"))
    expected["test_sha256"] = sha256(run.trees("test"))
    texts = ["--gold", gold, "--test", run.trees("test"), "--gold-tags", "--parses", run.parses("test")]
    do("evalb", *texts, "--run", run.folder, "--json", "score.json")
    assert Path("score.json").read_text("utf-8") == rewritten(expected)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (score(31.0), r"en-de/base/1: .*score0\.json, .*score1\.json"),
        (score(31.0, seed=2, scale="demo"), r"one scale, found multi30k in .*score0\.json and demo in .*score1\.json"),
        (score(31.0, seed=2, fidelity="tensor2tensor"), r"one fidelity, found paper-text in .* and tensor2tensor in "),
        (
            score(31.0, seed=2) | {"ref_sha256": "other"},
            r"one ref_sha256, found en-de references in .* and other in .*score1\.json",
        ),
        ('{"scores": ', r"score1\.json: cannot be read as JSON"),
        (score(30.0) | {"run": None}, r"score1\.json: expected a score with its run"),
    ],
    ids=["run", "scale", "fidelity", "references", "JSON", "no run"],
)
def test_scores_that_do_not_belong_together(tmp_path, second, message):
    with pytest.raises(InputError, match=message):
        read_scores(write_scores(tmp_path, score(30.0), second))
