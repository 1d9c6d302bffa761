"""The pipeline as its users run it: real Snakemake, in a copy of the project, on the demo and on an own corpus."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lxml import html
from support import browsing
from support.project import FIGURES, TABLES, copy_project, own_corpus, snakemake
from support.tools import typeset

from transformer.common.files import sha256


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """A copy of the project in which the whole demo has been run."""
    project = copy_project(tmp_path_factory.mktemp("demo"))
    result = snakemake(project)
    assert result.returncode == 0, result.stderr
    return project


def test_demo_makes_table_2(demo):
    table = (demo / "results/demo/tables/table2.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(table.splitlines()))
    ours = [row for row in rows if row["by"] == "ours"]
    assert [row["model"] for row in ours] == ["Transformer (base)", "Transformer (big)"]
    for row in ours:
        assert "grammar" in row["label"]
        for task in ("en-de", "en-fr"):
            # The grammar is easy: a model that learned it is far above this, one that did not is near 0.
            assert 50 < float(row[f"{task}_bleu"]) <= 100
            assert float(row[f"{task}_flops"]) > 0
    markdown = (demo / "results/demo/tables/table2.md").read_text(encoding="utf-8")
    assert "ConvS2S" in markdown
    assert "27.3" in markdown


def test_demo_makes_table_3(demo):
    table = (demo / "results/demo/tables/table3.csv").read_text(encoding="utf-8")
    rows = {row["experiment"]: row for row in csv.DictReader(table.splitlines())}
    assert list(rows) == list(yaml.safe_load((demo / "config.yaml").read_text())["experiments"])
    assert len(rows) == 20
    for row in rows.values():
        assert float(row["perplexity"]) > 1
        assert 0 <= float(row["bleu"]) <= 100
        assert int(row["parameters"]) > 0
        assert row["seeds"] == "1"
    assert float(rows["base"]["bleu"]) > 50
    assert rows["N-4"]["parameters"] == rows["base"]["parameters"]  # at this scale both have two layers
    markdown = (demo / "results/demo/tables/table3.md").read_text(encoding="utf-8")
    for shown in ("grammar-dev", "4.92", "learned-positions", "by 8 and N by 2"):
        assert shown in markdown


def test_demo_makes_table_4(demo):
    table = (demo / "results/demo/tables/table4.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(table.splitlines()))
    supervised, semi = [row for row in rows if row["by"] == "ours"]
    assert len(rows) == 14
    # A parser that learned the grammar is above this, as translators are above theirs; one that did not is below 40.
    assert 95 <= float(supervised["f1"]) <= 100
    assert 80 <= float(semi["f1"]) <= 100
    assert "self-training" in semi["training"]
    for row in (supervised, semi):
        assert float(row["f1_without_repair"]) <= float(row["f1"])
        assert "grammar" in row["label"]
    markdown = (demo / "results/demo/tables/table4.md").read_text(encoding="utf-8")
    for shown in ("Dyer et al. (2016)", "91.3", "92.7", "17 million"):
        assert shown in markdown


def test_demo_makes_every_table_figure_and_the_page_with_them(demo):
    """As files of their kind, by their first bytes; on the page nothing is missing."""
    kinds = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for figure in FIGURES:
        for ending, begin in kinds.items():
            assert (demo / f"results/demo/figures/{figure}.{ending}").read_bytes().startswith(begin)
    page = html.parse(demo / "results/demo/report.html").getroot()
    for table in TABLES:
        for ending in ("csv", "md", "tex"):
            assert (demo / f"results/demo/tables/{table}.{ending}").stat().st_size > 300
        assert page.get_element_by_id(table).tag == "table"
    for figure in FIGURES:
        assert page.get_element_by_id(figure) is not None
    assert "not made" not in page.text_content()
    assert "changed since" not in page.text_content()


@pytest.mark.parametrize("cell", ["table2 base en-de", "table3 heads-1 en-de", "table4 parser supervised"])
def test_demo_explains_its_cells(demo, cell):
    command = [sys.executable, "-m", "transformer", "explain", *cell.split()]
    result = subprocess.run(command, cwd=demo, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("cell  ")
    assert "STALE" not in result.stdout


def test_demos_tables_are_typeset(demo, tmp_path):
    """Each on a page, with all its notes, and no character that the font lacks."""
    tables = [(demo / f"results/demo/tables/{table}.tex").read_text(encoding="utf-8") for table in TABLES]
    said = typeset(tmp_path, "\n\\clearpage\n".join(tables))
    assert "Missing character" not in said


def test_snakemakes_own_report(demo):
    """Which names tables and figures, with captions and labels."""
    result = snakemake(demo, "--report", "snakemake.html")
    assert result.returncode == 0, result.stderr
    content = (demo / "snakemake.html").read_text(encoding="utf-8")
    for shown in ("Tables", "Figures", "table4", "figure3", "variations on the base model"):
        assert shown in content


def test_demo_score_names_its_run_data_and_decoding(demo):
    run = demo / "results/demo/runs/en-de/base/1"
    score = json.loads((run / "test.json").read_text())
    about = json.loads((run / "run.json").read_text())
    decoding = yaml.safe_load((run / "decoding.yaml").read_text())
    weights = {"averaged_steps": [320, 340, 360, 380, 400], "weights_sha256": sha256(run / "average.safetensors")}
    assert score["run"] == about | {"decoding": decoding} | weights
    data = json.loads((demo / "results/demo/data/en-de/data.json").read_text())
    assert score["run"]["data_sha256"] == data["sha256"]
    last = {"averaged_steps": [400], "weights_sha256": sha256(run / "last.safetensors")}
    assert json.loads((run / "dev.last.json").read_text())["run"] == score["run"] | last
    assert score["sentences"] == len((run / "test.hyp").read_text().splitlines()) == 500


def test_demo_learns(demo):
    lines = (demo / "results/demo/runs/en-fr/big/1/metrics.jsonl").read_text().splitlines()
    perplexities = [entry["dev_perplexity"] for entry in map(json.loads, lines) if "dev_perplexity" in entry]
    assert perplexities[-1] < perplexities[0]
    assert perplexities[-1] < 2


def test_second_run_has_nothing_to_do(demo):
    result = snakemake(demo)
    assert result.returncode == 0
    assert "Nothing to be done" in result.stderr + result.stdout


def test_cosmetic_edits_train_nothing(demo):
    trained = sorted(demo.glob("results/demo/runs/*/*/1/run.json"))
    before = {path: path.stat().st_mtime_ns for path in trained}
    for module in demo.glob("transformer/**/*.py"):
        module.write_text(module.read_text(encoding="utf-8") + "\n\n# a comment\n", encoding="utf-8")
    with (demo / "config.yaml").open("a") as config:
        config.write("# a comment\n")
    result = snakemake(demo)
    assert result.returncode == 0, result.stderr
    assert len(trained) == 24
    assert {path: path.stat().st_mtime_ns for path in trained} == before


def test_changed_beam_translates_anew_but_trains_nothing(demo):
    (demo / "beam.yaml").write_text("decoding: {beam: 5}\n")
    result = snakemake(demo, "--dry-run", "--configfile", "beam.yaml")
    assert result.returncode == 0
    assert "rule translate" in result.stdout
    assert "rule train" not in result.stdout


def test_person_translates(demo):
    sentence = (demo / "resources/corpora/grammar-test.en").read_text(encoding="utf-8").splitlines()[0]
    command = [sys.executable, "-m", "transformer", "translate", "--run", "results/demo/runs/en-de/base/1"]
    answer = subprocess.run(command, cwd=demo, input=sentence + "\n", text=True, capture_output=True, check=True).stdout
    assert (
        answer == (demo / "results/demo/runs/en-de/base/1/test.hyp").read_text(encoding="utf-8").split("\n")[0] + "\n"
    )


def test_person_parses(demo):
    answers = {}
    for name, text in (("plain", "The old man sees a dog.\n"), ("words", "The old man sees a dog .\n")):
        command = [sys.executable, "-m", "transformer", "parse", "--run", "results/demo/runs/supervised/parser/1"]
        command += [] if name == "plain" else ["--tokenized"]
        answers[name] = subprocess.run(command, cwd=demo, input=text, text=True, capture_output=True, check=True).stdout
    assert answers["plain"] == answers["words"]
    expected = "(TOP (S (NP (DT The) (JJ old) (NN man)) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .)))\n"
    assert answers["plain"] == expected


def test_a_page_of_the_runs_that_are_there_names_the_others(demo, tmp_path):
    """A run without its log of metrics, one without a score, and more seeds and steps, of which nothing is trained."""
    project = copy_project(tmp_path)
    for folder in ("results", "resources", ".snakemake"):
        shutil.copytree(demo / folder, project / folder)
    runs = project / "results/demo/runs"
    (runs / "en-de/heads-1/1/metrics.jsonl").unlink()
    (runs / "en-fr/big/1/test.json").unlink()
    shutil.rmtree(runs / "en-de/heads-4")
    (project / "more.yaml").write_text("scales: {demo: {seeds: [1, 2], base: {steps: 500}}}\n")
    partial = ("--configfile", "more.yaml", "--config", "partial=true", "--", "results/demo/report.html")
    result = snakemake(project, *partial)
    assert result.returncode == 0, result.stdout + result.stderr
    for rule in ("experiment", "train", "translate", "score"):
        assert f"rule {rule}:" not in result.stdout + result.stderr
    table2, table3 = ((project / f"results/demo/tables/table{number}.md").read_text("utf-8") for number in (2, 3))
    assert "have not been made: en-de/base/2, en-de/big/2, en-fr/base/2, en-fr/big/1, en-fr/big/2." in table2
    assert "en-de/heads-4/1" in table3
    curves = json.loads((project / "results/demo/figures/curves.json").read_text())
    assert "en-de/heads-1/1" in curves["caption"]
    page = html.parse(project / "results/demo/report.html").getroot().text_content()
    assert "en-fr/big/1" in page


def test_a_page_without_any_run(tmp_path):
    """The paper's rows, what needs no run, and the names of what is missing; nothing is trained."""
    project = copy_project(tmp_path)
    (project / "quick.yaml").write_text("table1: {lengths: [8, 16, 32, 64], widths: [8, 16, 32], seconds: 0.001}\n")
    result = snakemake(
        project, "--configfile", "quick.yaml", "--config", "partial=true", "--", "results/demo/report.html"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(project.glob("results/demo/runs/*/*/*/state"))
    page = html.parse(project / "results/demo/report.html").getroot()
    assert "ConvS2S" in page.get_element_by_id("table2").text_content()
    missing = " ".join(page.text_content().split())
    for gap in ("en-de/base/1", "Figure 3: attention over a long distance: not made", "supervised/parser/1"):
        assert gap in missing


def test_own_corpus_needs_configuration_alone(tmp_path):
    project = copy_project(tmp_path)
    own_corpus(project)
    own = ("--configfile", "own.yaml", "--config", "scale=mine")
    whole = snakemake(project, "--dry-run", *own)
    assert "results/mine/runs/en-cs/heads-32/1/dev.last.hyp" in whole.stdout
    result = snakemake(project, *own, "--", "results/mine/tables/table2.md")
    assert result.returncode == 0, result.stderr
    table = (project / "results/mine/tables/table2.md").read_text(encoding="utf-8")
    assert "EN-CS" in table
    assert "our corpus" in table


def test_paper_scale_lists_the_whole_job(tmp_path):
    result = snakemake(copy_project(tmp_path), "--dry-run", "--config", "scale=paper")
    assert result.returncode == 0, result.stderr
    for what in (
        "training-giga-fren.tar",
        "newstest2014.de-en.de",
        "results/paper/runs/en-fr/big/1/test.hyp",
        "results/paper/tables/table3.md",
    ):
        assert what in result.stdout


def test_sides_of_unequal_length_end_the_run_in_one_line_and_lose_nothing(tmp_path):
    project = copy_project(tmp_path)
    own_corpus(project)
    with (project / "train.cs").open("a") as file:
        file.write("one line more\n")
    result = snakemake(project, "--configfile", "own.yaml", "--config", "scale=mine")
    assert result.returncode != 0
    problem = "expected as many lines on both sides, found: "
    found = "resources/corpora/mine-train.en has 60, resources/corpora/mine-train.cs has 61"
    assert f"transformer tokenize: error: {problem}{found}\n" in result.stdout + result.stderr
    assert (project / "resources/corpora/mine-train.en").exists()
    assert not list(project.glob("results/mine/data/en-cs/*train*"))


def test_missing_mirror_file_is_named(tmp_path):
    project = copy_project(tmp_path)
    result = snakemake(
        project, "--config", "scale=multi30k", "mirror=nowhere", "--", "resources/corpora/multi30k-val.en"
    )
    assert result.returncode != 0
    assert "nowhere/raw.githubusercontent.com/multi30k" in result.stdout + result.stderr
    assert "val.en.gz" in result.stdout + result.stderr


def test_demos_page_in_a_browser(demo):
    """The same as of the page in test_browser.py, of one with every table, figure and run."""
    url = (demo / "results/demo/report.html").as_uri()
    with browsing.started() as browser:
        browsing.check_loading(browser, url)
        browsing.show(browser, url, browsing.TELEPHONE)
        browsing.check_width(browser)
        for scheme in ("light", "dark"):
            browsing.show(browser, url, scheme=scheme)
            browsing.check_access(browser)
