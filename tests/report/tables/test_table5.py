"""Table 5, compared with numbers computed by hand."""

from pathlib import Path

import pytest
import yaml
from support.scored import detail, make_table, notes_of, score, shown, write_scores

from transformer.evaluation.analyses import ANALYSES
from transformer.evaluation.significance import RESAMPLES
from transformer.report.tables.render import Grid
from transformer.report.tables.table5 import ANALYSIS_OF, read_claims, table5

ROOT = Path(__file__).parents[3]
CLAIMS = """section,claim,row,against,expected,effect,published,source
3.1,Residuals are needed.,no-residual,base,lower,,8 less,Somebody 2020
5.4,Smoothing helps,smoothing,,higher,0.5,,
5.4,and hurts.,perplexity,,higher,,,
3.2.2,Heads are needed.,masked,,lower,,,
"""
KINDS = ("encoder", "decoder", "cross")


def spread(value: float) -> list[float]:
    """Return a score on resampled sentences, evenly within 0.5 of its value and equal for all systems."""
    return [value - 0.5 + draw / (RESAMPLES - 1) for draw in range(RESAMPLES)]


def point(bleu: float, **values) -> dict:
    return {"bleu": bleu, "low": bleu - 0.5, "high": bleu + 0.5, "draws": spread(bleu), "length_ratio": 1} | values


def trained(experiment: str, bleu: float, seed: int = 1) -> dict:
    """Return the score file of a run's last checkpoint."""
    return score(bleu, experiment=experiment, seed=seed, averaged_steps=[6000]) | {"draws": spread(bleu)}


def measured(experiment: str, seed: int = 1, **payload) -> dict:
    """Return the file of an analysis."""
    return {"run": trained(experiment, 30, seed)["run"], "sentences": 100, "target_sha256": "ab"} | payload


def smoothing(experiment: str, epsilon: float, perplexity: float, *bleus: float, seed: int = 1) -> dict:
    beams = [point(bleu, beam=beam, length_ratio=0.98) for beam, bleu in zip((1, 4), bleus, strict=True)]
    calibration = {"error": 0.031, "confidence": 0.66, "accuracy": 0.69, "bins": []}
    values = {"epsilon_ls": epsilon, "perplexity": perplexity, "perplexity_draws": spread(perplexity)}
    return measured(experiment, seed, **values, beams=beams, calibration=calibration)


def heads() -> dict:
    kind = {"increase": [[0.001, 0.3], [0.2, 0.005]], "distance": [[1.0, 3.0], [4.0, 6.0]], "equal": 5.5, "curve": []}
    masked = [point(30, kind=None, masked=0)]
    masked += [point(30 - count, kind=name, masked=count) for name in KINDS for count in (1, 2, 3)]
    return measured("base", layers=2, heads=2, loss=2.0, kinds=dict.fromkeys(KINDS, kind), bleu=masked)


def make(tmp_path, *scores: dict, probes: tuple[str, ...] = (), tested: tuple = (), **analysed: list[dict]):
    """Return the rows of the frame, and the table of score files and of analysis files."""
    (tmp_path / "paper.csv").write_text(CLAIMS)
    options = {"paper": tmp_path / "paper.csv", "dev_label": "toy: dev", "label": "toy", "expected_analyses": probes}
    options |= {"expected": ["en-de/base/1"], "ablations": ["mine"], "test": write_scores(tmp_path / "test", *tested)}
    options["score"] = write_scores(tmp_path / "scores", *scores)
    options |= {name: write_scores(tmp_path / name, *analysed.get(name, [])) for name in ANALYSES}
    frame, _, table = make_table(table5, "claim", **options)
    return frame.to_dict("records"), table


def values(rows: list[dict], claim: str) -> dict[str, tuple[float, str]]:
    """Return difference and verdict of each comparison."""
    return {row["compared"]: (round(row["value"], 6), row["verdict"]) for row in rows if row["claim"] == claim}


def test_a_trained_row(tmp_path):
    """Each draw is 22 - 30: the interval has no width, because seeds do not differ, and no draw deviates as much."""
    base = [trained("base", 30, seed) for seed in (1, 2, 3)]
    rows, table = make(tmp_path, *base, trained("no-residual", 22))
    p = 1 / (1 + RESAMPLES)
    expected = {"score": 22, "against": 30, "value": -8, "low": -8, "high": -8, "p": p, "p_holm": p}
    expected |= {"seeds": 1, "seeds_against": 3}
    assert {name: rows[0][name] for name in expected} == pytest.approx(expected)
    assert (rows[0]["compared"], rows[0]["verdict"]) == ("`no-residual` − `base`", "replicated")
    runs = ("en-de/no-residual/1", "en-de/base/1", "en-de/base/2", "en-de/base/3")
    assert table.grid.rows[0]["Dev"].runs == runs
    assert (rows[0]["test_verdict"], shown(table.grid)[0]["Verdict, dev"]) == ("", "replicated")


