"""Table 3 against numbers worked by hand."""

import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from support.scored import by, cells, further, make_table, score, split, width, write_scores

from transformer.commands import score as score_stage
from transformer.evaluation.bleu import scores
from transformer.files import InputError
from transformer.model import weights as checkpoints
from transformer.report.tables.table3 import read_variations

ROOT = Path(__file__).parents[3]
PRINTED = """row,experiment,changed,steps,perplexity,bleu,parameters
,base,"N=6, h=8",100K,4.92,25.8,65
A,heads-1,"h=1, d_k=512",,5.29,24.9,
C,N-2,N=2,,6.11,23.7,36
,big,"d_model=1024, h=16",300K,4.33,26.4,213
"""


class Folder:
    """A folder of score files before the table is made."""

    def __init__(self, path: Path):
        self.path, self.contents, self.paper = path, [], path / "table3.csv"
        self.paper.write_text(PRINTED)

    def add(self, experiment: str, seed: int = 1, bleu: float = 30.0, draws: list | None = None, **run) -> dict:
        """Add the score of one run, with its BLEU on resampled sentences."""
        content = score(bleu, experiment=experiment, seed=seed, **{"averaged_steps": [6000]} | run)
        self.contents.append(content | ({"draws": draws} if draws else {}))
        return self.contents[-1]

    def make(
        self, width: int = 4, depth: int = 2, expected: tuple = (), of_paper: bool = True, own: str = "{}"
    ) -> tuple[dict, str]:
        """Run the stage, and return the rows of the CSV by experiment, and the Markdown."""
        options = ["--paper", self.paper, "--label", "toy: dev", "--width", width, "--depth", depth, "--own", own]
        options += ["--data-of-paper"] * of_paper
        options += ["--score", *write_scores(self.path, *self.contents), "--expected", *expected]
        rows, markdown = make_table("table3", self.path / "tables/table3", *options)
        return by(rows, "experiment"), markdown


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_means_and_deviations_over_seeds(folder):
    """30, 31, 35: mean 32, squares 4 + 1 + 9 over 2 degrees of freedom; 5.00, 5.10, 5.20: mean 5.1, deviation 0.1."""
    for seed, (bleu, perplexity) in enumerate(((30.0, 5.00), (31.0, 5.10), (35.0, 5.20)), start=1):
        folder.add("base", seed=seed, bleu=bleu, dev_perplexity=perplexity)
    rows, markdown = folder.make()
    ours = rows["base"]
    assert (float(ours["bleu"]), float(ours["sacrebleu"])) == (32, 31)
    assert float(ours["bleu_sd"]) == pytest.approx(7**0.5)
    assert float(ours["perplexity"]) == pytest.approx(5.1)
    assert float(ours["perplexity_sd"]) == pytest.approx(0.1)
    assert (ours["parameters"], ours["steps"], ours["seeds"], ours["p"]) == ("1900544", "6000", "3", "")
    assert ours["runs"] == "en-de/base/1 en-de/base/2 en-de/base/3"
    assert cells(markdown)[0] == {
        "Row": "",
        "Experiment": "base",
        "PPL, paper": "4.92",
        "PPL, ours": "5.10 ± 0.10",
        "BLEU, paper": "25.8",
        "BLEU, ours": "32.0 ± 2.6",
        "95 %": "31.5 – 32.5",
        "− paper": "+6.2",
        "− base, paper": "",
        "− base, ours": "",
        "Here": "",
    }
    assert further(markdown)[0] == {
        "Row": "",
        "Experiment": "base",
        "Changed": "N=6, h=8",
        "sacreBLEU, ours": "31.0 ± 2.6",
        "Parameters, paper": "65",
        "Parameters, ours": "1.901",
        "Seeds": "3",
        "Steps, paper": "100K",
        "Steps, ours": "6,000",
    }


@pytest.mark.parametrize(("of_paper", "most"), [(False, 138), (True, 148)])
def test_the_first_grid_can_be_read_without_scrolling(folder, of_paper, most):
    folder.paper = ROOT / "workflow" / "paper" / "table3.csv"
    for experiment in read_variations(folder.paper).index:
        for seed in (1, 2):
            folder.add(experiment, seed, 30.0 + seed, dev_perplexity=10.0 + seed)
    _, markdown = folder.make(of_paper=of_paper)
    assert len(cells(markdown)) == 20
    assert width(markdown) <= most


