"""Table 4 against numbers worked by hand and what the paper printed."""

import json
from pathlib import Path

import pytest
from support.scored import cells, further, make_table, split, width, write_scores
from support.scored import score as bleu_score

from transformer.files import InputError
from transformer.report.tables.table4 import read_parsers, read_parses

PAPER = Path(__file__).parents[3] / "workflow" / "paper" / "table4.csv"
WSJ, SEMI = "WSJ only, discriminative", "semi-supervised"
PRINTED = [
    ("Vinyals & Kaiser et al. (2014)", "published", WSJ, "88.3"),
    ("Petrov et al. (2006)", "published", WSJ, "90.4"),
    ("Zhu et al. (2013)", "published", WSJ, "90.4"),
    ("Dyer et al. (2016)", "published", WSJ, "91.7"),
    ("Transformer (4 layers)", "paper", WSJ, "91.3"),
    ("Zhu et al. (2013)", "published", SEMI, "91.3"),
    ("Huang & Harper (2009)", "published", SEMI, "91.3"),
    ("McClosky et al. (2006)", "published", SEMI, "92.1"),
    ("Vinyals & Kaiser et al. (2014)", "published", SEMI, "92.1"),
    ("Transformer (4 layers)", "paper", SEMI, "92.7"),
    ("Luong et al. (2015)", "published", "multi-task", "93.0"),
    ("Dyer et al. (2016)", "published", "generative", "93.3"),
]
TASKS = {
    "supervised": {"training": "GUM only, discriminative", "label": "GUM, test split", "silver": False},
    "self-trained": {"training": "semi-supervised (self-training)", "label": "GUM, its test split", "silver": True},
}


def parse_score(f1: float, task: str = "supervised", seed: int = 1, repaired: int = 3, **run) -> dict:
    """Return the content of a parser's score file, each measure at its own distance from F1; `run` changes the run."""
    record = bleu_score(0.0, task=task, experiment="parser", seed=seed, **run)["run"]

    def scored(value: float) -> dict:
        both = {"f1": value, "recall": value - 1, "precision": value + 1, "tagging": value + 5}
        short = {name: part + 2 for name, part in both.items()}
        return {"all": both | {"sentences": 1234, "errors": 0}, "len40": short | {"sentences": 1000, "errors": 0}}

    strict = scored(f1 - 4)
    strict["all"]["errors"] = 10 * seed
    return {
        "gold_sha256": "12" * 32,
        "test_sha256": "34" * 32,
        "by": "gold tags",
        "scores": scored(f1),
        "draws": [f1 - 0.5, f1 + 0.5],
        "errors": [],
        "repaired": [*range(1, repaired + 1)],
        "without_repair": scored(f1 - 8),
        "strict": strict,
        "run": record,
    }


def constrained(content: dict) -> dict:
    """Return the score of the same run by constrained search, which is one better."""
    return parse_score(content["scores"]["all"]["f1"] + 1) | {"run": content["run"]}


@pytest.fixture
def make(tmp_path):
    """Run the stage, and return the rows of the CSV and the Markdown."""

    def make(*contents, elsewhere: tuple = (), options: tuple = ("--data-of-paper",)) -> tuple[list, str]:
        line = ["--paper", PAPER, "--task", json.dumps(TASKS), "--score", *write_scores(tmp_path, *contents), *options]
        line += ["--constrained", *write_scores(tmp_path / "constrained", *map(constrained, contents))]
        if elsewhere:
            line += ["--elsewhere", *write_scores(tmp_path / "elsewhere", *elsewhere), "--elsewhere-label", "GENTLE"]
        return make_table("table4", tmp_path / "tables/table4", *line)

    return make


def test_the_papers_rows_are_what_it_printed(make):
    rows, markdown = make(parse_score(80.0))
    assert [(row["parser"], row["by"], row["training"], row["f1"]) for row in rows[:-1]] == PRINTED
    assert all(row["label"] == row["f1_sd"] == row["recall"] == row["seeds"] == "" for row in rows[:-1])
    shown = cells(markdown)[:-1]
    assert [(row["Parser"], row["From"], row["Training"], row["F1"]) for row in shown] == PRINTED
    assert {row[heading] for row in shown for heading in ("95 %", "− paper")} == {""}
    assert len(further(markdown)) == 1


