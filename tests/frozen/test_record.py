"""The record on Multi30k makes its tables, figures and page again, byte for byte; its weights keep their scores."""

import csv
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from support.mirror import mirrored
from support.project import ROOT, copy_project, snakemake, transformer

from transformer.commands.results import OF_SCALE
from transformer.config.settings import read
from transformer.files import sha256
from transformer.pipeline import Pipeline
from transformer.report.build import build_all

RECORD = Path("results/record/multi30k")
SHIPPED = sorted(path.parent for path in (ROOT / RECORD).rglob("average.safetensors"))
VERDICTS = {"seen here", "not seen here", "cannot be told"}
LOSS = 0.05  # BLEU by which another processor may change a score; the 32-bit weights differ by more


def made_files(folder: Path) -> dict[str, str]:
    """Return the checksums of all tables and figures and of the page."""
    made = (path for pattern in OF_SCALE if not pattern.startswith("data/") for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(made)}


def emptied(project: Path) -> None:
    """Delete what is made from the runs."""
    for name in ("tables", "figures"):
        shutil.rmtree(project / RECORD / name)
    (project / RECORD / "report.html").unlink()


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Copy the project with its record, and the test sets that its page shows."""
    mirrored("multi30k-test_2016_flickr.en.gz")
    project = copy_project(tmp_path_factory.mktemp("clone"))
    shutil.copytree(ROOT / RECORD, project / RECORD)
    return project


def test_the_record_makes_its_tables_again(project, monkeypatch):
    """Without Snakemake, in this process."""
    targets = [f"resources/corpora/multi30k-test_2016_flickr.{name}" for name in ("en", "de", "fr")]
    mirror = f"mirror={os.environ['TRANSFORMER_MIRROR']}"
    own = ["--configfile", str(RECORD / "config.yaml"), "--config", mirror]
    result = snakemake(project, *own, "--", *targets, "resources/corpora/gum-test.trees")
    assert result.returncode == 0, result.stdout + result.stderr
    emptied(project)
    monkeypatch.chdir(project)
    build_all(Pipeline(read([str(RECORD / "config.yaml")], [])))
    assert made_files(project / RECORD) == made_files(ROOT / RECORD)


@pytest.mark.slow
def test_the_workflow_makes_the_records_tables_again(project):
    """From the record alone, in its place; no training, search or analysis is planned."""
    emptied(project)
    mirror = f"mirror={os.environ['TRANSFORMER_MIRROR']}"
    result = snakemake(project, "--configfile", str(RECORD / "config.yaml"), "--config", mirror)
    assert result.returncode == 0, result.stdout + result.stderr
    jobs = set(re.findall(r"^(?:local)?rule (\w+):", result.stdout + result.stderr, re.MULTILINE))
    assert jobs <= {"fetch", "unpack", "treebank", "table", "figure", "page", "all"}
    assert made_files(project / RECORD) == made_files(ROOT / RECORD)


def test_a_model_of_each_task_is_shipped():
    assert [run.parts[-3:-1] for run in SHIPPED] == [("en-de", "base"), ("en-fr", "base")]


def findings() -> list[tuple[str, str]]:
    """Return each finding in the record's README: its cells joined, from what is compared to the verdict."""
    lines = (ROOT / RECORD / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(row[1].strip("`"), " | ".join(row[-2:])) for row in rows if row[-1] in VERDICTS]


def test_the_findings_are_those_of_the_tables():
    """Verdicts and numbers are copied by hand, so every row of both tables with a verdict is looked up here."""
    expected = []
    for row in table("table3"):
        if row["here"]:
            expected.append((row["experiment"], difference(row, "difference", "difference_") + f" | {row['here']}"))
    for row in table("table5"):
        if row["verdict"] in VERDICTS and row["row"] not in dict(expected):
            expected.append((row["compared"].strip("`"), difference(row, "value", "") + f" | {row['verdict']}"))
    assert findings() == expected


def table(name: str) -> list[dict[str, str]]:
    with (ROOT / RECORD / f"tables/{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def difference(row: dict[str, str], value: str, ends: str) -> str:
    """Return a difference and its interval as the README writes them: +0.6 (−1.0 to +2.2)."""
    numbers = [f"{float(row[key]):+.1f}" for key in (value, f"{ends}low", f"{ends}high")]
    return "{} ({} to {})".format(*numbers).replace("-", "−")


@pytest.mark.slow
@pytest.mark.parametrize("run", SHIPPED, ids=lambda run: run.parts[-3])
def test_shipped_weights_have_the_stated_scores(project, run, tmp_path):
    """The model card states the scores of the weights in 8 bits."""
    run = run.relative_to(ROOT)
    name = "/".join(run.parts[-3:])
    corpus, target = "resources/corpora/multi30k-test_2016_flickr", name[3:5]
    hyp, scored = tmp_path / "hyp", tmp_path / "scores.json"
    translation = ["--run", str(run), "--input", f"{corpus}.en", "--output", str(hyp)]
    assert transformer(project, "translate", *translation).returncode == 0
    scoring = ["--hyp", str(hyp), "--ref", f"{corpus}.{target}", "--lang", target, "--json", str(scored)]
    assert transformer(project, "score", *scoring).returncode == 0
    scores = json.loads(scored.read_text())["scores"]
    card = (ROOT / RECORD / "MODEL.md").read_text(encoding="utf-8")
    stated = re.search(rf"^\| \[{name}\].* 8 bits \| ([\d.]+) \| ([\d.]+) \|", card, re.MULTILINE)
    assert [float(number) for number in stated.groups()] == pytest.approx(
        [scores[metric]["score"] for metric in ("tokenized_lc", "sacrebleu")], abs=LOSS
    )