def test_a_verdict_is_bold_where_both_measurements_say_it(tmp_path):
    """On the test set the row is lower, too; the user's own row has no verdict."""
    base, own = ([trained(name, bleu, seed) for seed in (1, 2)] for name, bleu in (("base", 30), ("no-residual", 22)))
    scores = (*base, *own, trained("mine", 22))
    lower, higher = ((*base, *(trained("no-residual", bleu, seed) for seed in (1, 2))) for bleu in (28, 36))
    (row, *_, mine), table = make(tmp_path, *scores, tested=lower)
    assert (row["test_value"], row["test_verdict"], mine["test_verdict"]) == (-2, "replicated", "")
    line = shown(table.grid)[0]
    assert (line["Verdict, dev"], line["Verdict, test"]) == ("**replicated**", "**replicated**")
    assert line["Test"] == "−2.0 (−2.0 to −2.0)"
    line = shown(make(tmp_path, *scores, tested=higher)[1].grid)[0]
    assert (line["Verdict, dev"], line["Verdict, test"]) == ("replicated", "reversed")


def test_what_was_not_run_or_measured_is_named(tmp_path):
    rows, table = make(tmp_path, trained("no-residual", 22), probes=("heads:en-de/base/1",))
    assert [row["verdict"] for row in rows] == ["not run"] * 4
    assert shown(table.grid)[0]["Verdict, dev"] == "not run"
    assert "because these runs have not been made: en-de/base/1." in notes_of(table)
    assert "because they have not been measured: heads of en-de/base/1." in notes_of(table)


def test_smoothing_is_compared_at_each_beam_and_by_perplexity(tmp_path):
    """The deviation between seeds counts: none with beam size 1 and for perplexity, 10 with beam size 4."""
    files = [smoothing("base", 0.1, 5.2, 30, 26), smoothing("base", 0.1, 5.2, 30, 36, seed=2)]
    files += [smoothing("smoothing-0.0", 0.0, 4.9, 29.5, 32)]
    rows, table = make(tmp_path, trained("base", 30), smoothing=[*files, smoothing("smoothing-0.2", 0.2, 6, 1, 2)])
    assert values(rows, "Smoothing helps") == {
        "`base` − `smoothing-0.0`, beam 1": (0.5, "replicated"),
        "`base` − `smoothing-0.0`, beam 4": (-1.0, "inconclusive"),
    }
    assert list(values(rows, "and hurts.").values()) == [(0.3, "replicated")]
    lines = [(row["Claim"], row["Dev"].split(" (")[0], row["Verdict, dev"]) for row in shown(table.grid)[1:5]]
    assert lines == [
        ("Smoothing helps", "", ""),
        ("– `base` − `smoothing-0.0`, beam 1", "+0.5", "replicated"),
        ("– `base` − `smoothing-0.0`, beam 4", "−1.0", "inconclusive"),
        ("and hurts.", "+0.30 PPL", "replicated"),
    ]
    above, *below = [row["p, dev (Holm)"] for row in detail(table)[1:5]]
    assert (above, all(below)) == ("", True)  # a line above several comparisons has no p


def test_half_of_the_heads_of_a_kind_are_compared_with_all(tmp_path):
    """Of 1, 2 and 3 masked heads, 2 is used."""
    rows, _ = make(tmp_path, trained("base", 30), heads=[heads()])
    kinds = ("encoder", "decoder", "decoder to encoder")
    assert values(rows, "Heads are needed.") == {
        f"2 heads masked − none masked, {kind}": (-2.0, "replicated") for kind in kinds
    }


def test_search_is_shown_by_beam_and_alpha_as_mean_over_seeds(tmp_path):
    searches = [
        measured("base", seed, searches=[point(bleu, beam=4, alpha=alpha) for alpha, bleu in bleus])
        for seed, bleus in ((1, [(0.0, 25), (0.6, 26)]), (2, [(0.0, 25), (0.6, 27)]))
    ]
    _, table = make(tmp_path, trained("base", 30), tuning=searches)
    (row,) = next(shown(grid) for grid in table.notes if isinstance(grid, Grid) and "Beam" in grid.rows[0])
    assert (row["Beam"], row["BLEU, α 0"], row["BLEU, α 0.6"]) == ("4", "25.00 ± 0.00", "26.50 ± 0.71")


def test_every_claim_is_tested_by_a_row_that_there_is():
    config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    claims = list(read_claims(str(ROOT / "workflow/paper/table5.csv")).itertuples())
    tested = {name for claim in claims for name in (claim.row, claim.against) if name}
    rows = {*config["experiments"], *config["ablations"]}
    assert tested - set(ANALYSIS_OF) <= rows
    assert {*config["ablations"], *ANALYSIS_OF} <= tested
    assert {name for each in ANALYSES.values() for name in each.experiments} <= rows
    assert all(bool(claim.published) == bool(claim.source) for claim in claims)