def test_the_papers_claims_hold_in_its_table():
    """§6.3: better than all before it but the Recurrent Neural Network Grammar, on WSJ better than BerkeleyParser."""
    f1 = {(row["parser"], row["training"]): float(row["f1"]) for row in read_parsers(PAPER).to_dict("records")}
    ours = f1["Transformer (4 layers)", WSJ]
    assert ours > f1["Petrov et al. (2006)", WSJ]
    better = [parser for (parser, training), value in f1.items() if training == WSJ and value > ours]
    assert better == ["Dyer et al. (2016)"]
    assert f1["Transformer (4 layers)", SEMI] == max(value for (_, training), value in f1.items() if training == SEMI)


def test_means_and_deviations_over_seeds(make):
    """80, 81, 85: mean 82, squares 4 + 1 + 9 over 2 degrees of freedom. Repaired: 1, 2, 6 of the same squares."""
    three = [(80.0, 1), (81.0, 2), (85.0, 6)]
    rows, markdown = make(*(parse_score(f1, seed=seed, repaired=n) for seed, (f1, n) in enumerate(three, start=1)))
    ours = rows[-1]
    means = {"f1": 82, "recall": 81, "precision": 83, "tagging": 87, "f1_short": 84, "f1_without_repair": 74}
    means |= {"f1_evalb": 78, "repaired": 3, "errors_evalb": 20}
    assert {name: float(ours[name]) for name in means} == means
    deviations = {name: 7**0.5 for name in means} | {"errors_evalb": 10.0}
    assert {name: float(ours[f"{name}_sd"]) for name in means} == pytest.approx(deviations)
    assert (ours["seeds"], ours["sentences"], ours["steps"], ours["parameters"]) == ("3", "1234", "6000", "1900544")
    assert ours["runs"] == "supervised/parser/1 supervised/parser/2 supervised/parser/3"
    assert cells(markdown)[-1] == {
        "Parser": "Transformer",
        "Training": "supervised",
        "From": "ours",
        "F1": "82.0 ± 2.6",
        "95 %": "81.5 – 82.5",
        "− paper": "−9.3",
    }
    assert further(markdown)[-1] == {
        "Parser": "Transformer",
        "Training": "supervised",
        "Learned from": "GUM only, discriminative",
        "Test trees": "GUM, test split",
        "Recall": "81.0 ± 2.6",
        "Precision": "83.0 ± 2.6",
        "Repaired": "3 of 1,234",
        "F1 without repair": "74.0 ± 2.6",
        "F1, constrained": "83.0 ± 2.6",
        "F1, EVALB": "78.0 ± 2.6 (20 left out)",
        "Seeds": "3",
    }


def test_the_first_grid_can_be_read_without_scrolling(make):
    _, markdown = make(*(parse_score(80.0, task, seed) for task in TASKS for seed in (1, 2)))
    assert width(markdown) <= 112


def test_each_task_has_a_row_in_the_order_of_its_scores(make):
    both = parse_score(80.0), parse_score(81.5, task="self-trained"), parse_score(82.5, task="self-trained", seed=2)
    rows, markdown = make(*both)
    ours = [(row["training"], row["label"], float(row["f1"]), row["seeds"]) for row in rows[len(PRINTED) :]]
    one, other = ((task["training"], task["label"]) for task in TASKS.values())
    assert ours == [(*one, 80.0, "1"), (*other, 82.0, "2")]
    # From the paper's 91.3 by WSJ only; its semi-supervised trees, which reached 92.7, are not public.
    supervised, semi = rows[len(PRINTED) :]
    assert (float(supervised["paper"]), float(supervised["difference"])) == (91.3, pytest.approx(80 - 91.3))
    assert (float(semi["paper"]), semi["difference"]) == (92.7, "")
    assert [(row["Learned from"], row["Test trees"]) for row in further(markdown)] == [one, other]
    assert [row["Training"] for row in cells(markdown)[len(PRINTED) :]] == ["supervised", "self-trained"]
    rows, _ = make(*reversed(both))
    assert [row["seeds"] for row in rows[len(PRINTED) :]] == ["2", "1"]


def test_on_other_trees_than_the_papers_nothing_is_compared_with_it(make):
    """In the CSV file the column is there, and blank."""
    rows, markdown = make(parse_score(91.0), options=())
    assert (rows[-1]["paper"], rows[-1]["difference"]) == ("91.3", "")
    assert list(cells(markdown)[-1]) == ["Parser", "Training", "From", "F1", "95 %"]
    assert "‡" not in markdown
    assert "difference" not in markdown


