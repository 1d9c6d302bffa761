"""Table 5 against numbers worked by hand."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from support.scored import cells, further, make_table, score, width, write_scores

from transformer.config.runs import PROBED, TABLE_5
from transformer.evaluation.significance import RESAMPLES, TRAININGS
from transformer.files import InputError
from transformer.report.tables import probed, table5

ROOT = Path(__file__).parents[3]
CLAIMS = """section,claim,row,against,expected,effect,published,source
3.1,Residuals are needed.,no-residual,base,lower,,8 less,Somebody 2020
6.1,Averaging helps.,averaging,,higher,0.1,,
5.4,Smoothing helps,smoothing,,higher,0.5,,
5.4,and hurts.,perplexity,,higher,,,
3.5,Sinusoids go on.,lengths,,higher,,,
3.2.2,Heads are needed.,masked,,lower,,,
"""
KINDS = ("encoder", "decoder", "cross")


def spread(value: float) -> list[float]:
    """Return a score on resampled sentences: evenly within 0.5 of its value, alike for all systems."""
    return [value - 0.5 + draw / (RESAMPLES - 1) for draw in range(RESAMPLES)]


def point(bleu: float, **values) -> dict:
    return values | {"bleu": bleu, "low": bleu - 0.5, "high": bleu + 0.5, "draws": spread(bleu)}


def trained(experiment: str, bleu: float, seed: int = 1) -> dict:
    """Return the score file of a run's last checkpoint."""
    return score(bleu, experiment=experiment, seed=seed, averaged_steps=[6000]) | {"draws": spread(bleu)}


def measured(experiment: str, seed: int = 1, **payload) -> dict:
    """Return the file of a probe."""
    return {"run": trained(experiment, 30, seed)["run"], "sentences": 100, "target_sha256": "ab"} | payload


def averaging(*bleus: float) -> dict:
    averages = [
        point(bleu, checkpoints=count, perplexity=5 - count / 10) for count, bleu in zip((1, 2, 5), bleus, strict=True)
    ]
    return measured("base", averages=averages)


def smoothing(experiment: str, epsilon: float, perplexity: float, *bleus: float, seed: int = 1) -> dict:
    beams = [point(bleu, beam=beam, length_ratio=0.98) for beam, bleu in zip((1, 4), bleus, strict=True)]
    calibration = {"error": 0.031, "confidence": 0.66, "accuracy": 0.69, "bins": []}
    values = {"epsilon_ls": epsilon, "perplexity": perplexity, "perplexity_draws": spread(perplexity)}
    return measured(experiment, seed, **values, beams=beams, calibration=calibration)


def lengths(experiment: str, positions: str, *bleus: float, seed: int = 1) -> dict:
    """Return the probe's file: two groups of single sentences that are equally long, then joined ones."""
    groups = [
        point(bleu, times=times, sentences=10, tokens=12.0, length_ratio=1.0)
        for times, bleu in zip((None, None, 1, 2), bleus, strict=True)
    ]
    return measured(experiment, seed, positions=positions, longest=40, skipped=0, groups=groups)


def heads() -> dict:
    kind = {"increase": [[0.001, 0.3], [0.2, 0.005]], "distance": [[1.0, 3.0], [4.0, 6.0]], "equal": 5.5, "curve": []}
    masked = [point(30, kind=None, masked=0)]
    masked += [point(30 - count, kind=name, masked=count) for name in KINDS for count in (1, 2, 3)]
    return measured("base", layers=2, heads=2, loss=2.0, kinds=dict.fromkeys(KINDS, kind), bleu=masked)


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the table of score files and the probes' files, and returns CSV and Markdown."""

    def make_table_5(
        *scores: dict, expected: tuple[str, ...] = (), claims: str = CLAIMS, **probes: list[dict]
    ) -> tuple[list[dict], str]:
        (tmp_path / "paper.csv").write_text(claims)
        options = ["--paper", tmp_path / "paper.csv", "--label", "toy: dev", "--expected", "en-de/base/1"]
        options += ["--score", *write_scores(tmp_path / "scores", *scores), "--probes", *expected]
        for name, contents in probes.items():
            (tmp_path / name).mkdir()
            paths = [tmp_path / name / f"{number}.json" for number in range(len(contents))]
            for path, content in zip(paths, contents, strict=True):
                path.write_text(json.dumps(content))
            options += [f"--{name}", *paths]
        return make_table("table5", tmp_path / "table5", *options)

    return make_table_5


