"""Score files that do not belong in one table are refused by name; what is said of those that do."""

import pytest
from support.scored import score, write_scores

from transformer.common.files import InputError
from transformer.scoring.scorefiles import read_scores, read_table, run_name
from transformer.tables.cells import averaged_text, difference_cell, gaps, interval, ladder


def test_averaged_text():
    assert averaged_text([1400, 1600]) == "2 checkpoints from step 1,400"
    assert averaged_text([1600]) == "step 1,600 alone"


def test_run_name():
    assert run_name({"task": "en-de", "experiment": "base", "seed": 2}) == "en-de/base/2"
    with pytest.raises(InputError, match=r"^run\.json: missing key 'seed'$"):
        run_name({"task": "en-de", "experiment": "base"}, "run.json")


def test_a_difference_is_marked_where_the_papers_score_is_in_our_interval(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(27.6)))
    assert str(difference_cell(0.3, "27.3", 27.3, 27.9, runs)) == "+0.3 ‡"
    assert str(difference_cell(0.3, 27.3, 27.31, 27.9, runs)) == "+0.3"
    assert difference_cell(0.3, "27.3", 27.3, 27.9, runs).runs == ("en-de/base/1",)
    assert str(difference_cell(float("nan"), "", 27.3, 27.9, runs)) == ""


def test_a_score_without_its_run(tmp_path):
    with pytest.raises(InputError, match=r"score0\.json: expected a score with its run"):
        read_scores(write_scores(tmp_path, score(30.0) | {"run": None}))


def test_two_scores_of_one_run(tmp_path):
    with pytest.raises(InputError, match=r"en-de/base/1: .*score0\.json, .*score1\.json"):
        read_scores(write_scores(tmp_path, score(30.0), score(31.0)))


def test_scores_of_two_scales(tmp_path):
    with pytest.raises(InputError, match=r"one scale, found multi30k in .*score0\.json and demo in .*score1\.json"):
        read_scores(write_scores(tmp_path, score(30.0), score(31.0, seed=2, scale="demo")))


def test_scores_of_two_fidelities(tmp_path):
    with pytest.raises(InputError, match=r"one fidelity, found paper-text in .*score0\.json and paper-code in "):
        read_scores(write_scores(tmp_path, score(30.0), score(31.0, seed=2, fidelity="paper-code")))


def test_scores_against_other_references(tmp_path):
    with pytest.raises(InputError, match=r"one ref_sha256, found en-de references in .* and other in .*score1\.json"):
        read_scores(write_scores(tmp_path, score(30.0), score(31.0, seed=2) | {"ref_sha256": "other"}))


def test_broken_json(tmp_path):
    with pytest.raises(InputError, match=r"score1\.json: cannot be read as JSON"):
        read_scores(write_scores(tmp_path, score(30.0), '{"scores": '))


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json"):
        read_scores([str(tmp_path / "nowhere.json")])


@pytest.mark.parametrize("key", ["scores", "language", "hyp_sha256", "ref_sha256", "run"])
def test_missing_key(tmp_path, key):
    content = score(30.0)
    del content[key]
    with pytest.raises(InputError, match=rf"score0\.json: missing key '{key}'"):
        read_scores(write_scores(tmp_path, content))


@pytest.mark.parametrize(
    "key", ["task", "seed", "fidelity", "parameters", "dev_perplexity", "flops", "commit", "data_sha256", "decoding"]
)
def test_missing_key_of_the_run(tmp_path, key):
    content = score(30.0)
    del content["run"][key]
    with pytest.raises(InputError, match=rf"score0\.json, run: missing key '{key}'"):
        read_scores(write_scores(tmp_path, content))


@pytest.mark.parametrize("key", ["paper", "compound_split", "sacrebleu"])
def test_missing_variant(tmp_path, key):
    content = score(30.0)
    del content["scores"][key]
    with pytest.raises(InputError, match=rf"score0\.json, scores: missing key '{key}'"):
        read_scores(write_scores(tmp_path, content))


def test_missing_bleu_of_a_variant(tmp_path):
    content = score(30.0)
    del content["scores"]["sacrebleu"]["signature"]
    with pytest.raises(InputError, match=r"score0\.json, sacrebleu: missing key 'signature'"):
        read_scores(write_scores(tmp_path, content))


def test_no_paper_table(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv: cannot be read as CSV"):
        read_table(tmp_path / "nowhere.csv", [])


def test_a_paper_table_that_is_no_table(tmp_path):
    (tmp_path / "table2.csv").write_text("model,system\nByteNet,published,23.75,\n1,2\n1,2,3,4,5,6\n")
    with pytest.raises(InputError, match=r"table2\.csv: cannot be read as CSV: .*line 4") as caught:
        read_table(tmp_path / "table2.csv", [])
    assert "\n" not in str(caught.value)


def test_the_interval_is_of_the_mean_over_seeds(tmp_path):
    """101 draws from 0 to 100 for one seed, all 2 more for the other: means from 1 to 101."""
    first, second = ([float(draw + more) for draw in range(101)] for more in (0, 2))
    runs = read_scores(write_scores(tmp_path, score(50.0) | {"draws": first}, score(52.0, seed=2) | {"draws": second}))
    assert interval(runs) == (3.5, 98.5)


def test_the_ladder_has_every_variant_and_its_signature(tmp_path):
    runs = read_scores(write_scores(tmp_path, score(30.0), score(33.0, seed=2), score(40.0, experiment="big")))
    rows = {row["Variant"]: row for row in ladder(runs)}
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
