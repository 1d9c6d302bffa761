"""The files that `record` keeps rebuild the same tables, figures and page in the record's folder, without training."""

import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from support.project import rules_of, snakemake, transformer

from transformer.commands.results import OF_SCALE
from transformer.model import weights
from transformer.storage.files import sha256

RECORD, BASE = Path("results/record/small"), Path("runs/en-de/base/1")


def made_files(folder: Path) -> dict[str, str]:
    paths = sorted(path for pattern in OF_SCALE for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): sha256(path) for path in paths}


@pytest.fixture(scope="module")
def recorded(small, tmp_path_factory) -> Path:
    """Record a finished project with the weights of one run, and delete its other results."""
    project = shutil.copytree(small, tmp_path_factory.mktemp("recorded") / "project")
    result = transformer(project, "record", "small", "--to", str(RECORD), "--weights", "en-de/base/1")
    assert result.returncode == 0, result.stderr
    shutil.rmtree(project / "results/small")
    return project


@pytest.mark.slow
def test_a_record_rebuilds_its_tables_byte_for_byte(small, recorded):
    expected = made_files(small / "results/small")
    assert {"report.html", "tables/table5.md", "figures/figure3.svg", "attention.json"} < expected.keys()
    for name in ("tables", "figures"):
        shutil.rmtree(recorded / RECORD / name)
    result = snakemake(recorded, "--configfile", str(RECORD / "config.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    ran = rules_of(result.stdout + result.stderr)
    assert ran <= {"fetch", "unpack", "generate", "treebank", "table", "figure", "page", "all"}
    assert made_files(recorded / RECORD) == expected


def test_recorded_weights_are_in_8_bits_and_parses_without_words(small, recorded):
    (kept, header), (whole, expected) = (
        weights.load_tensors(folder / BASE / "average.safetensors")
        for folder in (recorded / RECORD, small / "results/small")
    )
    assert header == expected | {"rounded": True}
    assert kept["embedding.weight"].dtype == torch.int8
    assert whole["embedding.weight"].dtype == torch.float32
    assert [path.parent for path in (recorded / RECORD).rglob("*.safetensors")] == [recorded / RECORD / BASE]
    parses = sorted((recorded / RECORD / "runs").rglob("*.trees"))
    assert len(parses) >= 2
    assert all(set(re.findall(r" ([^ ()]+)\)", path.read_text())) == {"_"} for path in parses)


def test_a_record_contains_the_configuration_of_its_runs(small, tmp_path):
    """Its tables are rebuilt without the original configuration file and without the machine's mirror."""
    project = shutil.copytree(small, tmp_path / "project")
    (project / "mine.yaml").write_text("scales: {small: {label: mine, seeds_of: {base: [1, 2]}}}")
    given = ["--configfile", "mine.yaml", "--config", "report={currency: EUR}", "mirror=mirror"]
    result = transformer(project, "record", "small", "--to", str(RECORD), *given)
    assert result.returncode == 0, result.stderr
    assert yaml.safe_load((project / RECORD / "config.yaml").read_text()) == {
        "scales": {"small": {"label": "mine", "seeds_of": {"base": [1, 2]}}},
        "report": {"currency": "EUR"},
        "scale": "small",
        "results": "results/record",
        "partial": True,
    }
    (project / "mine.yaml").unlink()
    shutil.rmtree(project / "results/small")
    result = snakemake(project, "--dry-run", "--configfile", str(RECORD / "config.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "train" not in rules_of(result.stdout)


def test_a_record_is_not_recorded_into_itself(recorded):
    own = ["--configfile", str(RECORD / "config.yaml")]
    result = transformer(recorded, "record", "small", "--to", str(RECORD), *own)
    assert result.returncode == 1
    assert f"expected a folder other than the results folder, found {RECORD}" in result.stderr


def test_a_record_that_fails_loses_nothing(small, recorded, tmp_path):
    """The run no longer has the weights that were recorded before."""
    project = shutil.copytree(small, tmp_path / "project")
    shutil.copytree(recorded / RECORD, project / RECORD)
    (project / "results/small" / BASE / "average.safetensors").unlink()
    notes = project / RECORD / BASE / "NOTES.txt"
    notes.write_text("mine")
    result = transformer(project, "record", "small", "--to", str(RECORD))
    assert (result.returncode, notes.read_text()) == (1, "mine")
    assert f"{BASE}/NOTES.txt: refusing to delete a file that `record` did not write" in result.stderr
    notes.unlink()
    before = {path: path.read_bytes() for path in (project / RECORD / BASE).iterdir()}
    result = transformer(project, "record", "small", "--to", str(RECORD))
    assert result.returncode == 1
    assert f"{BASE}/average.safetensors" in result.stderr
    assert {path: path.read_bytes() for path in (project / RECORD / BASE).iterdir()} == before