def rows_of(markdown: str) -> list[list[str]]:
    """Return the cells of each row of each table."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines() if line.startswith("|")]


def values(rows: list[dict], claim: str) -> dict[str, tuple[float, str]]:
    """Return difference and verdict by what is compared."""
    return {row["compared"]: (float(row["value"]), row["verdict"]) for row in rows if row["claim"] == claim}


def test_a_trained_row(make):
    """22 less 30 on every draw: the interval has no width, as seeds do not differ, and no draw strays by as much."""
    base = [trained("base", 30, seed) for seed in (1, 2, 3)]
    rows, markdown = make(*base, trained("no-residual", 22))
    limits = [float(rows[0].pop(end)) for end in ("low", "high")]
    assert limits == pytest.approx([-8, -8])
    assert rows[0] == {
        "section": "3.1",
        "claim": "Residuals are needed.",
        "row": "no-residual",
        "expected": "lower",
        "compared": "`no-residual` − `base`",
        "score": "22.0",
        "against": "30.0",
        "value": "-8.0",
        "p": str(1 / (1 + RESAMPLES * TRAININGS)),
        "p_holm": str(1 / (1 + RESAMPLES * TRAININGS)),
        "seeds": "1",
        "seeds_against": "3",
        "runs": "en-de/no-residual/1 en-de/base/1 en-de/base/2 en-de/base/3",
        "verdict": "seen here",
    }
    assert cells(markdown)[0] == {
        "Claim": "Residuals are needed.",
        "§": "3.1",
        "Difference": "−8.0",
        "95 %": "−8.0 to −8.0",
        "Here": "seen here",
    }
    assert further(markdown)[0] == {
        "Claim": "Residuals are needed.",
        "§": "3.1",
        "Compared": "`no-residual` − `base`",
        "Expected": "lower",
        "First": "22.0",
        "p": "< 0.001",
        "Seeds": "1 / 3",
    }
    assert ["3.1", "Residuals are needed.", "8 less", "Somebody 2020"] in rows_of(markdown)


def test_what_was_not_run_or_measured_is_named(make):
    rows, markdown = make(trained("no-residual", 22), expected=("heads:en-de/base/1",))
    assert [row["verdict"] for row in rows] == ["not run"] * 6
    assert cells(markdown)[0]["Here"] == "not run"
    assert "as these runs have not been made: en-de/base/1." in markdown
    assert "as these have not been measured: heads of en-de/base/1." in markdown


def test_a_row_without_a_claim_is_beside_base(make):
    rows, markdown = make(trained("base", 30), trained("mine", 31), trained("heads-1", 29))
    assert [(row["compared"], row["value"], row["verdict"]) for row in rows[6:]] == [("`mine` − `base`", "1.0", "")]
    assert cells(markdown)[6]["Claim"] == "For comparison: `mine`."


def test_one_seed_each_is_no_verdict(make):
    rows, markdown = make(trained("base", 30, seed=1), trained("no-residual", 22, seed=2))
    row = rows[0]
    assert [row[name] for name in ("value", "low", "high", "p", "p_holm")] == ["-8.0", "-8.0", "-8.0", "", ""]
    shown = cells(markdown)[0] | further(markdown)[0]
    assert (shown["Difference"], shown["p"], shown["Here"]) == ("−8.0", "", "no verdict")
    assert "no verdict: different trainings" in markdown
    assert "Tested differences: 0 of 1." in markdown


def test_the_deviation_between_seeds_is_that_of_base_too(make):
    """Two rows of one seed each, 2 BLEU apart: with base's seeds 1 apart that is chance; p is 1 for half the width."""
    rows, _ = make(*(trained("base", bleu, seed) for seed, bleu in ((1, 29), (2, 30), (3, 31))), trained("mine", 32))
    assert float(rows[6]["p"]) == pytest.approx(0.225, abs=0.02)  # t of 2 / sqrt(4/3) = 1.73 with 2 degrees
    assert rows[6]["p_holm"] == rows[6]["p"]