def test_rows_in_the_papers_order_then_our_own(folder):
    """A run of one's own has no cells of the paper, a row that was not run none of ours."""
    for experiment in ("big", "mine", "N-2", "base"):
        folder.add(experiment, parameters=267_776)
    rows, markdown = folder.make()
    assert list(rows) == ["base", "heads-1", "N-2", "big", "mine"]
    assert [row["row"] for row in rows.values()] == ["", "A", "C", "", ""]
    shown, more = ({row["Experiment"]: list(row.values()) for row in part(markdown)} for part in (cells, further))
    assert shown["heads-1"] == ["A", "heads-1", "5.29", "", "24.9", "", "", "", "−0.9", "", ""]
    assert more["heads-1"] == ["A", "heads-1", "h=1, d_k=512", *[""] * 6]
    ours = ["30.0", "29.5 – 30.5"]
    assert shown["N-2"] == ["C", "N-2", "6.11", "5.05", "23.7", *ours, "+6.3", "−2.1", "+0.0 ?", "?"]
    assert more["N-2"] == ["C", "N-2", "N=2", "29.0", "36", "0.268", "1", "", "6,000"]
    assert shown["mine"] == ["", "mine", "", "5.05", "", *ours, "", "", "+0.0 ?", ""]
    assert more["mine"] == ["", "mine", "", "29.0", "", "0.268", "1", "", "6,000"]
    assert "nan" not in markdown.lower()
    assert "<na>" not in markdown.lower()


def test_on_other_data_than_the_papers_nothing_is_compared_with_it(folder):
    """The paper's variations stand beside ours all the same; in the CSV file the column is there, and blank."""
    folder.add("base", bleu=26.0)
    folder.add("big", bleu=27.0)
    rows, markdown = folder.make(of_paper=False)
    assert (rows["big"]["paper_bleu"], rows["big"]["from_paper"]) == ("26.4", "")
    assert cells(markdown)[-1] == {
        "Row": "",
        "Experiment": "big",
        "PPL, paper": "4.33",
        "PPL, ours": "5.05",
        "BLEU, paper": "26.4",
        "BLEU, ours": "27.0",
        "95 %": "26.5 – 27.5",
        "− base, paper": "+0.6",
        "− base, ours": "+1.0 ?",
        "Here": "?",
    }
    assert "‡" not in markdown
    assert "− paper" not in markdown


def flat(folder: Folder, experiment: str, *bleus: float) -> None:
    """Add a run per BLEU, which is the same on all 1,000 resampled test sets."""
    for seed, bleu in enumerate(bleus, start=1):
        folder.add(experiment, seed, bleu, draws=[bleu] * 1000)


def test_the_mark_is_for_what_cannot_be_told_from_base(folder):
    """Base's seeds are 1 apart; with another of one, t of 4.3 with 2 degrees is 5 %, and width sqrt(1/3 + 1)."""
    flat(folder, "base", 29, 30, 31)
    flat(folder, "heads-1", 30)
    flat(folder, "N-2", 30 - 4.0 * (4 / 3) ** 0.5)
    flat(folder, "big", 30 + 4.6 * (4 / 3) ** 0.5)
    rows, markdown = folder.make()
    p = {name: float(rows[name]["p"]) for name in ("heads-1", "N-2", "big")}
    assert p == pytest.approx({"heads-1": 1, "N-2": 0.0572, "big": 0.0441}, rel=0.08)  # from the t distribution
    shown = {row["Experiment"]: row["− base, ours"] for row in cells(markdown)}
    assert shown == {"base": "", "heads-1": "+0.0 †", "N-2": "−4.6 †", "big": "+5.3"}


def here(markdown: str) -> dict[str, str]:
    return {row["Experiment"]: row["Here"] for row in cells(markdown)}


def test_whether_the_papers_difference_is_seen(folder):
    """The paper has −0.9, −2.1 and +0.6; ours are −10 and −20, surely, and 0, with up to 5 to either side."""
    flat(folder, "base", 29, 30, 31)
    for experiment, bleu in (("heads-1", 20), ("N-2", 30), ("big", 10), ("mine", 10)):
        flat(folder, experiment, bleu)
    rows, markdown = folder.make()
    assert here(markdown) == {"base": "", "heads-1": "seen", "N-2": "open", "big": "not seen", "mine": ""}
    assert [rows[name]["here"] for name in ("heads-1", "N-2")] == ["seen here", "cannot be told"]


