"""Table 3, compared with numbers computed by hand."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from support.scored import make_table, notes_of, score, shown, write_scores

from transformer.report.tables.table3 import _findings, read_variations, table3
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[3]
PRINTED = """row,experiment,changed,steps,perplexity,bleu,parameters
,base,"N=6, h=8",100K,4.92,25.8,65
A,heads-1,"h=1, d_k=512",,5.29,24.9,
C,N-2,N=2,,6.11,23.7,36
,big,"d_model=1024, h=16",300K,4.33,26.4,213
"""


def make(tmp_path, systems: dict[str, list[float]], *scores: dict, tested: dict | None = None, expected: tuple = ()):
    """Return the rows by experiment, and the table. A system has a BLEU per seed, without test-set sampling."""

    def of(systems: dict[str, list[float]]) -> list[dict]:
        each = ((name, *seed) for name, bleus in systems.items() for seed in enumerate(bleus, start=1))
        return [score(bleu, experiment=name, seed=seed) | {"draws": [bleu] * 1000} for name, seed, bleu in each]

    (tmp_path / "table3.csv").write_text(PRINTED)
    options = {"paper": tmp_path / "table3.csv", "score": write_scores(tmp_path, *scores, *of(systems))}
    options |= {"test": write_scores(tmp_path / "test", *of(tested or {})), "label": "toy test", "dev_label": "toy"}
    options |= {"values": {"base": "N=3", "N-2": "N=1"}, "expected": expected, "data_of_paper": True}
    _, rows, table = make_table(table3, "experiment", **options)
    return rows, table


def column(table, heading: str) -> dict[str, str]:
    return {row["Experiment"]: row[heading] for row in shown(table.grid)}


def test_differences_from_base_are_next_to_the_papers(tmp_path):
    """Base's seeds are 1 apart. With one other seed, t of 4.3 with 2 degrees is 5 %, and the width sqrt(1/3 + 1)."""
    width = (4 / 3) ** 0.5
    rows, table = make(
        tmp_path, {"base": [29, 30, 31], "heads-1": [30], "N-2": [30 - 4.0 * width], "big": [30 + 4.6 * width]}
    )
    assert rows["base"]["from_paper"] == pytest.approx(30 - 25.8)
    p = {name: rows[name]["p"] for name in ("heads-1", "N-2", "big")}
    assert p == pytest.approx({"heads-1": 1, "N-2": 0.0572, "big": 0.0441}, rel=0.08)  # from the t distribution
    found = {name: text.split(" (")[0] for name, text in column(table, "− base, dev").items()}
    assert found == {"base": "", "heads-1": "+0.0", "N-2": "−4.6", "big": "+5.3"}
    assert column(table, "− base, paper") == {"base": "", "heads-1": "−0.9", "N-2": "−2.1", "big": "+0.6"}
    cell = table.grid.rows[3]["− base, dev"]
    assert set(cell.runs) == {"en-de/base/1", "en-de/base/2", "en-de/base/3", "en-de/big/1"}
    assert column(table, "Changed here") == {"base": "", "heads-1": "", "N-2": "N=1", "big": ""}


def test_whether_the_papers_difference_is_seen(tmp_path):
    """The paper's differences are −0.9, −2.1 and +0.6. Ours are −10 and −20, certainly, and 0, within 5 of it."""
    systems = {"base": [29, 30, 31], "heads-1": [20], "N-2": [30], "big": [10], "mine": [10]}
    rows, table = make(tmp_path, systems)
    expected = {"base": "", "heads-1": "seen here", "N-2": "cannot be told", "big": "not seen here", "mine": ""}
    assert column(table, "Seen on dev?") == expected
    assert {name: rows[name]["here"] for name in expected} == expected
    assert set(column(table, "Seen on test?").values()) == {""}


