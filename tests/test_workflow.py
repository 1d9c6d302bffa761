"""The pipeline as its users run it: real Snakemake, in a copy of the project, on the demo and on an own corpus."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import copy_project, last_line, own_corpus, snakemake


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


def test_demo_score_names_its_run_data_and_decoding(demo):
    run = demo / "results/demo/runs/en-de/base/1"
    score = json.loads((run / "test.json").read_text())
    about = json.loads((run / "run.json").read_text())
    decoding = yaml.safe_load((run / "decoding.yaml").read_text())
    assert score["run"] == about | {"decoding": decoding, "averaged_steps": [320, 340, 360, 380, 400]}
    data = json.loads((demo / "results/demo/data/en-de/data.json").read_text())
    assert score["run"]["data_sha256"] == data["sha256"]
    assert json.loads((run / "dev.last.json").read_text())["run"] == score["run"] | {"averaged_steps": [400]}
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
    assert "rule train:" not in result.stdout


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


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scale=large", "config.yaml: scale: expected one of scales (demo, multi30k, paper), found 'large'"),
        ("beams=4", "config.yaml: top level: Additional properties are not allowed ('beams' was unexpected)"),
        ("base={N: six}", "config.yaml: base.N: 'six' is not of type 'integer'"),
    ],
)
def test_bad_configuration_is_refused_in_one_line(tmp_path, setting, message):
    result = snakemake(copy_project(tmp_path), "--dry-run", "--config", setting)
    assert result.returncode != 0
    assert last_line(result) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dev: mine-dev,", "dev: yours,", "config.yaml: scales.mine.tasks.en-cs: expected one of corpora ("),
        (
            "target: cs",
            "target: de",
            "scales.mine.tasks.en-cs: corpus 'mine-train' has no 'de', only en, cs",
        ),
        ("embedding_rows: 40", "embedding_rows: 39", "vocabulary 40 exceeds embedding_rows 39"),
        ("dev: mine-dev,", "dev: mine-train,", "dev corpus 'mine-train' shares sentences with 'mine-train' in train"),
        (
            "source: en,",
            "source: en, experiments: {bgi: {N: 3}},",
            "config.yaml: scales.mine.tasks.en-cs.experiments: ",
        ),
        ("path: dev.cs", "path: gone.cs", "config.yaml: corpora.mine-dev.files.cs: no such file: gone.cs"),
        ("{big:", "{bigger:", "config.yaml: scales.mine.experiments: expected one of experiments ("),
    ],
)
def test_names_and_numbers_that_do_not_fit_are_refused(tmp_path, old, new, message):
    project = copy_project(tmp_path)
    own = own_corpus(project)
    own.write_text(own.read_text().replace(old, new))
    result = snakemake(project, "--dry-run", "--configfile", "own.yaml", "--config", "scale=mine")
    assert result.returncode != 0
    assert message in last_line(result)


def test_slices_of_the_grammar_that_overlap_are_refused(tmp_path):
    project = copy_project(tmp_path)
    (project / "overlap.yaml").write_text("corpora: {grammar-dev: {grammar: {skip: 19999}}}\n")
    result = snakemake(project, "--dry-run", "--configfile", "overlap.yaml")
    assert result.returncode != 0
    assert "dev corpus 'grammar-dev' shares sentences with 'grammar-train' in train" in last_line(result)


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
