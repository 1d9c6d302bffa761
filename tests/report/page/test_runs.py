"""The runs behind a page: how close they come to the paper, their hours and cards; `explain` prints the cards."""

import json
from pathlib import Path

import lxml.html
import pytest
import yaml
from support import page
from support.commands import do, error
from support.page import about_run
from support.project import ROOT

from transformer.report.page.runs import closeness, run_cards, score_rows, usage

HEADINGS = ["Model", "Ours", "95 %"]
COLUMNS = "by,training,f1,f1_sd,low,high,paper,difference,runs"


def test_hours_are_time_by_cores_or_by_gpus():
    """0.5 h · 2 cores, twice; 0.5 h · 8 GPUs."""
    gpus = about_run(starts=[{"hardware": "NVIDIA H200", "processes": 8}])
    assert usage({"a": about_run(), "b": about_run(), "c": gpus}) == [
        {"unit": "GPU", "hours": 4.0, "runs": 1, "hardware": ["NVIDIA H200"]},
        {"unit": "core", "hours": 2.0, "runs": 2, "hardware": ["Abacus"]},
    ]


def test_how_close(tmp_path: Path):
    """A single run has no deviation, a task that was not run no line; other data have no difference."""
    (tmp_path / "table2.csv").write_text(
        "model,by,en-de_bleu,en-de_bleu_sd,en-de_low,en-de_high,en-de_paper,en-de_difference,en-de_runs,"
        "en-fr_bleu,en-fr_difference\nTransformer (big),paper,28.4,,,,,,,41.8,\n"
        "Transformer (big),ours,26.9,0.25,26.1,27.7,28.4,-1.5,en-de/big/1 en-de/big/2,,\n"
    )
    (tmp_path / "table4.csv").write_text(f"{COLUMNS}\npaper,WSJ,91.3,,,,,,\nours,GUM,72.1,,71,73,91.3,,gum/parser/1\n")
    fragment = lxml.html.fromstring(closeness(score_rows(tmp_path / f"table{number}.json" for number in (2, 3, 4))))
    assert [cell.text for cell in fragment.find(".//thead/tr")] == [*HEADINGS, "Paper", "− paper"]
    assert [[cell.text_content() for cell in row] for row in fragment.findall(".//tbody/tr")] == [
        ["Transformer (big), EN-DE BLEU", "26.9 ± 0.2", "26.1 – 27.7", "28.4", "−1.5"],
        ["Parser (GUM), F1", "72.1", "71.0 – 73.0", "91.3", ""],
    ]
    runs = [cell.get("data-runs") for cell in fragment.iterfind(".//td[@data-runs]")]
    assert runs == [*["en-de/big/1 en-de/big/2"] * 3, *["gum/parser/1"] * 2]
    fragment = lxml.html.fromstring(closeness(score_rows([tmp_path / "table4.json"])))
    assert [cell.text for cell in fragment.find(".//thead/tr")] == HEADINGS


def test_score_whose_training_is_gone_tells_of_it(tmp_path: Path):
    (tmp_path / "test.json").write_text(json.dumps(page.score(about_run(experiment="big"))))
    (card,) = run_cards({}, [tmp_path / "test.json"])
    assert (card.run, card.facts["Steps"], card.scores[0]["file"]) == ("en-de/big/1", "6,000", "test.json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> None:
    """Write Table 2, a row of twelve numbers from two runs, and one of these runs, not in the folder "results"."""
    page.write_inputs(tmp_path / "kept/demo")
    (tmp_path / "config.yaml").write_bytes((ROOT / "config.yaml").read_bytes())
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "kept.yaml").write_text(yaml.safe_dump({"results": "kept"}))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (("base", "en-de"), 12),  # experiment and task
        (("transformer (BASE)", "en-de measure 1"), 3),  # text and part of a heading: 1, 10, 11
    ],
)
def test_a_number_is_explained(project, capsys, words, cells):
    do("explain", "table2", *words, "--configfile", "kept.yaml")
    numbers, card, gone = capsys.readouterr().out.split("\n\n")
    assert len(numbers.splitlines()) == cells
    assert numbers.startswith("Transformer (base) ours, EN-DE measure ")
    assert card.startswith(f"en-de/base/1\n  Commit            {about_run()['commit']}\n")
    assert "\n  test.json: 2 checkpoints from step 5,800; beam 4, alpha 0.6\n    tokenized *      27.25  nrefs" in card
    assert gone == "en-de/base/2: no file kept/demo/runs/en-de/base/2/run.json\n"


def test_what_is_not_there(project):
    expected = "kept/demo/tables/table2.json: expected a number of ours in a row big, a column en-de, found none"
    problem = error("explain", "table2", "big", "en-de", "--configfile", "kept.yaml")
    assert problem.startswith(f"{expected}; such numbers stand in EN-DE measure 0; EN-DE measure 1; ")
