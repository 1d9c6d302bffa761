"""Score files that do not belong in one table, or are not whole, are refused by name."""

import pytest
from support.scored import score, write_scores

from transformer.common.files import InputError
from transformer.scoring.scorefiles import read_scores, run_name


def test_run_name():
    assert run_name({"task": "en-de", "experiment": "base", "seed": 2}) == "en-de/base/2"
    with pytest.raises(InputError, match=r"^run\.json: missing key 'seed'$"):
        run_name({"task": "en-de", "experiment": "base"}, "run.json")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (score(31.0), r"en-de/base/1: .*score0\.json, .*score1\.json"),
        (score(31.0, seed=2, scale="demo"), r"one scale, found multi30k in .*score0\.json and demo in .*score1\.json"),
        (
            score(31.0, seed=2, fidelity="paper-code"),
            r"one fidelity, found paper-text in .* and paper-code in ",
        ),
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


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("", "scores"),
        ("", "ref_sha256"),
        ("", "run"),
        ("run", "seed"),
        ("run", "dev_perplexity"),
        ("run", "decoding"),
        ("scores", "paper"),
        ("scores", "compound_split"),
        ("scores", "sacrebleu"),
    ],
)
def test_missing_key(tmp_path, place, key):
    content = score(30.0)
    del (content[place] if place else content)[key]
    where = f", {place}" if place else ""
    with pytest.raises(InputError, match=rf"score0\.json{where}: missing key '{key}'"):
        read_scores(write_scores(tmp_path, content))


def test_missing_signature_of_a_variant(tmp_path):
    content = score(30.0)
    del content["scores"]["sacrebleu"]["signature"]
    with pytest.raises(InputError, match=r"score0\.json, sacrebleu: missing key 'signature'"):
        read_scores(write_scores(tmp_path, content))