def test_a_difference_as_large_as_the_papers_can_be_ruled_out(folder):
    """Seeds lie 0.1 apart: ours are within 0.5 of 0; the paper's +0.6 is not, and of −2.1 it is 1 that is not."""
    flat(folder, "base", 29.9, 30, 30.1)
    for experiment in ("heads-1", "N-2", "big"):
        flat(folder, experiment, 30)
    assert here(folder.make()[1]) == {"base": ""} | dict.fromkeys(("heads-1", "N-2", "big"), "not seen")


def test_the_csv_has_the_interval_of_the_difference_and_holms_p(folder):
    """3 and 2 times p, where that is no more than the next one's; the interval is 4.3 widths to either side."""
    flat(folder, "base", 29, 30, 31)
    flat(folder, "heads-1", 30)
    flat(folder, "N-2", 24)
    flat(folder, "big", 40)
    rows, markdown = folder.make()
    p = {name: float(rows[name]["p"]) for name in ("heads-1", "N-2", "big")}
    expected = {"heads-1": 1, "N-2": 2 * p["N-2"], "big": 3 * p["big"]}
    assert {name: float(rows[name]["p_holm"]) for name in p} == pytest.approx(expected)
    assert (rows["base"]["p"], rows["base"]["p_holm"]) == ("", "")
    limits = [float(rows["big"][f"difference_{end}"]) for end in ("low", "high")]
    assert limits == pytest.approx([10 - 4.303 * (4 / 3) ** 0.5, 10 + 4.303 * (4 / 3) ** 0.5], abs=0.3)
    assert "Tested differences: 3 of 3." in markdown


def test_with_one_seed_each_no_verdict_is_given_and_the_interval_is_of_sentences(folder):
    """The scores' draws, 0.5 to either side, move together: their difference has no width."""
    folder.add("base")
    folder.add("big", seed=2, bleu=40.0)
    rows, markdown = folder.make()
    big = rows["big"]
    assert (big["p"], big["p_holm"], big["difference"]) == ("", "", "10.0")
    assert (big["difference_low"], big["difference_high"]) == ("10.0", "10.0")
    assert cells(markdown)[-1]["− base, ours"] == "+10.0 ?"
    assert "? no verdict: not tested, as p is missing" in markdown
    assert "Tested differences: 0 of 1." in markdown


def test_all_seeds_are_compared(folder):
    """The mean of base's seeds 1 and 3 is 31.5, that of the other's three is 36.5."""
    for seed, bleu in ((1, 30.0), (3, 33.0)):
        folder.add("base", seed, bleu)
    for seed, bleu in ((3, 34.0), (2, 45.0), (1, 30.5)):
        folder.add("big", seed, bleu)
    rows, markdown = folder.make()
    assert float(rows["big"]["difference"]) == 5
    assert cells(markdown)[-1]["− base, ours"] == "+5.0 †"


def test_without_base_nothing_is_compared_and_gaps_are_named(folder):
    folder.add("big", seed=2)
    rows, markdown = folder.make(expected=["en-de/base/2", "en-de/big/2"])
    assert (rows["big"]["p"], rows["big"]["difference"]) == ("", "")
    assert cells(markdown)[-1]["− base, ours"] == ""
    assert "have not been made: en-de/base/2." in markdown


def test_without_any_run_the_papers_rows_remain(folder):
    rows, _ = folder.make()
    assert list(rows) == ["base", "heads-1", "N-2", "big"]