def test_averages_are_compared_with_the_last_checkpoint(make):
    rows, markdown = make(trained("base", 30), averaging=[averaging(30, 30.5, 31)])
    assert values(rows, "Averaging helps.") == {
        "`base`, 2 checkpoints − the last": (0.5, "seen here"),
        "`base`, 5 checkpoints − the last": (1.0, "seen here"),
    }
    assert ["base", "5", "31.00", "4.500"] in rows_of(markdown)
    assert "Measured on 100 sentences of the dev set." in markdown


def test_smoothing_is_compared_at_each_beam_and_by_perplexity(make):
    """With the deviation between seeds of what is compared: none with beam 1 and of perplexity, 10 with beam 4."""
    files = [smoothing("base", 0.1, 5.2, 30, 26), smoothing("base", 0.1, 5.2, 30, 36, seed=2)]
    files += [smoothing("smoothing-0.0", 0.0, 4.9, 29.5, 32)]
    rows, markdown = make(trained("base", 30), smoothing=[*files, smoothing("smoothing-0.2", 0.2, 6, 1, 2)])
    assert values(rows, "Smoothing helps") == {
        "`base` − `smoothing-0.0`, beam 1": (0.5, "seen here"),
        "`base` − `smoothing-0.0`, beam 4": (-1.0, "cannot be told"),
    }
    ((value, said),) = values(rows, "and hurts.").values()
    assert (round(value, 6), said) == (0.3, "seen here")
    shown = [(row["Claim"], row["§"], row["Difference"], row["Here"]) for row in cells(markdown)[2:6]]
    assert shown == [
        ("Smoothing helps", "5.4", "", ""),
        ("– `base` − `smoothing-0.0`, beam 1", "", "+0.5", "seen here"),
        ("– `base` − `smoothing-0.0`, beam 4", "", "−1.0", "cannot be told"),
        ("and hurts.", "5.4", "+0.30", "seen here"),
    ]
    assert [row["First"] for row in further(markdown)[2:6]] == ["", "30.0", "31.0", "5.20"]
    line = ["0.1", "5.20 ± 0.00", "3.1 ± 0.0", "-3.0 ± 0.0", "30.00 ± 0.00", "0.980 ± 0.000", "31.00 ± 7.07"]
    assert [*line, "0.980 ± 0.000"] in rows_of(markdown)


def test_lengths_compare_sinusoids_with_learned_positions_beyond_training(make):
    files = [lengths("base", "sinusoid", 50, 40, 20, 9), lengths("base", "sinusoid", 50, 40, 20, 9, seed=2)]
    files += [lengths("learned-positions", "learned", 49, 39, 18, 2)]
    rows, markdown = make(trained("base", 30), lengths=[*files, lengths("no-positions", "none", 9, 8, 7, 6)])
    assert values(rows, "Sinusoids go on.") == {"`base` − `learned-positions`, 2 × the longest": (7.0, "seen here")}
    lines = rows_of(markdown)
    for base, *others in (("50.0", "49.0", "9.0"), ("40.0", "39.0", "8.0")):
        line = ["as they are", "10", "12.0", f"{base} ± 0.0", "1.00 ± 0.00", others[0], "1.00", others[1], "1.00"]
        assert line in lines
    assert [line[0] for line in lines if line[0].startswith("joined")] == [
        "joined, no longer than in training",
        "joined, 2 × the longest in training",
    ]


def test_half_of_the_heads_of_a_kind_are_compared_with_all(make):
    """Of 1, 2 and 3 masked, 2 is taken. Two of four heads raise the loss by less than 0.01."""
    rows, markdown = make(trained("base", 30), heads=[heads()])
    kinds = ("encoder", "decoder", "decoder to encoder")
    assert values(rows, "Heads are needed.") == {f"2 heads masked − all, {kind}": (-2.0, "seen here") for kind in kinds}
    assert ["encoder", "4", "50 %", "0.300", "30.0", "29.0", "28.0", "27.0", "2.0, 5.0", "5.5"] in rows_of(markdown)


