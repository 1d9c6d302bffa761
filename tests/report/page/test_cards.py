"""Run cards, and `explain`, which prints those behind a number."""

import json
from pathlib import Path

import pytest
from support import page

from transformer import cli
from transformer.report.page.cards import run_cards


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> None:
    """Write Table 2, a row of twelve numbers from two runs, and one of these runs."""
    page.write_inputs(tmp_path / "results/toy")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (("base", "en-de"), 12),  # experiment and task
        (("transformer (BASE)", "en-de measure 1"), 3),  # text and part of a heading: 1, 10, 11
        (("ours", "measure 7"), 1),
    ],
)
def test_a_number_is_explained(project, capsys, words, cells):
    cli.main(["explain", "table2", *words, "--scale", "toy"])
    numbers, card, gone = capsys.readouterr().out.split("\n\n")
    assert len(numbers.splitlines()) == cells
    assert numbers.startswith("Transformer (base) ours, EN-DE measure ")
    assert card.startswith(f"en-de/base/1\n  Commit            {page.about_run()['commit']}\n")
    assert "\n  test.json: 2 checkpoints from step 5,800; beam 4, alpha 0.6\n    tokenized *      27.25  nrefs" in card
    assert gone == "en-de/base/2: no file results/toy/runs/en-de/base/2/run.json\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table2 big en-de --scale toy", "results/toy/tables/table2.json: expected a number of ours in a row big, a"),
        ("table2 base F1 --scale toy", "results/toy/tables/table2.json: expected a number of ours in a row base, a"),
        ("table3 base en-de --scale toy", "results/toy/tables/table3.json: "),
        ("table2 base en-de", "config.yaml: no such file"),
    ],
)
def test_what_is_not_there(project, words, expected):
    with pytest.raises(SystemExit, match=f"transformer explain: error: {expected}"):
        cli.main(["explain", *words.split()])


def test_score_whose_training_is_gone_tells_of_it(tmp_path: Path):
    (tmp_path / "test.json").write_text(json.dumps(page.score(page.about_run(experiment="big"))))
    (card,) = run_cards({}, [tmp_path / "test.json"])
    assert (card.run, card.facts["Steps"], card.scores[0].file) == ("en-de/big/1", "6,000", "test.json")
