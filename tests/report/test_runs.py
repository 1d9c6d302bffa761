"""The runs behind a page: their closeness to the paper, their hours and cards. `explain` prints the cards."""

import json
from pathlib import Path

import lxml.html
import pytest
import yaml
from support import page
from support.commands import do, error
from support.page import about_run
from support.project import ROOT

from transformer.report.page import _closeness, _usage, run_cards
from transformer.report.tables.render import Cell


def test_hours_are_time_by_cores_or_by_gpus():
    """0.5 h · 2 cores, twice; 0.5 h · 8 GPUs."""
    gpus = about_run(starts=[{"hardware": "NVIDIA H200", "processes": 8}])
    assert _usage({"a": about_run(), "b": about_run(), "c": gpus}) == [
        {"unit": "GPU", "hours": 4.0, "runs": 1, "hardware": ["NVIDIA H200"]},
        {"unit": "core", "hours": 2.0, "runs": 2, "hardware": ["Abacus"]},
    ]


def test_how_close():
    """Without a score on the paper's data, the paper's columns are left out."""
    runs = ("en-de/big/1", "en-de/big/2")
    first = {"Model": "big", "Ours": Cell("26.9 ± 0.2", runs), "Paper": "28.4", "− paper": Cell("−1.5", runs)}
    second = {"Model": "Parser", "Ours": Cell("72.1", ("gum/parser/1",)), "Paper": "91.3", "− paper": Cell("")}
    fragment = lxml.html.fromstring(_closeness([first, second]))
    assert [[cell.text_content() for cell in row] for row in fragment.findall(".//tr")] == [
        ["Model", "Ours", "Paper", "− paper"],
        ["big", "26.9 ± 0.2", "28.4", "−1.5"],
        ["Parser", "72.1", "91.3", ""],
    ]
    fragment = lxml.html.fromstring(_closeness([second]))
    assert [cell.text for cell in fragment.find(".//thead/tr")] == ["Model", "Ours"]


def test_score_of_a_missing_training_describes_the_training(tmp_path: Path):
    (tmp_path / "test.json").write_text(json.dumps(page.score(about_run(experiment="big"))))
    (card,) = run_cards({}, [tmp_path / "test.json"])
    assert (card.run, card.facts["Steps"], card.scores[0]["file"]) == ("en-de/big/1", "6,000", "test.json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> None:
    """Write Table 2 with a row of twelve numbers from two runs, and one of the runs, not in the folder "results"."""
    page.write_inputs(tmp_path / "kept/demo")
    (tmp_path / "config.yaml").write_bytes((ROOT / "config.yaml").read_bytes())
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "kept.yaml").write_text(yaml.safe_dump({"results": "kept"}))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (("base", "en-de"), 12),  # experiment and task
        (("transformer (BASE)", "en-de measure 1"), 1),  # text, and words of a heading: not 10 and 11
        (("transformer (BASE)", "en-de meas"), 12),  # part of a word
    ],
)
def test_a_number_is_explained(project, capsys, words, cells):
    do("explain", "table2", *words, "--configfile", "kept.yaml")
    numbers, source, card, gone = capsys.readouterr().out.split("\n\n")
    command = "snakemake --cores all --configfile kept.yaml -- kept/demo/tables/table2.json"
    assert source.splitlines() == [f"built by: {command}", "from 2 runs"]
    assert len(numbers.splitlines()) == cells
    assert numbers.startswith("Transformer (base) ours, EN-DE measure ")
    assert card.startswith(f"en-de/base/1\n  Commit            {about_run()['commit']}\n")
    scored = f"scored at commit {about_run()['commit']:.12}"
    assert (
        f"\n  test.json: 2 checkpoints from step 5,800; beam 4, alpha 0.6; {scored}\n    tokenized *      27.25" in card
    )
    assert gone == "en-de/base/2: no file kept/demo/runs/en-de/base/2/run.json\n"


def test_what_is_not_there(project):
    expected = "kept/demo/tables/table2.json: expected one of our numbers in a row big and a column en-de, found none"
    problem = error("explain", "table2", "big", "en-de", "--configfile", "kept.yaml")
    assert problem.startswith(f"{expected}; columns with our numbers: EN-DE measure 0; EN-DE measure 1; ")
