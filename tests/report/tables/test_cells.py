"""Texts of cells, notes under tables, and the CSV files that tables are read from."""

import pytest
from support.scored import score, write_scores

from transformer.evaluation.scores import read_scores
from transformer.files import InputError
from transformer.report.tables.cells import (
    difference_text,
    flops_text,
    interval_text,
    ladder,
    over_seeds,
    p_text,
    read_printed,
)

NAN = float("nan")


def test_differences_and_intervals():
    assert (difference_text(0.44, 1), difference_text(-1.25, 1)) == ("+0.4", "−1.2")
    assert (difference_text(-0.04, 1), difference_text(0.0, 1)) == ("−0.0", "+0.0")
    assert interval_text(26.94, 27.55, 1) == "26.9 – 27.6"
    assert difference_text(NAN, 1) == interval_text(NAN, NAN, 1) == ""


def test_flops_have_two_digits():
    assert [flops_text(flops) for flops in ("2.3e19", 9.96e14, 3.0, NAN)] == ["2.3·10^19", "1.0·10^15", "3.0·10^0", ""]


def test_p_is_never_nothing():
    assert [p_text(p) for p in (1.0, 0.0344, 0.001, 0.00002, NAN)] == ["1.000", "0.034", "0.001", "< 0.001", ""]


def test_the_interval_is_of_the_mean_over_seeds(tmp_path):
    """101 draws from 0 to 100 for one seed, all 2 more for the other: means from 1 to 101."""
    first, second = ([float(draw + more) for draw in range(101)] for more in (0, 2))
    runs = read_scores(write_scores(tmp_path, score(50.0) | {"draws": first}, score(52.0, seed=2) | {"draws": second}))
    averaged = over_seeds(runs, "experiment", {"bleu": "bleu"}, []).loc["base"]
    assert (averaged["low"], averaged["high"], averaged["bleu"]) == (3.5, 98.5, 51)


def test_the_ladder_has_every_variant_and_its_signature(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(30.0), score(33.0, seed=2), score(40.0, experiment="big")))
    rows = {row["Variant"]: row for row in ladder(runs).rows}
    assert set(rows) == {"compound_split *", "sacrebleu", "tokenized_lc"}
    assert str(rows["tokenized_lc"]["base"]) == "32.50 ± 2.12"
    assert rows["tokenized_lc"]["base"].runs == ("en-de/base/1", "en-de/base/2")
    assert str(rows["sacrebleu"]["big"]) == "39.00"
    assert rows["sacrebleu"]["Signature"] == "`en-de|sacrebleu|v:1`"


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
        read_printed(tmp_path / "table.csv", ["system"])
    assert "\n" not in str(caught.value)
