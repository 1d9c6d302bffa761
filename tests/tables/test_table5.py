"""Table 5 against numbers worked by hand."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from support.scored import cells, make_table, score, write_scores

from transformer.common.files import InputError
from transformer.config.runs import PROBED, TABLE_5
from transformer.tables import table5

ROOT = Path(__file__).parents[2]
CLAIMS = """section,claim,row,against,expected,published,source
3.1,Residuals are needed.,no-residual,base,worse,8 less,Somebody 2020
6.1,Averaging helps.,averaging,,better,,
5.4,Smoothing helps.,smoothing,,better,,
3.5,Sinusoids go on.,lengths,,better,,
3.2.2,Heads are needed.,masked,,worse,,
"""


def run(experiment: str, seed: int = 1) -> dict:
    """Return the record of a run, of its last checkpoint."""
    return score(30, experiment=experiment, seed=seed, averaged_steps=[6000])["run"]


def point(bleu: float, **values) -> dict:
    return values | {"bleu": bleu, "low": bleu - 0.5, "high": bleu + 0.5, "draws": [bleu - 0.5, bleu + 0.5]}


def average(bleu: float, checkpoints: int) -> dict:
    return point(bleu, checkpoints=checkpoints, steps=[], perplexity=5 - checkpoints / 10)


def smoothing(experiment: str, epsilon: float, *bleus: float) -> dict:
    beams = [point(bleu, beam=beam, length_ratio=0.98) for beam, bleu in zip((1, 4), bleus, strict=True)]
    calibration = {"error": 0.031, "confidence": 0.66, "accuracy": 0.69, "bins": []}
    return {"run": run(experiment), "epsilon_ls": epsilon, "perplexity": 5, "beams": beams, "calibration": calibration}


def lengths(experiment: str, positions: str, *bleus: float) -> dict:
    of_group = {"sentences": 10, "tokens": 12.0, "length_ratio": 1.0}
    groups = [point(bleu, times=times, **of_group) for times, bleu in zip((None, 1, 2), bleus, strict=True)]
    return {"run": run(experiment), "positions": positions, "longest": 40, "skipped": 0, "groups": groups}


def heads() -> dict:
    kind = {"increase": [[0.001, 0.3], [0.2, 0.005]], "distance": [[1.0, 3.0], [4.0, 6.0]], "curve": []}
    masked = [point(30, kind=None, masked=0)]
    masked += [
        point(30 - count, kind=name, masked=count) for name in ("encoder", "decoder", "cross") for count in (1, 2, 3)
    ]
    return {
        "run": run("base"),
        "layers": 2,
        "heads": 2,
        "kinds": dict.fromkeys(("encoder", "decoder", "cross"), kind),
        "bleu": masked,
    }


def write(folder: Path, name: str, *contents: dict) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    return [str(path) for path in paths]


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the table from score files and the probes' files, and returns CSV and Markdown."""

    def make_table_5(*scores: dict, **probes: list[dict]) -> tuple[list[dict], str]:
        (tmp_path / "paper.csv").write_text(CLAIMS)
        options = ["--paper", tmp_path / "paper.csv", "--label", "toy: dev"]
        options += [
            "--score",
            *write_scores(tmp_path / "scores", *scores),
            "--expected",
            "en-de/base/1",
            "en-de/untied/1",
        ]
        for name, contents in probes.items():
            options += [f"--{name}", *write(tmp_path / name, name, *contents)]
        return make_table("table5", tmp_path / "table5", *options)

    return make_table_5