@pytest.mark.parametrize(
    ("probe", "content", "message"),
    [
        ("averaging", {"averages": []}, "missing key 'run'"),
        ("averaging", measured("base"), "missing key 'averages'"),
        ("averaging", measured("base", averages=[{"checkpoints": 1}]), r"averages\[0\]: missing key 'bleu'"),
        ("lengths", measured("base", groups=[]), "missing key 'positions'"),
        ("smoothing", measured("base", beams=[]), "missing key 'epsilon_ls'"),
        (
            "smoothing",
            {key: value for key, value in smoothing("base", 0.1, 5, 1, 2).items() if key != "calibration"},
            "missing key 'calibration'",
        ),
        ("heads", measured("base", bleu=[]), "missing key 'layers'"),
    ],
)
def test_a_foreign_file_is_named(make, probe, content, message):
    with pytest.raises(InputError, match=rf"{probe}/0\.json.*{message}"):
        make(trained("base", 30), **{probe: [content]})


@pytest.mark.parametrize(("key", "other"), [("sentences", 50), ("target_sha256", "cd")])
def test_measurements_of_other_sentences_are_not_compared(make, key, other):
    files = [smoothing("base", 0.1, 5, 30, 31), smoothing("smoothing-0.0", 0.0, 5, 29, 30) | {key: other}]
    with pytest.raises(InputError, match=f"expected scores of one {key}, found"):
        make(trained("base", 30), smoothing=files)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lower,,8", "bad,,8", "no-residual: expected: expected lower, higher, alike or nothing, found 'bad'"),
        ("higher,0.1", "higher,much", "averaging: effect: expected a number or nothing, found 'much'"),
    ],
)
def test_a_wrong_claim_is_named(tmp_path, old, new, message):
    (tmp_path / "paper.csv").write_text(CLAIMS.replace(old, new))
    with pytest.raises(InputError, match=rf"paper\.csv: {message}"):
        table5.read_claims(str(tmp_path / "paper.csv"))


def test_an_expected_measurement_is_a_probe_of_a_run(make):
    with pytest.raises(InputError, match=r"--probes: expected .*:RUN, found 'head:en-de/base/1'"):
        make(trained("base", 30), expected=("head:en-de/base/1",))


# The project's own files.


def test_the_first_grid_can_be_read_without_scrolling(make):
    """With its claims, all trained, and the probes whose names are longest."""
    paper = ROOT / "workflow/paper/table5.csv"
    tested = {name for claim in table5.read_claims(str(paper)) for name in (claim.row, claim.against)}
    runs = [trained(name, 12.3 if name == "base" else 40, seed) for name in tested - {""} for seed in (1, 2)]
    files = [lengths("base", "sinusoid", 50, 40, 20, 9), lengths("learned-positions", "learned", 49, 39, 18, 2)]
    rows, markdown = make(*runs, claims=paper.read_text("utf-8"), lengths=files, heads=[heads()])
    assert {row["verdict"] for row in rows} > {"seen here", "not seen here"}
    assert width(markdown) <= 112


def test_every_claim_is_tested_by_a_row_that_there_is():
    config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    claims = table5.read_claims(str(ROOT / "workflow/paper/table5.csv"))
    tested = {name for claim in claims for name in (claim.row, claim.against) if name}
    assert tested - set(probed.COMPARED) <= {*TABLE_5, *config["claims"]}
    assert {*config["claims"], *probed.COMPARED} <= tested
    assert all((ROOT / f"transformer/evaluation/{name}.py").exists() for name in PROBED)
    assert {name for names in PROBED.values() for name in names} <= {*TABLE_5, *config["claims"]}
    with open(ROOT / "workflow/paper/table5.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert bool(row["published"]) == bool(row["source"]), row
