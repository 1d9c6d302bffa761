"""The records rebuild their tables, figures and pages byte for byte, and the weights keep their scores."""

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

RECORDS = Path("results/record")
RECORD = RECORDS / "multi30k"
# The downloads of the texts that each record's tables and page are built from.
TEXTS = {
    "multi30k": [f"multi30k-test_2016_flickr.{side}.gz" for side in ("en", "de", "fr")],
    "iwslt15": ["iwslt15-tst2013.vi"],
}
SHIPPED = sorted(path.parent for path in (ROOT / RECORD).rglob("average.safetensors"))
# An x86-64 processor without its newer instructions, for each library that selects code by processor.
OLDER = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
OLDER |= {"NPY_DISABLE_CPU_FEATURES": "SSE41 POPCNT SSE42 AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX"}
OLDER |= {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX,-FMA4"}
LOSS = 0.05  # maximum change of BLEU on another processor; 32-bit weights differ by more


def made_files(folder: Path) -> dict[str, str]:
    made = (path for pattern in OF_SCALE if not pattern.startswith("data/") for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): sha256(path) for path in sorted(made)}


def emptied(folder: Path) -> None:
    for name in ("tables", "figures"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "report.html").unlink(missing_ok=True)


@pytest.fixture(scope="module", params=TEXTS)
def record(tmp_path_factory, request) -> Path:
    """Copy the project with one record and its texts. Return the copied record."""
    for text in TEXTS[request.param]:
        mirrored(text)
    project, folder = copy_project(tmp_path_factory.mktemp("clone")), RECORDS / request.param
    shutil.copytree(ROOT / folder, project / folder)
    targets = [f"resources/corpora/{text.removesuffix('.gz')}" for text in TEXTS[request.param]]
    own = ["--configfile", str(folder / "config.yaml"), "--config", f"mirror={os.environ['TRANSFORMER_MIRROR']}"]
    result = snakemake(project, *own, "--", *targets)
    assert result.returncode == 0, result.stdout + result.stderr
    return project / folder


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


def test_the_record_rebuilds_on_another_processor(record):
    """An older processor, and numbers that differ in the 15th digit, give the recorded outputs."""
    chance, project = random.Random(1), record.parents[2]
    kept = {path: path.read_bytes() for name in ("*.json", "runs/**/*.json*") for path in record.glob(name)}
    for path, content in kept.items():
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        path.write_text("".join(json.dumps(perturbed_record(json.loads(line), chance)) + "\n" for line in lines))
    emptied(record)
    env = os.environ | OLDER | {"PYTHONPATH": str(project)}
    build = [sys.executable, building.__file__, record / "config.yaml"]
    result = subprocess.run(build, cwd=project, env=env, capture_output=True)
    for path, content in kept.items():
        path.write_bytes(content)
    assert result.returncode == 0, result.stderr.decode()
    assert made_files(record) == made_files(ROOT / record.relative_to(project))


@pytest.mark.slow
@pytest.mark.parametrize("absolute", [False, True])
def test_the_workflow_plans_only_the_records_tables(record, absolute: bool):
    """The workflow plans no training, search or analysis in the record's folder. They would overwrite the record."""
    emptied(record)
    config = [f"mirror={os.environ['TRANSFORMER_MIRROR']}", *[f"results={record.parent}"] * absolute]
    own = ["--configfile", str(record / "config.yaml"), "--config", *config]
    result = snakemake(record.parents[2], "--dry-run", *own)
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


def comparisons(name: str) -> dict[str, str]:
    """Return the differences and verdicts of a record's first task, of Tables 2 and 5.

    Comparisons at equal seconds are left out, because the seconds depend on other work on the machine.
    """
    tables, found = ROOT / RECORDS / name / "tables", {}
    for line in (tables / "table2.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 5 and re.match("EN-(DE|VI): ", cells[0]) and not cells[1].startswith("seconds"):
            equal = re.sub(r": [^;]*| \([^)]*\)", "", cells[1])
            found[f"{cells[0][7:]}, equal {equal}"] = f"{cells[3]}, {cells[2]}"
    for row in csv.DictReader(io.StringIO((tables / "table5.csv").read_text(encoding="utf-8"))):
        for split, prefix in (("dev", ""), ("test", "test_")):
            if row[f"{prefix}value"]:
                ends = (float(row[prefix + key]) for key in ("value", "low", "high"))
                value, low, high = (f"{end:+.1f}".replace("-", "−") for end in ends)
                found[f"{row['compared']}; {split}"] = f"{value} ({low} to {high}), {row[f'{prefix}verdict']}"
    return found


def test_captions_and_talks_are_compared():
    """The README of the second record has every comparison that both records have."""
    captions, talks = comparisons("multi30k"), comparisons("iwslt15")
    text = (ROOT / RECORDS / "iwslt15/README.md").read_text(encoding="utf-8")
    shared = [key for key in captions if key in talks]
    assert {"`base` − `lstm`, equal steps; test", "`base`, 5 checkpoints − the last; dev"} <= set(shared)
    table = "".join(f"| {key} | {captions[key]} | {talks[key]} |\n" for key in shared)
    assert f"| --- | --: | --: |\n{table}\n" in text, table


def test_the_second_records_readme_states_its_scores():
    """Each run has a row: parameters, BLEU, its interval, BLEU without training pairs, sacreBLEU and perplexity."""
    folder, found = ROOT / RECORDS / "iwslt15", []
    for path in folder.glob("runs/*/*/*/test.json"):
        content, run = json.loads(path.read_text()), json.loads((path.parent / "run.json").read_text())
        bleu, sacrebleu = (content["scores"][metric] for metric in ("tokenized", "sacrebleu"))
        unseen = content["subsets"]["unseen"]["scores"]["tokenized"]
        cells = [f"{run['parameters'] / 1e6:.2f} M", f"{bleu['score']:.2f}", f"{bleu['low']:.1f} – {bleu['high']:.1f}"]
        cells += [f"{unseen['score']:.2f}", f"{sacrebleu['score']:.2f}", f"{run['dev_perplexity']:.1f}"]
        found.append(" | ".join(cells))
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| .*? \| (\S+ M \| .* [\d.]+) \|$", text, re.MULTILINE)) == sorted(found)


@pytest.mark.parametrize("name", TEXTS)
def test_every_run_is_in_the_tables(name: str):
    """The record's configuration lists the seeds of all existing runs. The tables list the missing runs."""
    folder = ROOT / RECORDS / name
    pipeline = Pipeline(read([str(folder / "config.yaml")], []))
    there = {"/".join(path.parts[-4:-1]) for path in folder.glob("runs/*/*/*/run.json")}
    notes = "".join(path.read_text("utf-8") for path in folder.glob("tables/table*.md"))
    named = re.findall(r"these runs have not been made: (.*)\.", notes)
    missing = {run for names in named for run in names.split(", ")}
    assert set(map(str, pipeline.all_runs())) == there | missing
    assert not there & missing


@pytest.mark.slow
@pytest.mark.parametrize("run", SHIPPED, ids=lambda run: run.parts[-3])
@pytest.mark.parametrize("record", ["multi30k"], indirect=True)
def test_shipped_weights_have_the_stated_scores(record, run, tmp_path):
    """The model card states the scores of the int8 weights on three test sets."""
    run, project = run.relative_to(ROOT), record.parents[2]
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