def test_verdicts_of_both_measurements_are_bold_and_all_are_counted(tmp_path):
    systems = {"base": [29, 30, 31], "heads-1": [20], "N-2": [20], "big": [30]}
    rows, table = make(tmp_path, systems, tested=systems | {"N-2": [30]})
    assert column(table, "Seen on dev?")["heads-1"] == column(table, "Seen on test?")["heads-1"] == "**seen here**"
    assert column(table, "Seen on dev?")["N-2"] == "seen here"
    assert column(table, "Seen on test?")["N-2"] == column(table, "Seen on test?")["big"] == "cannot be told"
    counted = "Of the 3 variations that the paper's Table 3 finds better or worse than base, seen here on both dev and"
    assert f"{counted} test: 1 (`heads-1`); on one alone: 1 (`N-2`). Not seen on either: 0; on" in notes_of(table)
    assert rows["N-2"]["test_difference"] == 0


def test_joint_verdicts_of_two_measurements_are_counted():
    verdicts = {"seen": ("seen here", "cannot be told"), "lost": ("cannot be told", "not seen here")}
    verdicts |= {"contrary": ("seen here", "not seen here"), "half": ("seen here", "")}
    frame = pd.DataFrame.from_dict(verdicts, orient="index", columns=["here", "test_here"])
    frame[["paper_difference", "p_holm", "test_p_holm"]] = 1.0
    assert "on both dev and test: 0; on one alone: 1 (`seen`). Not seen on either: 0; on one" in _findings(frame)
    assert "on one alone: 1 (`lost`). Cannot be told: 1 (`contrary`). " in _findings(frame)


def test_differences_that_are_small_in_print_or_by_holms_p_are_named():
    seen, p = ["seen here"] * 3, {"p_holm": [0.01, 0.06, 0.01], "test_p_holm": [0.01, 0.01, 0.07]}
    frame = pd.DataFrame({"paper_difference": [-0.9, -0.1, 0.6], "here": seen, "test_here": seen} | p, list("abc"))
    assert "in the paper 1 (`b`) of the 3 differ from base by only 0.1." in _findings(frame)
    assert "raises p to 0.05 or more for 2 (`b`, `c`) of those seen on both." in _findings(frame)


def test_the_frame_has_the_interval_of_the_difference_and_holms_p(tmp_path):
    """3 and 2 times p, but not above the next product. The interval is 4.3 widths on each side."""
    rows, table = make(tmp_path, {"base": [29, 30, 31], "heads-1": [30], "N-2": [24], "big": [40]})
    p = {name: rows[name]["p"] for name in ("heads-1", "N-2", "big")}
    expected = {"heads-1": 1, "N-2": 2 * p["N-2"], "big": 3 * p["big"]}
    assert {name: rows[name]["p_holm"] for name in p} == pytest.approx(expected)
    limits = [rows["big"][f"difference_{end}"] for end in ("low", "high")]
    assert limits == pytest.approx([10 - 4.303 * (4 / 3) ** 0.5, 10 + 4.303 * (4 / 3) ** 0.5], abs=0.3)
    assert "Tested differences: 3 of 3." in notes_of(table)


def test_without_base_nothing_is_compared_and_gaps_are_named(tmp_path):
    assert list(make(tmp_path, {})[0]) == ["base", "heads-1", "N-2", "big"]
    _, table = make(tmp_path, {"big": [30, 31]}, expected=["en-de/base/2", "en-de/big/2"])
    assert column(table, "− base, dev")["big"] == ""
    assert "have not been made: en-de/base/2." in notes_of(table)


def test_rows_of_the_papers_table_are_experiments_of_the_configuration():
    configured = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["experiments"]
    assert list(read_variations(ROOT / "workflow/paper/table3.csv").index) == list(configured)


@pytest.mark.parametrize(("key", "value"), [("task", "en-fr"), ("steps", 400), ("parameters", 9)])
def test_scores_that_do_not_belong_there(tmp_path, key, value):
    with pytest.raises(InputError, match=rf"expected scores of one (planned_)?{key}, found "):
        make(tmp_path, {}, score(30.0), score(30.0, seed=2, **{key: value}))
