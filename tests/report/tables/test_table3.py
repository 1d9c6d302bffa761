"""Table 3, compared with numbers computed by hand."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from support.scored import detail, make_table, notes_of, score, shown, write_scores

from transformer.evaluation.scores import read_scores
from transformer.report.tables.cells import firm, ladder, note
from transformer.report.tables.table3 import read_variations, table3
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[3]
PRINTED = """row,experiment,changed,steps,perplexity,bleu,parameters
,base,"N=6, h=8, P_drop=0.1",100K,4.92,25.8,65
A,heads-1,"h=1, d_k=512",,5.29,24.9,
C,N-2,N=2,,6.11,23.7,36
,big,"d_model=1024, h=16, P_drop=0.3",300K,4.33,26.4,213
A,same,h=16,,4.91,25.8,
"""


def make(tmp_path, systems: dict[str, list[float]], *scores: dict, tested: dict | None = None, expected: tuple = ()):
    """Return the rows by experiment, and the table. A system has a BLEU per seed, without test-set sampling."""

    def of(systems: dict[str, list[float]]) -> list[dict]:
        each = ((name, *seed) for name, bleus in systems.items() for seed in enumerate(bleus, start=1))
        return [score(bleu, experiment=name, seed=seed) | {"draws": [bleu] * 1000} for name, seed, bleu in each]

    (tmp_path / "table3.csv").write_text(PRINTED)
    options = {"paper": tmp_path / "table3.csv", "score": write_scores(tmp_path, *scores, *of(systems))}
    options |= {"test": write_scores(tmp_path / "test", *of(tested or {})), "label": "toy test", "dev_label": "toy"}
    options |= {
        "values": {"base": "N=3, P_drop=0.25", "N-2": "N=1", "big": "P_drop=0.4"},
        "expected": expected,
        "data_of_paper": True,
    }
    _, rows, table = make_table(table3, "experiment", **options)
    return rows, table


def column(table, heading: str) -> dict[str, str]:
    return {row["Experiment"]: row[heading] for row in shown(table.grid)}


def test_differences_from_base_are_next_to_the_papers(tmp_path):
    """Base's seeds are 1 apart. With one other seed, t of 4.3 with 2 degrees is 5 %, and the width sqrt(1/3 + 1).

    Holm: 3 times the smallest p is more than 2 times the next.
    """
    width = (4 / 3) ** 0.5
    rows, table = make(
        tmp_path, {"base": [29, 30, 31], "heads-1": [30], "N-2": [30 - 4.0 * width], "big": [30 + 4.6 * width]}
    )
    assert rows["base"]["from_paper"] == pytest.approx(30 - 25.8)
    p = {name: rows[name]["p"] for name in ("heads-1", "N-2", "big")}
    assert p == pytest.approx({"heads-1": 1, "N-2": 0.0572, "big": 0.0441}, rel=0.01)  # from the t distribution
    found = {name: text.split(" (")[0] for name, text in column(table, "− base, dev").items()}
    assert found == {"base": "", "heads-1": "+0.0", "N-2": "−4.6", "big": "+5.3"}
    papers = column(table, "−\N{NO-BREAK SPACE}base, paper")
    assert papers == {"base": "", "heads-1": "−0.9", "N-2": "−2.1", "big": "+0.6"}
    assert "that this scale does not train: `same`." in notes_of(table)
    cell = table.grid.rows[3]["− base, dev"]
    assert set(cell.runs) == {"en-de/base/1", "en-de/base/2", "en-de/base/3", "en-de/big/1"}
    assert column(table, "Changed here") == {"base": "", "heads-1": "", "N-2": "N=1", "big": "P_drop=0.4"}
    ends = [rows["big"][f"difference_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx([0.3 * width, 8.9 * width], abs=0.005)
    of_holm = {name: rows[name]["p_holm"] for name in p}
    assert of_holm == pytest.approx({"heads-1": 1, "N-2": 3 * p["big"], "big": 3 * p["big"]})
    assert detail(table)[2]["p, dev (Holm)"] == f"{p['N-2']:.3f} ({3 * p['big']:.3f})"


def test_whether_the_papers_difference_is_replicated(tmp_path):
    """The paper has −0.9, −2.1, +0.6 and 0; ours are −10 and −20, surely, and 0, with up to 5 to either side."""
    systems = {"base": [29, 30, 31], "heads-1": [20], "N-2": [30], "big": [10], "same": [10], "mine": [10]}
    rows, table = make(tmp_path, systems)
    expected = {"base": "", "mine": "differs", "heads-1": "replicated", "N-2": "inconclusive", "big": "reversed"}
    expected |= {"same": "–"}
    assert column(table, "Verdict, dev") == expected
    assert {name: rows[name]["verdict"] for name in expected} == expected
    assert set(column(table, "Verdict, test").values()) == {""}


def test_own_rows_come_first_and_are_described_first(tmp_path):
    """Nothing is claimed of an own row. A row that is not trained is not shown, unless it is expected."""
    systems = {"base": [29, 30, 31], "mine": [10], "other": [30.5], "N-2": [10]}
    rows, table = make(tmp_path, systems, tested={"base": [30, 31], "mine": [30]}, expected=("en-de/big/1",))
    assert list(column(table, "Verdict, dev")) == ["base", "mine", "other", "N-2", "big"]
    assert list(rows) == ["base", "mine", "other", "heads-1", "N-2", "big", "same"]  # the CSV file has all rows
    p = rows["mine"]["p"], rows["mine"]["test_p"], rows["other"]["p"]
    shown = "`mine`: dev −20.0 (p {:.3f}), differs; test −0.5 (p {:.3f}), inconclusive. `other`: dev +0.5 (p {:.3f}), "
    assert table.found == [f"Your own rows minus base: {shown.format(*p)}inconclusive."]


def test_a_metric_that_a_long_translation_lacks_is_blank(tmp_path):
    lacking, whole = score(30.0), score(31.0, experiment="mine")
    whole["scores"]["ter"] = {"score": 50.0, "signature": "ter|v:1"}
    grid = ladder(read_scores(write_scores(tmp_path, lacking, whole)))
    (row,) = [row for row in grid.rows if row["Variant"] == "ter"]
    assert (str(row["base"]), str(row["mine"])) == ("", "50.00")


def test_bold_has_two_seeds_and_holms_p_on_both_sets_and_all_are_counted(tmp_path):
    """`same` has no difference in the paper; big changes P_drop by 0.2 in the paper and by 0.15 here."""
    systems = {"base": [29, 30, 31], "heads-1": [20, 20], "N-2": [20, 20], "big": [10], "same": [20, 20]}
    rows, table = make(tmp_path, systems, tested=systems | {"N-2": [30, 30]})
    assert column(table, "Verdict, dev") == {
        **{"base": "", "heads-1": "**replicated**", "N-2": "replicated", "big": "reversed", "same": "–"}
    }
    assert column(table, "Verdict, test")["heads-1"] == "**replicated**"
    assert rows["N-2"]["test_difference"] == 0
    assert table.found == [
        "3 rows of the paper's Table 3 are tested. 2 change P_drop as in the paper, or not at all:",
        "replicated on both dev and test: 1 (`heads-1`†)",
        "replicated on dev, not replicated on test: 1 (`N-2`)",
        "other changes of P_drop than in the paper: reversed on both dev and test: 1 (`big`)",
        "† (1 rows): two seeds, and Holm's p < 0.05 on both sets",
    ]
    assert table.found in table.notes


@pytest.mark.parametrize(
    ("holm", "seeds", "verdicts", "bold"),
    [
        ((0.01, 0.04), 2, ("replicated", "replicated"), True),
        ((0.01, 0.04), 2, ("reversed", "reversed"), True),
        ((0.01, 0.06), 2, ("replicated", "replicated"), False),
        ((0.01, 0.04), 1, ("replicated", "replicated"), False),
        ((0.01, 0.04), 2, ("replicated", "reversed"), False),
        ((0.01, 0.04), 2, ("not replicated", "not replicated"), False),
        ((0.01, float("nan")), 2, ("replicated", ""), False),
    ],
)
def test_what_is_bold(holm, seeds, verdicts, bold):
    columns = ["p_holm", "test_p_holm", "seeds", "verdict", "test_verdict"]
    assert list(firm(pd.DataFrame([[*holm, seeds, *verdicts]], columns=columns))) == [bold]


def test_the_note_counts_the_papers_small_differences():
    numbers = pd.to_numeric(read_variations(ROOT / "workflow/paper/table3.csv")["bleu"])
    sizes = (numbers - numbers["base"]).abs().round(1)
    assert f"Of the {(sizes > 0).sum()} differences" in note("scores", "paper").replace("\n", " ")
    assert f"{((sizes > 0) & (sizes <= 0.4)).sum()} are 0.4 BLEU or less" in note("scores", "paper")


def test_without_base_nothing_is_compared_and_gaps_are_named(tmp_path):
    assert list(make(tmp_path, {})[0]) == ["base", "heads-1", "N-2", "big", "same"]
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