def test_scores_on_other_trees_have_a_column(make):
    """60 and 64: mean 62, squares 4 + 4 over 1. A task without them has a blank cell."""
    ours = parse_score(80.0), parse_score(81.0, seed=2), parse_score(90.0, task="self-trained")
    rows, markdown = make(*ours, elsewhere=(parse_score(60.0), parse_score(64.0, seed=2)))
    one, other = rows[len(PRINTED) :]
    assert float(one["f1_elsewhere"]) == 62
    assert float(one["f1_elsewhere_sd"]) == pytest.approx(8**0.5)
    assert other["f1_elsewhere"] == other["f1_elsewhere_sd"] == rows[0]["f1_elsewhere"] == ""
    assert [row["F1, constrained, on GENTLE"] for row in further(markdown)] == ["62.0 ± 2.8", ""]


@pytest.mark.parametrize("seeds", [1, 2])
def test_what_could_not_be_computed_is_blank(make, seeds):
    """A strict F1 is missing where each tree's own tags leave no sentence."""
    contents = [parse_score(80.0, seed=seed) for seed in range(1, seeds + 1)]
    for content in contents:
        content["strict"]["all"]["f1"] = None
    rows, markdown = make(*contents)
    assert (rows[-1]["f1_evalb"], rows[-1]["f1"], rows[-1]["seeds"]) == ("", "80.0", str(seeds))
    assert "nan" not in markdown.lower()


def test_notes_say_how_and_where_from(make):
    _, markdown = make(parse_score(80.123), parse_score(81.5, task="self-trained", seed=3, commit="unknown"))
    caption, _, *notes = markdown.split("\n\n")
    assert "section 23" in caption
    assert all(word in "\n".join(notes) for word in ("COLLINS.prm", "“F1, EVALB”", "Repaired: ", "17 million"))
    runs = [split(line)[:5] for line in markdown.splitlines()[-2:]]
    assert runs[0] == ["supervised/parser/1", "80.12", "82.12", "85.12", "1.5·10^15"]
    assert runs[1] == ["self-trained/parser/3", "81.50", "83.50", "86.50", "1.5·10^15"]


def test_runs_that_are_not_there_are_named(make):
    _, markdown = make(options=("--expected", "supervised/parser/1"))
    assert len(cells(markdown)) == len(PRINTED)
    assert "have not been made: supervised/parser/1." in markdown


# What does not make a table.


def without(key: str) -> dict:
    return {name: value for name, value in parse_score(80.0).items() if name != key}


def test_a_score_of_an_unknown_task_is_named_and_nothing_written(make, tmp_path):
    with pytest.raises(InputError, match="expected scores of supervised, self-trained, found one of stray"):
        make(parse_score(80.0), parse_score(80.0, task="stray"))
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (parse_score(80.0) | {"scores": {}}, ", scores: missing key 'all'"),
        (parse_score(80.0) | {"scores": {"all": {}, "len40": {}}}, ", scores.all: missing key 'f1'"),
        (parse_score(80.0) | {"strict": {}}, ", strict: missing key 'all'"),
        (parse_score(80.0) | {"without_repair": {}}, ", without_repair: missing key 'all'"),
        (bleu_score(30.0), ", scores: missing key 'all'"),
        *((without(key), f": missing key '{key}'") for key in ("gold_sha256", "repaired", "strict", "run")),
    ],
    ids=range(9),
)
def test_a_score_that_is_not_whole_is_named(tmp_path, content, expected):
    (path,) = write_scores(tmp_path, content)
    with pytest.raises(InputError, match=rf"^{path}{expected}$"):
        read_parses([path])


def test_scores_of_a_task_are_of_one_treebank(tmp_path):
    """Tasks may be tested on trees of their own."""
    other = {"gold_sha256": "56" * 32}
    paths = write_scores(tmp_path, parse_score(80.0), parse_score(90.0, task="self-trained") | other)
    assert list(read_parses(paths)["f1"]) == [80.0, 90.0]
    paths = write_scores(tmp_path, parse_score(80.0), parse_score(81.0, seed=2) | other)
    message = rf"^expected scores of one gold_sha256, found (12){{32}} in {paths[0]} and (56){{32}} in {paths[1]}$"
    with pytest.raises(InputError, match=message):
        read_parses(paths)


@pytest.mark.parametrize("options", [("--elsewhere", "x.json"), ("--elsewhere-label", "GENTLE")])
def test_other_trees_have_a_name_and_a_name_has_trees(make, options):
    with pytest.raises(InputError, match="--elsewhere and --elsewhere-label go together"):
        make(parse_score(80.0), options=options)
