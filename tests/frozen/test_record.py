"""The record on Multi30k rebuilds its tables, figures and page byte for byte, and its weights keep their scores."""

import csv
import gzip
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

import pytest
from support import building
from support.mirror import mirrored
from support.project import ROOT, copy_project, rules_of, snakemake, transformer

from transformer.commands.results import OF_SCALE
from transformer.config.settings import read
from transformer.pipeline.scale import Pipeline
from transformer.storage.files import sha256
from transformer.storage.records import with_sum, without_sum

RECORD = Path("results/record/multi30k")
SHIPPED = sorted(path.parent for path in (ROOT / RECORD).rglob("average.safetensors"))
# An x86-64 processor without its newer instructions, for each library that selects code by processor.
OLDER = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
OLDER |= {"NPY_DISABLE_CPU_FEATURES": "SSE41 POPCNT SSE42 AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX"}
OLDER |= {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX,-FMA4"}
LOSS = 0.05  # maximum change of BLEU on another processor; 32-bit weights differ by more


def made_files(folder: Path) -> dict[str, str]:
    made = (path for pattern in OF_SCALE if not pattern.startswith("data/") for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(made)}


def emptied(project: Path) -> None:
    for name in ("tables", "figures"):
        shutil.rmtree(project / RECORD / name, ignore_errors=True)
    (project / RECORD / "report.html").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Copy the project with its record, and the test sets for its page."""
    mirrored("multi30k-test_2016_flickr.en.gz")
    project = copy_project(tmp_path_factory.mktemp("clone"))
    shutil.copytree(ROOT / RECORD, project / RECORD)
    targets = [f"resources/corpora/multi30k-test_2016_flickr.{name}" for name in ("en", "de", "fr")]
    mirror = f"mirror={os.environ['TRANSFORMER_MIRROR']}"
    own = ["--configfile", str(RECORD / "config.yaml"), "--config", mirror]
    result = snakemake(project, *own, "--", *targets)
    assert result.returncode == 0, result.stdout + result.stderr
    return project


def perturbed(content: object, chance: random.Random) -> object:
    """Return a JSON value with numbers that differ in the 15th digit."""
    if isinstance(content, dict):
        settings = ("decoding", "alpha", "epsilon_ls", "times", "quantile")
        return {key: value if key in settings else perturbed(value, chance) for key, value in content.items()}
    if isinstance(content, list):
        return [perturbed(value, chance) for value in content]
    return content * (1 + chance.uniform(-2e-15, 2e-15)) if isinstance(content, float) else content


def perturbed_record(record: object, chance: random.Random) -> object:
    """Return a perturbed record. A record with a checksum of its content gets a new one, as another processor's has."""
    changed = perturbed(record, chance)
    return with_sum(without_sum(changed)) if isinstance(changed, dict) and "sha256" in changed else changed


def test_the_record_rebuilds_on_another_processor(project):
    """An older processor, and numbers that differ in the 15th digit, give the recorded outputs."""
    chance = random.Random(1)
    folder = project / RECORD
    kept = {path: path.read_bytes() for name in ("*.json", "runs/**/*.json*") for path in folder.glob(name)}
    for path, content in kept.items():
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        path.write_text("".join(json.dumps(perturbed_record(json.loads(line), chance)) + "\n" for line in lines))
    emptied(project)
    env = os.environ | OLDER | {"PYTHONPATH": str(project)}
    build = [sys.executable, building.__file__, RECORD / "config.yaml"]
    result = subprocess.run(build, cwd=project, env=env, capture_output=True)
    for path, content in kept.items():
        path.write_bytes(content)
    assert result.returncode == 0, result.stderr.decode()
    assert made_files(folder) == made_files(ROOT / RECORD)


@pytest.mark.slow
@pytest.mark.parametrize("absolute", [False, True])
def test_the_workflow_plans_only_the_records_tables(project, absolute: bool):
    """The workflow plans no training, search or analysis in the record's folder. They would overwrite the record."""
    emptied(project)
    config = [f"mirror={os.environ['TRANSFORMER_MIRROR']}", *[f"results={project / RECORD.parent}"] * absolute]
    result = snakemake(project, "--dry-run", "--configfile", str(RECORD / "config.yaml"), "--config", *config)
    assert result.returncode == 0, result.stdout + result.stderr
    planned = rules_of(result.stdout)
    assert {"table", "figure", "page"} < planned <= {"fetch", "unpack", "treebank", "table", "figure", "page", "all"}


def test_a_model_of_each_task_is_shipped():
    assert [run.parts[-3:-1] for run in SHIPPED] == [("en-de", "base"), ("en-fr", "base")]


def test_readmes_count_the_verdicts_of_table_3():
    """The record's README names the rows. The project's README has only the numbers."""
    text = (ROOT / RECORD / "tables/table3.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if float(row["paper_difference"])]
    verdicts = {row["experiment"]: [row[f"{prefix}verdict"] for prefix in ("", "test_")] for row in rows}
    for folder, named in ((ROOT / RECORD, True), (ROOT, False)):
        text = (folder / "README.md").read_text(encoding="utf-8")
        for kind in ("replicated", "not replicated", "reversed"):
            cells = []
            for times in (2, 1):
                names = [f"`{name}`" for name, both in verdicts.items() if both.count(kind) == times]
                cells.append(f"{len(names)}" + f": {', '.join(names)}" * (named and bool(names)))
            assert f"\n| {kind} | {' | '.join(cells)} |\n" in text
    assert f"prints {len(rows)} differences from base" in " ".join(text.split())


def test_the_records_readme_states_bases_scores():
    """The README states means and deviations over seeds, together with the scores of a published model."""
    text = (ROOT / RECORD / "README.md").read_text(encoding="utf-8")
    stated = re.findall(r"([\d.]+) ± ([\d.]+)", re.search(r"^\| base, .*", text, re.MULTILINE)[0])
    found = []
    for task in ("en-de", "en-fr"):
        scores = [
            json.loads(path.read_text())["scores"] for path in (ROOT / RECORD).glob(f"runs/{task}/base/*/test.json")
        ]
        for metric in ("tokenized_lc", "sacrebleu"):
            values = [of_run[metric]["score"] for of_run in scores]
            found.append((f"{mean(values):.2f}", f"{stdev(values):.2f}"))
    assert stated == found


def test_every_run_is_in_the_tables():
    """The record's configuration lists the seeds of all existing runs. The tables list the missing runs."""
    pipeline = Pipeline(read([str(ROOT / RECORD / "config.yaml")], []))
    there = {"/".join(path.parts[-4:-1]) for path in (ROOT / RECORD).glob("runs/*/*/*/run.json")}
    notes = "".join(path.read_text("utf-8") for path in (ROOT / RECORD).glob("tables/table*.md"))
    named = re.findall(r"these runs have not been made: (.*)\.", notes)
    missing = {run for names in named for run in names.split(", ")}
    assert set(map(str, pipeline.all_runs())) == there | missing
    assert not there & missing


@pytest.mark.slow
@pytest.mark.parametrize("run", SHIPPED, ids=lambda run: run.parts[-3])
def test_shipped_weights_have_the_stated_scores(project, run, tmp_path):
    """The model card states the scores of the int8 weights on three test sets."""
    run = run.relative_to(ROOT)
    name, target = "/".join(run.parts[-3:]), run.parts[-3][3:5]
    hyp, scored, scores = tmp_path / "hyp", tmp_path / "scores.json", []
    for corpus in ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"):
        for side in ("en", target):
            (tmp_path / side).write_bytes(gzip.decompress(mirrored(f"multi30k-{corpus}.{side}.gz").read_bytes()))
        translation = ["--run", str(run), "--input", str(tmp_path / "en"), "--output", str(hyp)]
        assert transformer(project, "translate", *translation).returncode == 0
        scoring = ["--hyp", str(hyp), "--ref", str(tmp_path / target), "--lang", target, "--json", str(scored)]
        assert transformer(project, "score", *scoring).returncode == 0
        found = json.loads(scored.read_text())["scores"]
        scores += [found[metric]["score"] for metric in ("tokenized_lc", "sacrebleu")]
    card = (ROOT / RECORD / "MODEL.md").read_text(encoding="utf-8")
    first = re.search(rf"^\| \[{name}\].* int8 \| ([\d.]+) \| ([\d.]+) \|", card, re.MULTILINE)
    others = re.search(rf"^\| {name}, int8" + r" \| ([\d.]+)" * 4, card, re.MULTILINE)
    assert [float(number) for number in (*first.groups(), *others.groups())] == pytest.approx(scores, abs=LOSS)
