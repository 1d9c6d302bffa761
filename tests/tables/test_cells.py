"""Texts of cells, notes under tables, and the CSV files that tables are read from."""

import pytest
from support.scored import score, write_scores

from transformer.common.files import InputError
from transformer.scoring.scorefiles import read_scores
from transformer.tables.cells import (
    averaged_text,
    difference_cell,
    difference_text,
    flops_text,
    interval,
    interval_text,
    mean_text,
)
from transformer.tables.csvfiles import read_csv
from transformer.tables.notes import gaps, ladder

NAN = float("nan")


@pytest.mark.parametrize(
    ("flops", "text"), [("2.3e19", "2.3·10^19"), (9.96e14, "1.0·10^15"), (3.0, "3.0·10^0"), (NAN, "")]
)
def test_flops_text(flops, text):
    assert flops_text(flops) == text


def test_mean_text():
    assert mean_text("26.30", NAN, 1) == "26.30"
    assert mean_text(27.345, 0.25, 1) == "27.3 ± 0.2"
    assert mean_text(4.9249, 0.0151, 2) == "4.92 ± 0.02"
    assert mean_text(27.345, NAN, 1) == "27.3"
    assert mean_text(NAN, NAN, 1) == ""


def test_differences_and_intervals():
    assert (difference_text(0.44, 1), difference_text(-1.25, 1)) == ("+0.4", "−1.2")
    assert difference_text(-0.04, 1) == difference_text(0.0, 1) == "+0.0"
    assert interval_text(26.94, 27.55, 1) == "26.9 – 27.6"
    assert difference_text(NAN, 1) == interval_text(NAN, NAN, 1) == ""


def test_averaged_text():
    assert averaged_text([1400, 1600]) == "2 checkpoints from step 1,400"
    assert averaged_text([1600]) == "step 1,600 alone"


def test_a_difference_is_marked_where_the_papers_score_is_in_our_interval(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(27.6)))
    assert str(difference_cell(0.3, "27.3", 27.3, 27.9, runs)) == "+0.3 ‡"
    assert str(difference_cell(0.3, 27.3, 27.31, 27.9, runs)) == "+0.3"
    assert difference_cell(0.3, "27.3", 27.3, 27.9, runs).runs == ("en-de/base/1",)
    assert str(difference_cell(NAN, "", 27.3, 27.9, runs)) == ""


def test_the_interval_is_of_the_mean_over_seeds(tmp_path):
    """101 draws from 0 to 100 for one seed, all 2 more for the other: means from 1 to 101."""
    first, second = ([float(draw + more) for draw in range(101)] for more in (0, 2))
    runs = read_scores(write_scores(tmp_path, score(50.0) | {"draws": first}, score(52.0, seed=2) | {"draws": second}))
    assert interval(runs) == (3.5, 98.5)


def test_the_ladder_has_every_variant_and_its_signature(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(30.0), score(33.0, seed=2), score(40.0, experiment="big")))
    rows = {row["Variant"]: row for row in ladder(runs).rows}
    assert set(rows) == {"compound_split *", "sacrebleu", "tokenized_lc"}
    assert str(rows["tokenized_lc"]["base"]) == "32.50 ± 2.12"
    assert rows["tokenized_lc"]["base"].runs == ("en-de/base/1", "en-de/base/2")
    assert str(rows["sacrebleu"]["big"]) == "39.00"
    assert rows["sacrebleu"]["Signature"] == "`en-de|sacrebleu|v:1`"


def test_gaps_are_named(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(30.0)))
    assert gaps(["en-de/base/1"], runs) == []
    (gap,) = gaps(["en-de/base/1", "en-de/base/2", "en-fr/big/1"], runs)
    assert gap.endswith(": en-de/base/2, en-fr/big/1.")
    assert "en-de/base/1, en-fr/big/1" in gaps(["en-de/base/1", "en-fr/big/1"], read_scores([]))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"table\.csv: cannot be read as CSV"),
        ("model,en-de_bleu\nByteNet,23.75\n", r"table\.csv: expected a column 'system', found model, en-de_bleu"),
        ("model,system\nByteNet,published,23.75,\n1,2\n1,2,3,4,5,6\n", r"table\.csv: cannot be read as CSV: .*line 4"),
    ],
)
def test_a_csv_file_that_is_no_such_table(tmp_path, text, message):
    if text is not None:
        (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_csv(tmp_path / "table.csv", ["system"])
    assert "\n" not in str(caught.value)
