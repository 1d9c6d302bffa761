"""The resolved settings of a run, as the workflow asks for them."""

import json

import msgspec
import pytest
import yaml

from transformer.commands import resolve
from transformer.config.experiment import Decoding, Experiment, load
from transformer.files import InputError


@pytest.fixture
def parts(experiment) -> dict:
    """The fixture's run, four times as wide and three times as deep, as the workflow hands it over."""
    settings = msgspec.to_builtins(experiment)
    row = settings.pop("model") | settings.pop("training")
    wide = {key: 4 * row[key] for key in ("d_model", "d_ff", "d_k", "d_v")} | {"N": 3 * row["N"]}
    optimizer = {key: row.pop(key) for key in ("beta1", "beta2", "epsilon")}
    embedding = {key: row.pop(key) for key in ("embedding_rows", "output_rows")}
    rows = embedding | {"rows": [row | {"h": 99}, wide, {"h": row["h"]}]}
    return settings | rows | {"width": 4, "depth": 3, "optimizer": optimizer}


def test_resolve_writes_the_run(tmp_path, parts, experiment):
    path = tmp_path / "run" / "experiment.yaml"
    resolve.main(["--experiment", json.dumps(parts), "--output", str(path)])
    assert load(path, Experiment) == experiment


def test_resolve_writes_the_decoding(tmp_path):
    path = tmp_path / "run" / "decoding.yaml"
    settings = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}
    resolve.main(["--decoding", json.dumps(settings), "--output", str(path)])
    assert yaml.safe_load(path.read_text()) == settings
    assert load(path, Decoding) == Decoding(**settings)


def test_resolve_names_what_does_not_fit_and_writes_nothing(tmp_path, parts):
    with pytest.raises(InputError, match=r"^tiny: d_model: 52 cannot be divided by 8$"):
        resolve.main(["--experiment", json.dumps(parts | {"width": 8}), "--output", str(tmp_path / "experiment.yaml")])
    assert list(tmp_path.iterdir()) == []


def test_resolve_takes_a_run_or_a_decoding(capsys):
    for line in (["--output", "x"], ["--experiment", "{}", "--decoding", "{}", "--output", "x"]):
        with pytest.raises(SystemExit):
            resolve.main(line)
    errors = capsys.readouterr().err
    assert "one of the arguments --experiment --decoding is required" in errors
    assert "argument --decoding: not allowed with argument --experiment" in errors
