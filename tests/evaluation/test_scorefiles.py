"""Score files that do not belong in one table, or are not whole, are refused by name."""

import re
from functools import reduce

import pytest
from support.scored import score, write_scores

from transformer.evaluation.scorefiles import read_scores
from transformer.files import InputError


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
    "path", ["ref_sha256", "run, seed", "scores, paper", "scores, compound_split", "scores, sacrebleu, signature"]
)
def test_missing_key(tmp_path, path):
    content = score(30.0)
    *places, key = path.split(", ")
    del reduce(dict.__getitem__, places, content)[key]
    where = ", scores[...]" if key == "signature" else "".join(f", {place}" for place in places)
    with pytest.raises(InputError, match=rf"score0\.json{re.escape(where)}: missing key '{key}'"):
        read_scores(write_scores(tmp_path, content))
