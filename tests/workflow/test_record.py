"""What `record` keeps of a scale makes the same tables, figures and page again, without training."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from support.project import snakemake, transformer
from support.recorded import of_pages

from transformer.model import weights
from transformer.model.weights import from_int8

RECORD = "results/record/small"
BASE = "runs/en-de/base/1"
DEAR = {"train", "translate", "average", "probe", "attend", "measure", "vocabulary", "encode"}


def rules(output: str) -> set[str]:
    """Return the rules that were run."""
    return set(re.findall(r"^(?:local)?rule (\w+):", output, re.MULTILINE))


def record(project: Path, *options: str) -> None:
    result = transformer(project, "record", "small", "--to", RECORD, *options)
    assert result.returncode == 0, result.stderr


def made_again(project: Path) -> str:
    """Make everything from the record alone; return what Snakemake says."""
    shutil.rmtree(project / "results/small")
    result = snakemake(project, "--configfile", f"{RECORD}/config.yaml")
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def check_rules(output: str) -> None:
    assert {"take", "score", "table", "figure", "report"} <= rules(output)
    assert not DEAR & rules(output)


@pytest.fixture(scope="module")
def recorded(small, tmp_path_factory) -> Path:
    """Record a project in which all was made; make its tables from the record, and record those."""
    project = shutil.copytree(small, tmp_path_factory.mktemp("recorded") / "project")
    record(project, "--weights", "en-de/base/1")
    check_rules(made_again(project))
    record(project)
    return project


def test_a_record_makes_its_tables_again_byte_for_byte(recorded):
    expected = of_pages(recorded / RECORD)
    assert {"report.html", "tables/table5.md", "figures/figure3.svg", "figures/positions.svg"} < expected.keys()
    check_rules(made_again(recorded))
    assert of_pages(recorded / "results/small") == expected


def test_parses_are_recorded_without_their_words_and_scored_with_them(small, recorded):
    paths = sorted((recorded / RECORD / "runs").rglob("*.trees"))
    assert len(paths) >= 2
    for path in paths:
        assert {word for line in path.read_text().splitlines() for word in re.findall(r" ([^ ()]+)\)", line)} == {"_"}
        scores, expected = (
            json.loads(
                (project / "results/small/runs" / path.relative_to(recorded / RECORD / "runs"))
                .with_suffix(".json")
                .read_text()
            )
            for project in (recorded, small)
        )
        assert [scores[name] for name in ("scores", "strict", "draws")] == [
            expected[name] for name in ("scores", "strict", "draws")
        ]


def test_runs_that_were_taken_stay_as_they_were_recorded(small, recorded):
    folder = recorded / RECORD / BASE
    for name in ("run.json", "test.hyp", "metrics.jsonl", "heads.json"):
        assert (folder / name).read_bytes() == (small / f"results/small/{BASE}/{name}").read_bytes()
    assert not list((recorded / RECORD).rglob("last.safetensors"))


def test_a_record_that_fails_loses_nothing(small, recorded, tmp_path):
    """The weights that were recorded before are gone from the run."""
    project = shutil.copytree(small, tmp_path / "project")
    shutil.copytree(recorded / RECORD, project / RECORD)
    (project / "results/small" / BASE / "average.safetensors").unlink()
    before = {path: path.read_bytes() for path in (project / RECORD / BASE).iterdir()}
    result = transformer(project, "record", "small", "--to", RECORD)
    assert result.returncode == 1
    assert f"results/small/{BASE}/average.safetensors: cannot be read" in result.stderr
    assert {path: path.read_bytes() for path in (project / RECORD / BASE).iterdir()} == before


def test_recorded_weights_translate(small, recorded, tmp_path):
    """In 8 bits, which are within their rounding of what was trained."""
    path = f"{BASE}/average.safetensors"
    (kept, header), (whole, expected) = (
        weights.load(folder / path) for folder in (recorded / RECORD, small / "results/small")
    )
    assert header == expected | {"rounded": True}
    score = json.loads((recorded / f"results/small/{BASE}/test.json").read_text())
    assert score["run"]["weights_sha256"] is None  # these are not the weights that translated
    assert kept["embedding.weight"].dtype == torch.int8
    assert from_int8(kept).keys() == whole.keys()
    line = tmp_path / "line"
    line.write_text("A cat hides its key.\n")
    result = transformer(
        recorded, "translate", "--run", f"{RECORD}/{BASE}", "--input", str(line), "--output", str(tmp_path / "out")
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out").read_text().count("\n") == 1
