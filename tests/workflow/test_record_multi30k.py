"""The record on Multi30k: its lists are right, and its tables, page and weights give again what it says."""

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.mirror import mirrored
from support.project import ROOT, copy_project, snakemake, transformer
from support.recorded import of_pages

RECORD = Path("results/record/multi30k")
CONFIG = yaml.safe_load((ROOT / RECORD / "config.yaml").read_text(encoding="utf-8"))
TAKEN = CONFIG["scales"]["multi30k"]["from"]
SHIPPED = sorted(path.parent for path in (ROOT / RECORD).rglob("average.safetensors"))
VERDICTS = {"seen here", "not seen here", "cannot be told"}
LOSS = 0.05  # BLEU by which another processor may change a score; the 32-bit weights differ by more


def sums(path: Path) -> dict[str, str]:
    """Return the files and checksums of a list, of which each line is `checksum  name`."""
    return {name: sha256 for sha256, name in (line.split() for line in path.read_text().splitlines())}


@pytest.mark.parametrize("place", [*TAKEN.values(), CONFIG["scales"]["multi30k"]["measured"]], ids=lambda p: p["path"])
def test_files_are_those_on_the_list(place):
    listed = ROOT / place["path"] / "SHA256SUMS"
    assert hashlib.sha256(listed.read_bytes()).hexdigest() == place["sha256"]
    for name, sha256 in sums(listed).items():
        assert hashlib.sha256((listed.parent / name).read_bytes()).hexdigest() == sha256, name


def test_a_model_of_each_task_is_shipped():
    assert [run.parts[-3:-1] for run in SHIPPED] == [("en-de", "base"), ("en-fr", "base")]


def test_every_run_is_listed():
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / RECORD).glob("runs/*/*/*/run.json")}
    assert folders == {place["path"] for place in TAKEN.values()}


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


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Make everything from the record alone, as a clone at another commit would, with downloads from the mirror."""
    mirrored("multi30k-test_2016_flickr.en.gz")
    project = copy_project(tmp_path_factory.mktemp("clone"))
    shutil.copytree(ROOT / RECORD, project / RECORD)
    for arguments in (["init", "-q"], ["add", "transformer"], ["commit", "-q", "-m", "another"]):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=project, check=True)
    mirror = f"mirror={os.environ['TRANSFORMER_MIRROR']}"
    result = snakemake(project, "--configfile", str(RECORD / "config.yaml"), "--config", mirror)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not re.search(r"^(local)?rule (train|translate|parse|probe\w*|measure):", result.stderr, re.MULTILINE)
    return project


@pytest.mark.slow
def test_the_record_makes_its_tables_again_byte_for_byte(project):
    expected = of_pages(ROOT / RECORD)
    assert {"report.html", "tables/table2.md", "figures/figure3.svg"} < expected.keys()
    assert of_pages(project / "results/multi30k") == expected


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
        [scores[measure]["score"] for measure in ("tokenized_lc", "sacrebleu")], abs=LOSS
    )
