"""The pipeline in use: real Snakemake in copies of the project, with a few sentences and steps."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lxml import html
from support.project import ENVIRONMENT, all_rules, copy_project, last_line, own_corpus, rules_of, snakemake

from transformer.data.grammar import take
from transformer.pipeline.registry import FIGURES, TABLES
from transformer.storage.files import sha256

RESULTS = "results/small"
BASE = f"{RESULTS}/runs/en-de/base/1"


@pytest.fixture
def project(small, tmp_path) -> Path:
    """A copy of the finished project for changes."""
    return shutil.copytree(small, tmp_path / "project")


def test_every_rule_has_run(small):
    assert rules_of((small / "output").read_text("utf-8")) == all_rules()


def test_every_table_figure_and_the_page_with_them(small):
    """The first bytes of each file show its type. On the page, nothing is missing."""
    kinds = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for figure in FIGURES:
        for ending, begin in kinds.items():
            assert (small / f"{RESULTS}/figures/{figure}.{ending}").read_bytes().startswith(begin)
    page = html.parse(small / f"{RESULTS}/report.html").getroot()
    for table in TABLES:
        for ending in ("csv", "md", "tex"):
            assert (small / f"{RESULTS}/tables/{table}.{ending}").stat().st_size > 300
        assert page.get_element_by_id(table).tag == "table"
    for figure in FIGURES:
        assert page.get_element_by_id(figure) is not None
    assert "not made" not in page.text_content()


def test_gpus_are_counted_once(tmp_path):
    """A process for each job would delay the start of a hundred jobs by seconds."""
    project = copy_project(tmp_path)
    (project / "workflow/scripts/gpus").write_text("print(0, file=open('counted', 'a')); print(0)")
    result = snakemake(project, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert (project / "counted").read_text() == "0\n"


def test_snakemakes_own_report_has_captions(project):
    result = snakemake(project, "--report", "snakemake.html")
    assert result.returncode == 0, result.stderr
    content = (project / "snakemake.html").read_text(encoding="utf-8")
    for shown in ("Tables", "Figures", "table4", "figure3", "variations on the model"):
        assert shown in content


def test_a_score_names_its_run_data_and_decoding(small):
    run = small / BASE
    score = json.loads((run / "test.json").read_text())
    about = json.loads((run / "run.json").read_text())
    decoding = yaml.safe_load((run / "decoding.yaml").read_text())
    weights = {"averaged_steps": [2, 3, 4, 5, 6], "weights_sha256": sha256(run / "average.safetensors")}
    own = {key: value for key, value in about.items() if key not in ("files", "sha256")}  # only the run's sums
    scored_with = {"commit": "unknown", "model_code": about["starts"][0]["model_code"]}
    assert score["run"] == own | {"decoding": decoding, "scored_with": scored_with} | weights
    data = json.loads((small / f"{RESULTS}/data/en-de/data.json").read_text())
    assert score["run"]["data_sha256"] == data["sha256"]
    last = {"averaged_steps": [6], "weights_sha256": sha256(run / "last.safetensors")}
    assert json.loads((run / "dev.last.json").read_text())["run"] == score["run"] | last
    assert score["sentences"] == len((run / "test.hyp").read_text().splitlines()) == 8


def test_a_treebank_is_read_and_phrases_and_silver_trees_are_added_to_one_task(small):
    """The Penn Treebank's sections lose traces and functions. A parser learns the grammar's trees."""
    trees = (small / "resources/corpora/bank.trees").read_text("utf-8").splitlines()
    assert trees == [f"(TOP {item.tree})" for item in take(2, 8, 8)]
    single, both = (
        json.loads((small / f"{RESULTS}/data/{task}/train.json").read_text())
        for task in ("supervised", "semi-supervised")
    )
    assert single.pop("files").keys() == both.pop("files").keys() == {"train.source.tok", "train.target.tok"}
    assert single == {"kept": 300, "trees": 300, "phrases": 0, "repeat": 1, "silver": 0}
    assert both == {"kept": 309 + both["silver"], "trees": 300, "phrases": 9, "repeat": 1, "silver": both["silver"]}
    assert both["silver"] > 0


def test_a_second_run_has_nothing_to_do(small):
    result = snakemake(small, "--dry-run")
    assert "Nothing to be done" in result.stderr + result.stdout


def test_a_changed_beam_trains_nothing_and_cosmetic_edits_prepare_nothing_either(project):
    (project / "beam.yaml").write_text("decoding: {beam: 5}\nrunning: {log_every: 7}\n")
    again = rules_of(snakemake(project, "--dry-run", "--configfile", "beam.yaml").stdout)
    assert "translate" in again
    assert "train" not in again
    for module in project.glob("transformer/**/*.py"):
        module.write_text(module.read_text(encoding="utf-8") + "\n\n# a comment\n", encoding="utf-8")
    with (project / "config.yaml").open("a") as config:
        config.write("# a comment\n")
    again = rules_of(snakemake(project, "--dry-run").stdout)
    assert {"translate", "score", "parse", "evalb", "attend", "measure", "figure", "table", "page"} <= again
    assert not again & {"fetch", "unpack", "generate", "tokenize", "vocabulary", "encode", "experiment"}
    assert not again & {"train", "train_parser", "linearize", "silver_parse", "silver"}


@pytest.mark.parametrize(("key", "value"), [("urls", ["https://example.com/other"]), ("sha256", "0" * 64)])
def test_a_new_checksum_repeats_a_download_but_a_new_url_does_not(project, key, value):
    (project / "change.yaml").write_text(yaml.safe_dump({"downloads": {"test.en.gz": {key: value}}}))
    result = snakemake(project, "--dry-run", "--configfile", "change.yaml", "--", "resources/corpora/far-test.en")
    assert ("fetch" in rules_of(result.stdout)) == (key == "sha256")
    assert ("Nothing to be done" in result.stdout + result.stderr) == (key == "urls")


@pytest.mark.slow
def test_a_page_of_the_runs_that_are_there_names_the_others(project):
    """One run lacks its log of metrics, another its score. Further seeds and steps are configured, but not trained."""
    runs = project / RESULTS / "runs"
    (runs / "en-de/dropout-0.0/1/metrics.jsonl").unlink()
    (runs / "en-de/big/1/test.json").unlink()
    (runs / "en-de/base/1/heads.json").unlink()
    shutil.rmtree(runs / "en-de/smoothing-0.0")
    (project / "more.yaml").write_text("scales: {small: {seeds: [1, 2], base: {steps: 500}}}\n")
    partial = ("--configfile", "more.yaml", "--config", "partial=true", "--", f"{RESULTS}/report.html")
    result = snakemake(project, *partial)
    assert result.returncode == 0, result.stdout + result.stderr
    assert rules_of(result.stdout + result.stderr) <= {"table", "figure", "page"}
    table2, table3 = ((project / f"{RESULTS}/tables/table{number}.md").read_text("utf-8") for number in (2, 3))
    missing = ("base/2", "big/1", "big/2", "lstm/2")
    assert f"have not been made: {', '.join(f'en-de/{run}' for run in missing)}." in table2
    assert "en-de/smoothing-0.0/1" in table3
    curves = json.loads((project / f"{RESULTS}/figures/curves.json").read_text())
    assert "en-de/dropout-0.0/1" in curves["caption"]
    page = " ".join(html.parse(project / f"{RESULTS}/report.html").getroot().text_content().split())
    assert "en-de/big/1" in page
    assert "Heads: importance and distance: the base model is trained, but its heads are not measured" in page


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "corpora: {own-train: {files: {en: {path: nope.en}}}}",
            r"change.yaml, line 1: corpora.own-train.files.en.path",
        ),
        ("scales: {small: {base: {initial_weights: nope.safetensors}}}", r"config.yaml: en-de/base/1: initial_weights"),
        ("scales: {small: {tasks: {en-de: {vocabulary_file: nope.model}}}}", "config.yaml: en-de: vocabulary_file"),
    ],
)
def test_a_missing_file_of_the_users_ends_with_one_line_where_older_results_exist(project, change, line):
    (project / "change.yaml").write_text(f"{change}\n")
    before = sorted(project.glob(f"{RESULTS}/**/*"))
    result = snakemake(project, "--configfile", "change.yaml")
    assert result.returncode == 1
    assert re.search(rf"^{line}: no such file: nope\.\w+$", result.stderr, re.MULTILINE), result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(project.glob(f"{RESULTS}/**/*")) == before
    assert rules_of(snakemake(project, "--dry-run").stdout) <= {"table", "figure", "page"}


def test_a_corpus_may_have_any_language(tmp_path):
    code = "zh_CN"
    config = own_corpus(copy_project(tmp_path))
    config.write_text(config.read_text("utf-8").replace("cs", code))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.cs").rename(tmp_path / f"{split}.{code}")
    table = "results/mine/tables/table2.csv"
    result = snakemake(tmp_path, "--dry-run", "--configfile", config.name, "--config", "scale=mine", "--", table)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"results/mine/runs/en-{code}/base/1/test.json" in result.stdout


def test_without_the_penn_treebank_all_other_tables_are_made(tmp_path):
    """`all` reports the missing table. A request for Table 4 gets an error with the missing folder."""
    result = snakemake(copy_project(tmp_path), "--dry-run", "--config", "scale=paper")
    assert result.returncode == 0, result.stderr
    assert "`all` skips table4: no folder resources/wsj with the Penn Treebank" in result.stderr
    assert "results/paper/tables/table4" not in result.stdout
    result = snakemake(tmp_path, "--dry-run", "--config", "scale=paper", "--", "results/paper/tables/table4.md")
    assert "rule treebank" in result.stdout


def test_the_workflow_reports_a_missing_environment(tmp_path):
    """Rules call `python`, but there is none on PATH, or one without torch."""
    project, folder = copy_project(tmp_path), tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "git", "env", "which"):
        (folder / tool).symlink_to(shutil.which(tool))
    command, env = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"], ENVIRONMENT | {"PATH": str(folder)}
    for found in ("none", folder / "python"):
        ended = subprocess.run(command, cwd=project, env=env, text=True, capture_output=True)
        assert ended.returncode == 1
        assert last_line(ended).startswith("Snakefile: expected the `python` of ")
        assert f"found {found}: activate the environment" in last_line(ended)
        (folder / "python").write_text("#!/bin/bash\nexit 1\n")
        (folder / "python").chmod(0o755)