def split(markdown: str) -> list[list[str]]:
    """Return the cells of each row of each table."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines() if line.startswith("|")]


def trained(experiment: str, bleu: float) -> dict:
    return score(bleu, experiment=experiment, averaged_steps=[6000])


def test_a_trained_row(make):
    """22 less 30, alike on both draws, so that the interval has no width; p is 1 of 3."""
    rows, markdown = make(trained("base", 30), trained("no-residual", 22))
    assert rows[0] | {"runs": ""} == {
        "section": "3.1",
        "claim": "Residuals are needed.",
        "compared": "`no-residual` − `base`",
        "expected": "worse",
        "bleu": "22.0",
        "against": "30.0",
        "value": "-8.0",
        "low": "-8.0",
        "high": "-8.0",
        "p": rows[0]["p"],
        "seeds": "1",
        "runs": "",
        "verdict": "seen here" if float(rows[0]["p"]) < 0.05 else "cannot be told",
    }
    assert float(rows[0]["p"]) == pytest.approx(1 / 3)
    assert rows[0]["runs"] == "en-de/no-residual/1 en-de/base/1"
    assert cells(markdown)[0] == {
        "§": "3.1",
        "Claim": "Residuals are needed.",
        "Compared": "`no-residual` − `base`",
        "Expected": "worse",
        "BLEU": "22.0",
        "Difference": "−8.0",
        "95 %": "−8.0 to −8.0",
        "p": "0.333",
        "Seeds": "1",
        "Here": "cannot be told",
    }
    assert ["3.1", "Residuals are needed.", "8 less", "Somebody 2020"] in split(markdown)
    assert "Not in this table, as these runs have not been made: en-de/untied/1." in markdown


def test_what_was_not_run_says_so(make):
    rows, markdown = make(trained("base", 30))
    assert [row["verdict"] for row in rows] == ["not run"] * 5
    assert cells(markdown)[0]["Here"] == "not run"


def test_averages_are_compared_with_the_last_checkpoint(make):
    averages = [average(bleu, count) for count, bleu in ((1, 30), (2, 30.5), (5, 31))]
    rows, markdown = make(trained("base", 30), averaging=[{"run": run("base"), "averages": averages}])
    (two, five) = [row for row in rows if row["claim"] == "Averaging helps."]
    assert (two["compared"], two["value"]) == ("2 checkpoints − the last", "0.5")
    assert (five["compared"], five["value"]) == ("5 checkpoints − the last", "1.0")
    assert ["5", "31.00", "4.500"] in split(markdown)


def test_smoothing_is_compared_at_each_beam(make):
    files = [
        smoothing("base", 0.1, 30, 31),
        smoothing("smoothing-0.0", 0.0, 29.5, 30),
        smoothing("smoothing-0.2", 0.2, 1, 2),
    ]
    rows, markdown = make(trained("base", 30), smoothing=files)
    compared = {row["compared"]: float(row["value"]) for row in rows if row["claim"] == "Smoothing helps."}
    assert compared == {"`base` − `smoothing-0.0`, beam 1": 0.5, "`base` − `smoothing-0.0`, beam 4": 1.0}
    assert ["0.1", "5.00", "3.1", "-3.0", "30.00", "0.980", "31.00", "0.980"] in split(markdown)


def test_lengths_compare_sinusoids_with_learned_positions_on_joined_sentences(make):
    files = [
        lengths("base", "sinusoid", 30, 20, 9),
        lengths("learned-positions", "learned", 30, 18, 2),
        lengths("no-positions", "none", 9, 8, 7),
    ]
    rows, markdown = make(trained("base", 30), lengths=files)
    compared = {row["compared"]: float(row["value"]) for row in rows if row["claim"] == "Sinusoids go on."}
    assert compared == {
        "`base` − `learned-positions`, 1 × the longest": 2.0,
        "`base` − `learned-positions`, 2 × the longest": 7.0,
    }
    assert "| joined, 2 × the longest in training |" in markdown
    assert "BLEU, none" in markdown


def test_half_of_the_heads_of_a_kind_are_compared_with_all(make):
    """Of 1, 2 and 3 masked, 2 is taken. Two of four heads raise the loss by less than 0.01."""
    rows, markdown = make(trained("base", 30), heads=[heads()])
    compared = {row["compared"]: float(row["value"]) for row in rows if row["claim"] == "Heads are needed."}
    kinds = ("encoder", "decoder", "decoder to encoder")
    assert compared == {f"2 heads masked − all, {kind}": -2.0 for kind in kinds}
    assert ["encoder", "4", "50 %", "0.300", "30.0", "29.0", "28.0", "27.0", "2.0, 5.0"] in split(markdown)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"averages": []}, "missing key 'run'"),
        ({"run": run("base")}, "missing key 'averages'"),
        ({"run": run("base"), "averages": [{"checkpoints": 1}]}, "averages: missing key 'perplexity'"),
    ],
)
def test_a_foreign_file_is_named(make, content, message):
    with pytest.raises(InputError, match=rf"averaging0\.json.*{message}"):
        make(trained("base", 30), averaging=[content])


def test_an_unknown_expectation_is_named(tmp_path):
    (tmp_path / "paper.csv").write_text(CLAIMS.replace("worse,8", "bad,8"))
    with pytest.raises(InputError, match=r"paper\.csv: expected: expected worse or better or alike, found 'bad'"):
        table5.read_claims(str(tmp_path / "paper.csv"))


# The project's own files.


def test_every_claim_is_tested_by_a_row_that_there_is():
    config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    claims = table5.read_claims(str(ROOT / "workflow/paper/table5.csv"))
    tested = {name for claim in claims for name in (claim.row, claim.against) if name}
    assert tested - set(table5.PROBED) <= {*TABLE_5, *config["claims"]}
    assert set(config["claims"]) <= tested
    assert set(table5.PROBED) <= tested
    assert set(PROBED) == set(table5.PROBES)
    assert {name for names in PROBED.values() for name in names} <= {*TABLE_5, *config["claims"]}
    with open(ROOT / "workflow/paper/table5.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert bool(row["published"]) == bool(row["source"]), row
