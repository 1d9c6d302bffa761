"""No code change may alter these: the digests of recorded trainings, and each scale's runs byte for byte."""

import hashlib
import json
from pathlib import Path

import pytest

from transformer.config import settings
from transformer.config.experiment import load, save
from transformer.config.scales import ScaleSettings
from transformer.layout import Run

ROOT = Path(__file__).parents[2]
RECORDED = sorted(path.parent for path in ROOT.glob("results/record/*/runs/*/*/*/run.json"))
RESOLVED = json.loads((ROOT / "tests/golden/experiments.json").read_text("utf-8"))  # SHA-256 of each experiment.yaml


def test_all_recorded_runs_are_tested():
    assert len(RECORDED) == 77


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: "/".join(folder.parts[-5:]))
def test_a_recorded_training_has_its_digest(folder):
    record = json.loads(Run(folder).record.read_text("utf-8"))
    assert load(Run(folder).experiment).digest(record["data_sha256"]) == record["digest"]


@pytest.mark.parametrize("scale", ["demo", "multi30k", "multi30k-tiny", "paper"])
def test_all_runs_of_a_scale_are_resolved_to_the_same_bytes(scale, tmp_path, monkeypatch):
    """The experiments are compared by name. `snakemake -n` therefore plans the same runs."""
    monkeypatch.chdir(ROOT)
    settings_of_scale, found = ScaleSettings(settings.read([], []), scale), {}
    for run in settings_of_scale.all_runs():
        save(settings_of_scale.experiment(run), tmp_path / "experiment.yaml")
        found[f"{scale}/{run}"] = hashlib.sha256((tmp_path / "experiment.yaml").read_bytes()).hexdigest()
    assert found == {name: sum for name, sum in RESOLVED.items() if name.startswith(f"{scale}/")}
