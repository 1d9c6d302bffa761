"""How close ours are to the paper's, and the hours of training."""

from pathlib import Path

import lxml.html
import pytest
from support.page import about_run

from transformer.files import InputError
from transformer.report.page.summary import Usage, closeness, moved_runs, usage

HEADINGS = ["Model", "Task", "Paper", "Ours", "95 %"]
COLUMNS = "by,training,f1,f1_sd,low,high,paper,difference,runs"


def test_hours_are_time_by_cores_or_by_gpus():
    """0.5 h · 2 cores, twice; 0.5 h · 8 GPUs."""
    gpus = [{"hardware": "NVIDIA H200", "processes": 8}]
    runs = {"a": about_run(), "b": about_run(), "c": about_run(starts=gpus)}
    assert usage(runs) == [Usage("GPU", 4.0, 1, ["NVIDIA H200"]), Usage("core", 2.0, 2, ["Abacus"])]
    assert moved_runs(runs) == []
    there, here = about_run()["starts"][0], gpus[0]
    assert moved_runs({"a": about_run(starts=[there, there]), "b": about_run(starts=[there, here])}) == ["b"]


def test_how_close(tmp_path: Path):
    """A single run has no deviation, a task that was not run no line."""
    (tmp_path / "table2.csv").write_text(
        "model,by,en-de_bleu,en-de_bleu_sd,en-de_low,en-de_high,en-de_paper,en-de_difference,en-de_runs,"
        "en-fr_bleu,en-fr_difference\nTransformer (big),paper,28.4,,,,,,,41.8,\n"
        "Transformer (big),ours,26.9,0.25,26.1,27.7,28.4,-1.5,en-de/big/1 en-de/big/2,,\n"
    )
    (tmp_path / "table4.csv").write_text(
        f"{COLUMNS}\npaper,WSJ,91.3,,,,,,\nours,GUM,72.1,,71,73,91.3,-19.2,gum/parser/1\n"
    )
    fragment = lxml.html.fromstring(closeness(tmp_path / f"table{number}.json" for number in (2, 3, 4)))
    assert [cell.text for cell in fragment.find(".//thead/tr")] == [*HEADINGS, "− paper"]
    assert [[cell.text_content() for cell in row] for row in fragment.findall(".//tbody/tr")] == [
        ["Transformer (big)", "EN-DE, BLEU", "28.4", "26.9 ± 0.2", "26.1 – 27.7", "−1.5"],
        ["Parser (GUM)", "parsing, F1", "91.3", "72.1", "71.0 – 73.0", "−19.2"],
    ]
    assert [cell.get("data-runs") for cell in fragment.iterfind(".//td[@data-runs]")] == [
        *["en-de/big/1 en-de/big/2"] * 3,
        *["gum/parser/1"] * 3,
    ]


def test_scores_on_other_data_have_no_difference_from_the_papers(tmp_path: Path):
    (tmp_path / "table4.csv").write_text(f"{COLUMNS}\nours,GUM,72.1,,71,73,91.3,,gum/parser/1\n")
    fragment = lxml.html.fromstring(closeness([tmp_path / "table4.json"]))
    assert [cell.text for cell in fragment.find(".//thead/tr")] == HEADINGS


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("by,training,f1\nours,GUM,72.1", "missing key 'f1_sd'"),
        (f"{COLUMNS}\nours,GUM,?,,,,,,", r"f1: expected a number, found '\?'"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, row: str, expected: str):
    (tmp_path / "table4.csv").write_text(row + "\n")
    with pytest.raises(InputError, match=rf"table4\.csv.*{expected}"):
        closeness([tmp_path / "table4.json"])