def test_score_stage_to_table(folder):
    """The table shows what the score stage says of a run's last checkpoint."""
    run = folder.path / "run"
    decoding = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}
    about = score(0.0)["run"]
    del about["averaged_steps"], about["decoding"]
    run.mkdir()
    (run / "run.json").write_text(json.dumps(about))
    (run / "decoding.yaml").write_text(json.dumps(decoding))  # which is YAML, too
    checkpoints.save(run / "last.safetensors", {"x": torch.zeros(1)}, {"digest": about["digest"], "step": 6000})
    references = [f"Der Hund {n} sieht heute die Katze am Fluss-Ufer {n} ." for n in range(20)]
    hypotheses = [line.replace("heute", "nie") if n % 3 else line for n, line in enumerate(references)]
    (run / "dev.de").write_text("\n".join(references) + "\n")
    (run / "dev.last.hyp").write_text("\n".join(hypotheses) + "\n")
    arguments = ["--hyp", str(run / "dev.last.hyp"), "--ref", str(run / "dev.de"), "--lang", "de", "--run", str(run)]
    written = ["--weights", str(run / "last.safetensors"), "--json", str(run / "dev.last.json")]
    score_stage.main([*arguments, *written])
    folder.contents = [(run / "dev.last.json").read_text()]
    rows, markdown = folder.make()
    expected = scores(hypotheses, references, "de")
    assert float(rows["base"]["bleu"]) == expected["plain_quotes"]["score"]
    assert float(rows["base"]["sacrebleu"]) == expected["sacrebleu"]["score"]
    assert float(rows["base"]["low"]) < expected["plain_quotes"]["score"] < float(rows["base"]["high"])
    assert expected["plain_quotes"]["signature"].replace("|", r"\|") in markdown


def test_notes_say_how_and_where_from(folder):
    folder.add("base")
    folder.add("big")
    _, markdown = folder.make(width=8, depth=3)
    caption, _, _, _, shrinking, _, _, mark, _, chance, _, perplexity, *_ = markdown.split("\n\n")
    assert "toy: dev" in caption
    assert "newstest2013" in caption
    assert "without averaging" in caption
    assert "† cannot be told from base: p ≥ 0.05" in mark
    assert "1,000 draws with seed 12345" in chance
    assert "the chance in training, by Student's t" in chance
    assert "only over the same subwords" in perplexity
    assert "significant" not in markdown
    assert "by 8 and N by 3" in shrinking
    assert "scale divides" not in folder.make(width=1, depth=1)[1]
    assert r"`en-de\|sacrebleu\|v:1`" in markdown
    big = ["en-de/big/1", "30.00", "29.00", "1.5·10^15", "6,000", "step 6,000 alone"]
    assert split(markdown.splitlines()[-1])[: len(big)] == big


def test_a_scales_own_values_are_named_where_they_are_of_a_row(folder):
    folder.add("base")
    own = {"base": {"P_drop": 0.25, "steps": 9}, "big": {"P_drop": 0.4}, "heads-1": {}, "pre-norm-2N": {"N": 8}}
    _, markdown = folder.make(own=json.dumps(own))
    note = "In place of the paper's values this scale has: `base` P_drop=0.25, steps=9; `big` P_drop=0.4."
    assert note in markdown.split("\n\n")
    assert "In place of" not in folder.make()[1]


def test_rows_of_the_papers_table_are_experiments_of_the_configuration():
    configured = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["experiments"]
    assert list(read_variations(ROOT / "workflow" / "paper" / "table3.csv").index) == list(configured)


def error(folder: Folder) -> str:
    """Return the one line that ends the stage."""
    with pytest.raises(InputError) as caught:
        folder.make()
    assert "\n" not in str(caught.value)
    assert not (folder.path / "tables").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("task", "en-fr"), ("steps", 400), ("parameters", 9)],
)
def test_runs_that_do_not_belong_together(folder, key, value):
    """Another number of steps, or another size, under the name of an experiment is another training."""
    folder.add("base")
    run = folder.add("base", seed=2, **{key: value})["run"]
    if key == "steps":
        run["averaged_steps"] = [400]
    assert error(folder).startswith(f"expected scores of one {key}, found ")


def test_a_run_without_a_dev_perplexity(folder):
    folder.add("base", dev_perplexity=None)
    assert error(folder) == f"{folder.path}/score0.json, run: expected a dev_perplexity, found none"
    folder.add("base", dev_perplexity=math.nan)
    assert error(folder).endswith("run.dev_perplexity: expected a finite number, found nan")


@pytest.mark.parametrize("steps", [[5800, 6000], [5800]])
def test_scores_of_other_weights_than_the_last(folder, steps):
    folder.add("base", averaged_steps=steps)
    assert error(folder) == f"{folder.path}/score0.json: expected a score of step 6000 alone, found one of {steps}"
