"""The paper's scale in small, from the first download to the last table (support/rehearsal.py)."""

import csv
import json
import re
from pathlib import Path

import pytest
import yaml
from support.project import copy_project, snakemake
from support.rehearsal import FILTERED, FOREIGN, LINES, LOST, PAPER, make_rehearsal, write_treebank

SMALL = ["--configfile", "rehearsal.yaml", "made.yaml"]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return make_rehearsal(tmp_path_factory.mktemp("project", numbered=False))


@pytest.fixture(scope="module")
def results(project) -> Path:
    result = snakemake(project, *SMALL)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    return project / "results/paper"


def rows(results: Path, table: str) -> list[dict[str, str]]:
    """Return the rows of a table with our numbers."""
    found = csv.DictReader((results / f"tables/{table}.csv").read_text("utf-8").splitlines())
    return [row for row in found if row.get("by", "ours") == "ours" and row.get("runs", "ours")]


def blank(row: dict[str, str], *columns: str) -> list[str]:
    return [column for column in columns if row[column] in ("", "nan")]


def test_no_training_waits_for_files_that_only_scores_need(tmp_path):
    """It does not wait for their downloads either. At full size, all rows are resolved, too."""
    targets = [f"results/paper/runs/{run.task}/{run.experiment}/{run.seed}/run.json" for run in PAPER.all_runs()]
    write_treebank(copy_project(tmp_path))
    result = snakemake(tmp_path, "--dry-run", "--config", "scale=paper", "--", *targets)
    assert result.returncode == 0, result.stdout + result.stderr
    texts = {name for task in PAPER.tasks.values() for name in (*task.learned_from(), task.dev)}
    files = [file for name in texts for file in PAPER.config.corpora[name].sources().values()]
    needed = {file.download for file in files if file.download}
    assert set(re.findall(r"output: resources/downloads/(\S+)", result.stdout)) == needed
    assert not re.search(r"newstest2014|rule (translate|score|analyse):", result.stdout)


@pytest.mark.slow
class TestResults:
    def test_text_comes_through(self, project, results):
        """Every character of a corpus is kept, except a return at a line's end. Unclean sentences are dropped."""
        for language, side in (("en", 0), ("de", 1)):
            text = (project / f"resources/corpora/commoncrawl.de-en.{language}").read_bytes().decode().split("\n")
            assert len(text) == LINES + 1
            assert [text[10 * place] for place in range(len(FOREIGN))] == [pair[side].rstrip("\r") for pair in FOREIGN]
        german, french = (json.loads((results / f"data/en-{to}/train.json").read_text()) for to in ("de", "fr"))
        assert german.pop("files").keys() == {"train.source.tok", "train.target.tok"}
        assert german == {"read": 3 * LINES, "kept": 3 * (LINES - LOST)} | {"blank": 6, "long": 3, "unequal": 3}
        assert french["read"] == 5 * LINES
        assert 4 * LINES < french["kept"] <= 5 * (LINES - LOST + 1)  # 81 words are allowed, but ratios are stricter

    def test_table_2(self, results):
        base, big, lstm = rows(results, "table2")
        numbers = ("bleu", "sacrebleu", "low", "high", "steps", "seeds")
        for row in (base, big):
            assert not blank(row, *(f"{task}_{number}" for task in ("en-de", "en-fr") for number in numbers))
            assert not blank(row, "en-de_difference", "en-fr_difference")
        assert not blank(lstm, *(f"en-de_{number}" for number in numbers))  # the paper has no number for it
        assert not blank(base, "en-de_bleu_sd")

    def test_table_3_has_tests(self, results, project):
        found = {row["experiment"]: row for row in rows(results, "table3")}
        trained = yaml.safe_load((project / "rehearsal.yaml").read_text("utf-8"))["scales"]["paper"]["rows"]
        assert found.keys() == {*trained} & PAPER.config.experiments.keys()
        for name, row in found.items():
            assert not blank(row, "perplexity", "bleu", "sacrebleu", "low", "high", "parameters", "from_paper")
            assert name == "base" or not blank(row, "difference", "difference_low", "p", "verdict")
        assert not blank(found["base"], "bleu_sd", "perplexity_sd")

    def test_table_4(self, results):
        found = rows(results, "table4")
        assert [row["task"] for row in found] == ["supervised", "semi-supervised"]
        for row in found:
            assert not blank(row, "f1", "low", "high", "recall", "f1_constrained", "f1_dev", "repaired", "tagging")
        assert json.loads((results / "data/semi-supervised/train.json").read_text())["silver"] > 0

    def test_table_5_has_a_verdict_on_all_that_is_measured(self, results):
        found = [row for row in rows(results, "table5") if row["verdict"] != "not run"]
        assert not [
            row for row in found if blank(row, "value", "low", "high", "p") or row["verdict"].startswith("not testable")
        ]
        compared = " ".join(row["compared"] for row in found)
        averaged = [f"`base`, {PAPER.config.base.averaged_checkpoints}", "`big`, 20"]
        for name in (*averaged, "2 × the longest", "3 × the longest", "`additive`", "heads masked", "beam 20"):
            assert name in compared
        assert "BLEU, α 0.6" in (results / "tables/table5.md").read_text("utf-8")

    def test_what_choices_are_worth(self, results):
        found = {row["choice"]: row for row in rows(results, "bleu_variants")}
        assert not blank(found[f"the {FILTERED} filtered sentences only"], "bleu", "difference")
        assert not [row for row in found.values() if blank(row, "bleu")]
