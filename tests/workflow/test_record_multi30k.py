"""The record on Multi30k: its lists are right, and its tables, page and weights give again what it says."""

import hashlib
import json
import os
import re
import shutil
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


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Make everything from the record alone, as a clone would, with downloads from the mirror."""
    mirrored("multi30k-test_2016_flickr.en.gz")
    project = copy_project(tmp_path_factory.mktemp("clone"))
    shutil.copytree(ROOT / RECORD, project / RECORD)
    mirror = f"mirror={os.environ['TRANSFORMER_MIRROR']}"
    result = snakemake(project, "--configfile", str(RECORD / "config.yaml"), "--config", mirror)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not re.search(r"^(local)?rule (train|translate|parse|probe\w*|measure):", result.stderr, re.MULTILINE)
    return project


@pytest.mark.slow
def test_the_record_makes_its_tables_again_byte_for_byte(project):
    expected = of_pages(ROOT / RECORD)
    assert {"report.html", "REPRODUCIBILITY.md", "tables/table2.md", "figures/figure3.svg"} < expected.keys()
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
