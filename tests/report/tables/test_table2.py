"""Table 2 against numbers worked by hand and what the paper printed."""

from pathlib import Path

import pytest
from lxml import html as parser
from support.scored import by, cells, further, make_table, score, split, width, write_scores

from transformer.files import InputError
from transformer.report.tables.table2 import read_systems

PAPER = Path(__file__).parents[3] / "workflow" / "paper" / "table2.csv"
LABEL = "Multi30k task 1, test_2016_flickr"


@pytest.fixture
def make(tmp_path):
    """Run the stage, and return the rows of the CSV by (by, model), and the Markdown."""

    def make(*contents, expected: tuple = (), of_paper: bool = True) -> tuple[dict, str]:
        options = ["--paper", PAPER, "--label", LABEL, "--score", *write_scores(tmp_path, *contents)]
        options += ["--data-of-paper"] * of_paper
        rows, markdown = make_table("table2", tmp_path / "tables/table2", *options, "--expected", *expected)
        return by(rows, "by", "model"), markdown

    return make


def test_means_and_deviations_over_seeds(make):
    """30, 31, 35: mean 32, squares 4 + 1 + 9 over 2 degrees of freedom."""
    three = [score(bleu, seed=seed, flops=seed * 1e15) for seed, bleu in enumerate((30.0, 31.0, 35.0), start=1)]
    rows, markdown = make(*three)
    ours = rows["ours", "Transformer (base)"]
    assert float(ours["en-de_bleu"]) == 32
    assert float(ours["en-de_bleu_sd"]) == pytest.approx(7**0.5)
    assert float(ours["en-de_sacrebleu"]) == 31
    assert [float(ours[f"en-de_{name}"]) for name in ("low", "high")] == pytest.approx([31.525, 32.475])
    assert float(ours["en-de_difference"]) == pytest.approx(32 - 27.3)
    assert float(ours["en-de_flops"]) == 2e15
    assert float(ours["en-de_paper"]) == 27.3
    assert (ours["en-de_seeds"], ours["en-de_runs"]) == ("3", "en-de/base/1 en-de/base/2 en-de/base/3")
    assert cells(markdown)[-1] == {
        "Model": "Transformer (base)",
        "From": "ours",
        "EN-DE BLEU": "32.0 ± 2.6",
        "EN-DE 95 %": "31.5 – 32.5",
        "EN-DE − paper": "+4.7",
    }
    assert further(markdown)[-1] == {
        "Model": "Transformer (base)",
        "From": "ours",
        "Seeds": "3",
        "Steps": "6,000",
        "EN-DE sacreBLEU": "31.0 ± 2.6",
        "EN-DE FLOPs": "2.0·10^15",
    }


def test_on_other_data_than_the_papers_nothing_is_compared_with_it(make):
    """In the CSV file the column is there, and blank."""
    rows, markdown = make(score(27.6), score(38.0, task="en-fr"), of_paper=False)
    ours = rows["ours", "Transformer (base)"]
    assert (ours["en-de_paper"], ours["en-de_difference"], ours["en-fr_difference"]) == ("27.3", "", "")
    tasks = [f"{task} {heading}" for task in ("EN-DE", "EN-FR") for heading in ("BLEU", "95 %")]
    assert list(cells(markdown)[-1]) == ["Model", "From", *tasks]
    assert "27.3" in cells(markdown)[-3].values()
    assert "‡" not in markdown
    assert "− paper" not in markdown


@pytest.mark.parametrize(("of_paper", "most"), [(False, 100), (True, 130)])
def test_the_first_grid_can_be_read_without_scrolling(make, of_paper, most):
    both = [("en-de", 38.1), ("en-fr", 57.1)]
    runs = [score(bleu, task, name, seed) for task, bleu in both for name in ("base", "big") for seed in (1, 2)]
    _, markdown = make(*runs, of_paper=of_paper)
    assert len(cells(markdown)) == 12
    assert width(markdown) <= most


def test_systems_in_the_papers_order(make):
    rows, markdown = make(score(36.25), score(37.5, experiment="big"), score(55.0, task="en-fr"))
    published = ["ByteNet", "Deep-Att + PosUnk", "GNMT + RL", "ConvS2S", "MoE", "Deep-Att + PosUnk Ensemble"]
    published += ["GNMT + RL Ensemble", "ConvS2S Ensemble"]
    ours = ["Transformer (base)", "Transformer (big)"]
    expected = [("published", name) for name in published] + [(by, name) for by in ("paper", "ours") for name in ours]
    assert list(rows) == expected
    assert [(row["From"], row["Model"]) for row in cells(markdown)] == expected
    assert [row["label"] for row in rows.values()] == [""] * 10 + [LABEL] * 2


def test_markdown_shows_the_papers_cells_as_printed(make):
    _, markdown = make(score(36.25), score(55.0, task="en-fr"), score(56.0, task="en-fr", seed=2))
    both = zip(cells(markdown), further(markdown), strict=True)
    shown = {(row["Model"], row["From"]): row | more for row, more in both}
    ensemble = shown["GNMT + RL Ensemble", "published"]
    assert (ensemble["EN-DE BLEU"], ensemble["EN-FR FLOPs"]) == ("26.30", "1.1·10^21")
    assert shown["ByteNet", "published"]["EN-FR BLEU"] == ""
    assert [row["Steps"] for row in further(markdown)] == [""] * 8 + ["100K", "300K", "6,000"]
    assert shown["Transformer (big)", "paper"]["EN-FR BLEU"] == "41.8"
    assert shown["Transformer (base)", "ours"]["Seeds"] == "1 / 2"
    assert "nan" not in markdown.lower()


