"""The chain behind a cell, for a real run of a few steps: fresh as it was made, with each change seen and named."""

import json
import shutil
from pathlib import Path

import pytest
from support.project import ROOT
from support.toy import make_data, make_experiment, make_run, random_lines

from transformer import __main__
from transformer.config.experiment import load, save
from transformer.model import weights as checkpoints
from transformer.report.page.chain import chain, stale

ROWS = "model,system,en-de_bleu,note\nTransformer (base),transformer,27.3,\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make results with one run from training to Table 2, by the stages in its folder, as Snakemake does."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        data, run = "results/toy/data/en-de", "results/toy/runs/en-de/base/1"
        make_data(folder / data, random_lines(1, 60), random_lines(2, 20))
        make_run(folder / run, make_experiment(steps=8))
        (folder / "paper.csv").write_text(ROWS)
        (folder / "test.en").write_text("ab cd\nef gh ij\n")
        __main__.main(["train", run, "--data", data, "--threads", "1"])
        __main__.main(["average", "--run", run])
        __main__.main(["translate", "--run", run, "--input", "test.en", "--output", f"{run}/test.hyp"])
        score = ["score", "--hyp", f"{run}/test.hyp", "--ref", "test.en", "--lang", "de", "--run", run]
        __main__.main([*score, "--json", f"{run}/test.json"])
        table = ["table", "table2", "--paper", "paper.csv", "--label", "toy", "--score", f"{run}/test.json"]
        __main__.main([*table, "--output", "results/toy/tables/table2"])
    return folder


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """Return a copy that a test may spoil."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def explained(capsys) -> str:
    __main__.main(["explain", "table2", "base", "en-de", "--scale", "toy"])
    return capsys.readouterr().out


def test_a_fresh_cell(project, capsys):
    printed = explained(capsys)
    names = [line.split()[0] for line in printed.splitlines() if line]
    assert names == ["cell", "score", "hyp", "ref", "decoding", "weights", "run", "experiment", "data"]
    assert "STALE" not in printed
    assert "step" in printed
    assert "commit" in printed


def train_again(run: Path) -> None:
    """Replace the weights by others, of the same steps."""
    tensors, about = checkpoints.load(run / "average.safetensors")
    checkpoints.save(run / "average.safetensors", {name: tensor + 1 for name, tensor in tensors.items()}, about)


def change_run(run: Path, **changes: str) -> None:
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | changes))


CHANGES = [
    ("hyp", lambda run: (run / "test.hyp").write_text("other\n")),
    ("ref", lambda run: (run.parents[5] / "test.en").unlink()),
    (
        "decoding",
        lambda run: (run / "decoding.yaml").write_text(
            (run / "decoding.yaml").read_text().replace("beam: 3", "beam: 5")
        ),
    ),
    ("weights", lambda run: shutil.copy(run / "last.safetensors", run / "average.safetensors")),
    ("weights", train_again),
    ("run", lambda run: change_run(run, commit="other")),
    ("run", lambda run: (run / "run.json").write_text("{}")),
    ("experiment", lambda run: save(make_experiment(seed=2), run / "experiment.yaml")),
    ("data", lambda run: (run.parents[2].parent / "data/en-de/data.json").write_text('{"sha256": "other"}')),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=range(len(CHANGES)))
def test_each_change_is_seen_and_named(project, what, change):
    run = project / "results/toy/runs/en-de/base/1"
    change(run)
    assert [link.name for link in chain(run / "test.json") if link.stale] == [what]
    assert stale(run / "test.json").startswith(what)


def test_runs_that_the_table_does_not_have_change_nothing(project, capsys):
    """They are of a seed that is not configured any more."""
    shutil.copytree(project / "results/toy/runs/en-de/base/1", project / "results/toy/runs/en-de/base/2")
    score = project / "results/toy/runs/en-de/base/2/test.json"
    score.write_text(score.read_text().replace('"score": ', '"score": 1'))
    assert "STALE" not in explained(capsys)


def test_a_cell_older_than_its_score(project, capsys):
    table = project / "results/toy/tables/table2.csv"
    shown = table.read_text().splitlines()[-1].split(",")[3]
    table.write_text(table.read_text().replace(f",{shown},", ",12.5,"))
    with pytest.raises(SystemExit, match="STALE"):
        __main__.main(["explain", "table2", "base", "en-de", "--scale", "toy"])
    assert f"STALE: its scores make {float(shown):.4f} now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table2 big en-de", "results/toy/tables/table2.csv: expected a number for big on en-de, found none"),
        ("table2 base en-fr", "results/toy/tables/table2.csv: expected a number for base on en-fr, found none"),
        ("table2 base en-d", "results/toy/tables/table2.csv: expected a number for base on en-d, found none"),
        ("table3 base en-de", "results/toy/tables/table3.csv: "),
        ("table2 base en-de --scale demo", "results/demo/tables/table2.csv: "),
    ],
)
def test_what_is_not_there(project, words, expected):
    with pytest.raises(SystemExit, match=f"transformer explain: error: {expected}"):
        __main__.main(["explain", "--scale", "toy", *words.split()])


def test_an_experiment_is_what_it_was_read_from(project):
    """Cosmetic edits make nothing stale."""
    run = project / "results/toy/runs/en-de/base/1"
    save(load(run / "experiment.yaml"), run / "experiment.yaml")
    (run / "experiment.yaml").write_text((run / "experiment.yaml").read_text() + "# a comment\n")
    assert stale(run / "test.json") == ""


def test_the_scale_is_that_of_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(
        (ROOT / "config.yaml").read_text("utf-8").replace("scale: demo", "scale: paper")
    )
    with pytest.raises(SystemExit, match=r"results/paper/tables/table2\.csv: "):
        __main__.main(["explain", "table2", "base", "en-de"])