def test_an_experiment_that_lacks_a_task_has_blank_cells(make):
    rows, markdown = make(score(36.25), score(55.0, task="en-fr"), score(37.5, experiment="big"))
    assert rows["ours", "Transformer (big)"]["en-fr_bleu"] == ""
    last = cells(markdown)[-1] | further(markdown)[-1]
    shown = [last[heading] for heading in ("Seeds", "EN-DE BLEU", "EN-FR BLEU", "EN-FR FLOPs")]
    assert shown == ["1 / 0", "37.5", "", ""]
    assert "nan" not in markdown.lower()


def test_a_difference_within_the_interval_is_marked(make):
    """The paper's 27.3 and 28.4: 27.6 ± 0.475 holds the one, 29.4 ± 0.475 not the other."""
    _, markdown = make(score(27.6), score(29.4, experiment="big"))
    assert [row["EN-DE − paper"] for row in cells(markdown)[-2:]] == ["+0.3 ‡", "+1.0"]


def test_the_runs_behind_every_cell_are_named(make, tmp_path):
    make(score(27.6), score(28.0, seed=2))
    bodies = parser.parse(tmp_path / "tables" / "table2.html").findall(".//tbody")
    front, behind = ([cell.get("data-runs") for cell in body[-1]] for body in bodies[:2])
    both = ["en-de/base/1 en-de/base/2"]
    assert (front, behind) == ([None] * 2 + both * 3, [None] * 4 + both * 2)


def test_runs_that_are_not_there_are_named(make):
    rows, markdown = make(score(36.25), expected=["en-de/base/1", "en-de/base/2", "en-de/big/1"])
    assert "have not been made: en-de/base/2, en-de/big/1." in markdown
    assert ("published", "ByteNet") in rows
    assert ("published", "Deep-Att + PosUnk") not in rows  # it printed nothing for this task
    rows, markdown = make(expected=["en-de/base/1"])
    assert {by for by, _ in rows} == {"published", "paper"}
    assert "have not been made: en-de/base/1." in markdown


def test_tasks_may_differ_in_their_steps_but_seeds_may_not(make):
    long = score(55.0, task="en-fr", steps=7000)
    rows, markdown = make(score(36.25), long)
    assert further(markdown)[-1]["Steps"] == "6,000 / 7,000"
    assert [rows["ours", "Transformer (base)"][f"{task}_steps"] for task in ("en-de", "en-fr")] == ["6000", "7000"]
    with pytest.raises(InputError, match=r"expected scores of one steps, found 7000 in .* and 6000 in "):
        make(long, score(55.0, task="en-fr", seed=2))


def test_the_mark_of_the_papers_score_is_said_to_be_no_test(make):
    _, markdown = make(score(27.6))
    assert "‡ says no more than that the paper's score lies in that interval: it is no test" in markdown
    assert "significant" not in markdown


def test_notes_say_how_and_where_from(make):
    _, markdown = make(score(36.25), score(55.123, task="en-fr", seed=3, commit="unknown"))
    assert LABEL in markdown.split("\n\n")[0]
    assert "41.0" in markdown
    ladder, runs = ([split(line) for line in part.splitlines()[2:]] for part in markdown.split("\n\n")[-3::2])
    assert ladder[0] == ["EN-DE", "compound_split *", "36.25", "`en-de\\|compound_split\\|v:1`"]
    assert ["EN-FR", "sacrebleu", "54.12", "`en-fr\\|sacrebleu\\|v:1`"] in ladder
    digests = ["ab" * 6, "cd" * 6]
    effort = ["1.5·10^15", "6,000", "2 checkpoints from step 5,800", "beam 4, alpha 0.6, extra_length 50"]
    effort += ["5,423", "2 CPU cores", "paper-text"]
    assert runs[0] == ["en-de/base/1", "36.25", "35.25", *effort, "3f2a9c0d", *digests]
    assert runs[1] == ["en-fr/base/3", "55.12", "54.12", *effort, "unknown", *digests]


def test_the_papers_flops_are_its_estimate():
    """§6.1: half a day and three and a half on eight P100s of 9.5 TFLOPS."""
    for row, days in zip(read_systems(PAPER)[-2:], (0.5, 3.5), strict=True):
        estimate = float(f"{days * 24 * 3600 * 8 * 9.5e12:.1e}")
        assert float(row["en-de_flops"]) == float(row["en-fr_flops"]) == estimate


def test_the_papers_claims_hold_in_its_table():
    """§6.1: 28.4, over 2.0 above the best before it; the base model better than all; under a quarter of the cost."""
    *published, base, big = read_systems(PAPER)
    best = max(float(row.get("en-de_bleu", 0)) for row in published)
    assert float(big["en-de_bleu"]) == 28.4 > best + 2
    assert float(base["en-de_bleu"]) > best
    best_single = max(published[:5], key=lambda row: float(row.get("en-fr_bleu", 0)))
    assert float(big["en-fr_flops"]) < float(best_single["en-fr_flops"]) / 4
