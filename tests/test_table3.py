"""Table 3 against numbers worked by hand, on translations whose errors are known."""

import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from scored import cells, read_csv, score, split, write_scores

from transformer import checkpoints
from transformer.bleu import paper_tokens, scores
from transformer.files import InputError, sha256
from transformer.significance import p_value
from transformer.stages import score as score_stage
from transformer.stages import table3
from transformer.table3 import read_variations

ROOT = Path(__file__).parent.parent
PRINTED = """row,experiment,changed,steps,perplexity,bleu,parameters
,base,"N=6, h=8",100K,4.92,25.8,65
A,heads-1,"h=1, d_k=512",,5.29,24.9,
C,N-2,N=2,,6.11,23.7,36
,big,"d_model=1024, h=16",300K,4.33,26.4,213
"""
REFERENCES = [f"Der Hund {n} sieht heute die Katze am Fluss-Ufer {n} ." for n in range(40)]


def with_errors(*numbers: int) -> list[str]:
    """The references, with a wrong word in the sentences of these numbers."""
    return [line.replace("heute", "nie") if n in numbers else line for n, line in enumerate(REFERENCES)]


BASE = with_errors(*range(0, 10))


class Folder:
    """Score files and translations, as they lie beside each other before the table is made."""

    def __init__(self, path: Path):
        self.path, self.contents, self.hyps = path, [], []
        self.ref = self.write("dev.de", REFERENCES)
        self.paper = path / "table3.csv"
        self.paper.write_text(PRINTED)

    def write(self, name: str, lines: list[str]) -> str:
        (self.path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return str(self.path / name)

    def add(self, experiment: str, translations: list[str] = BASE, seed: int = 1, bleu: float = 30.0, **run) -> dict:
        """One run's translations, and their score, whose BLEU is `bleu` whatever it is of."""
        hyp = self.write(f"{experiment}.{seed}.hyp", translations)
        content = score(bleu, experiment=experiment, seed=seed, **{"averaged_steps": [6000]} | run)
        content |= {"hyp_sha256": sha256(hyp), "ref_sha256": sha256(self.ref)}
        self.contents.append(content)
        self.hyps.append(hyp)
        return content

    def make(self, width: int = 4, depth: int = 2, expected: tuple = ()) -> tuple[dict, str]:
        """Runs the stage and gives the rows of the CSV by experiment, and the Markdown."""
        output, files = self.path / "tables" / "table3", write_scores(self.path, *self.contents)
        arguments = ["--paper", str(self.paper), "--label", "toy: dev", "--width", str(width), "--depth", str(depth)]
        arguments += ["--score", *files, "--hyp", *self.hyps, "--ref", self.ref]
        table3.main([*arguments, "--expected", *expected, "--output", str(output)])
        rows = {row["experiment"]: row for row in read_csv(f"{output}.csv")}
        return rows, Path(f"{output}.md").read_text(encoding="utf-8")


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
    assert cells(markdown)[0] == {
        "Row": "",
        "Experiment": "base",
        "Changed": "N=6, h=8",
        "PPL, paper": "4.92",
        "PPL, ours": "5.10 ± 0.10",
        "BLEU, paper": "25.8",
        "BLEU, ours": "32.0 ± 2.6",
        "95 %": "31.5 – 32.5",
        "Against base, paper": "",
        "Against base, ours": "",
        "sacreBLEU, ours": "31.0 ± 2.6",
        "Parameters, paper": "65",
        "Parameters, ours": "1.901",
        "Seeds": "3",
        "Steps": "6,000",
    }


def test_rows_in_the_papers_order_then_our_own(folder):
    """A run of one's own has no cells of the paper, a row that was not run none of ours."""
    for experiment in ("big", "mine", "N-2", "base"):
        folder.add(experiment, parameters=267_776)
    rows, markdown = folder.make()
    assert list(rows) == ["base", "heads-1", "N-2", "big", "mine"]
    assert [row["row"] for row in rows.values()] == ["", "A", "C", "", ""]
    shown = {row["Experiment"]: list(row.values()) for row in cells(markdown)}
    assert shown["heads-1"] == ["A", "heads-1", "h=1, d_k=512", "5.29", "", "24.9", "", "", "−0.9", *[""] * 6]
    ours = ["30.0", "29.5 – 30.5"]
    assert shown["N-2"][:8] == ["C", "N-2", "N=2", "6.11", "5.05", "23.7", *ours]
    assert shown["N-2"][8:] == ["−2.1", "+0.0 †", "29.0", "36", "0.268", "1", "6,000"]
    assert shown["mine"][:8] == ["", "mine", "", "", "5.05", "", *ours]
    assert shown["mine"][8:] == ["", "+0.0 †", "29.0", "", "0.268", "1", "6,000"]
    assert "nan" not in markdown.lower()
    assert "<na>" not in markdown.lower()


def test_the_mark_is_for_what_cannot_be_told_from_base(folder):
    folder.add("base")
    folder.add("heads-1")  # the same translations
    folder.add("N-2", with_errors(*range(10, 21)))  # about as many errors, in other sentences
    folder.add("big", REFERENCES)  # none
    rows, markdown = folder.make()
    assert float(rows["heads-1"]["p"]) == 1
    assert 0.05 <= float(rows["N-2"]["p"]) < 1
    assert float(rows["big"]["p"]) < 0.05
    marked = {row["Experiment"] for row in cells(markdown) if row["Against base, ours"].endswith("†")}
    assert marked == {"heads-1", "N-2"}


def test_common_seeds_are_laid_end_to_end(folder):
    """Base has seeds 1 and 3, the other 3, 2 and 1 in this order: 1 is compared with 1, 3 with 3."""
    translations = {1: with_errors(*range(10, 23)), 2: REFERENCES, 3: with_errors(*range(20, 33))}
    folder.add("base", seed=1)
    folder.add("base", with_errors(*range(12)), seed=3)
    for seed in (3, 2, 1):
        folder.add("big", translations[seed], seed=seed)
    sides = [BASE + with_errors(*range(12)), translations[1] + translations[3], REFERENCES * 2]
    rows, _ = folder.make()
    assert float(rows["big"]["p"]) == p_value(*(paper_tokens(side, "de") for side in sides))


def test_without_a_common_seed_nothing_is_compared(folder):
    folder.add("base", seed=1)
    folder.add("big", seed=2)
    rows, markdown = folder.make()
    assert rows["big"]["p"] == ""
    assert cells(markdown)[-1]["Against base, ours"] == "+0.0"


def test_without_base_nothing_is_compared_and_the_gap_is_named(folder):
    folder.add("big")
    rows, markdown = folder.make(expected=["en-de/base/1", "en-de/big/1"])
    assert (rows["big"]["p"], rows["big"]["difference"]) == ("", "")
    assert "have not been made: en-de/base/1." in markdown


def test_without_any_run_the_papers_rows_remain(folder):
    rows, markdown = folder.make(expected=["en-de/base/1"])
    assert list(rows) == ["base", "heads-1", "N-2", "big"]
    assert "have not been made: en-de/base/1." in markdown


def test_score_stage_to_table(folder):
    """What the score stage says of a run's last checkpoint is what the table shows."""
    run = folder.path / "run"
    decoding = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}
    about = score(0.0)["run"]
    del about["averaged_steps"], about["decoding"]
    run.mkdir()
    (run / "run.json").write_text(json.dumps(about))
    (run / "decoding.yaml").write_text(json.dumps(decoding))  # which is YAML, too
    checkpoints.save(run / "last.safetensors", {"x": torch.zeros(1)}, {"digest": about["digest"], "step": 6000})
    hyp, written = folder.write("run/dev.last.hyp", BASE), str(run / "dev.last.json")
    arguments = ["--hyp", hyp, "--ref", folder.ref, "--lang", "de", "--run", str(run)]
    score_stage.main([*arguments, "--weights", str(run / "last.safetensors"), "--json", written])
    folder.contents, folder.hyps = [Path(written).read_text()], [hyp]
    rows, markdown = folder.make()
    expected = scores(BASE, REFERENCES, "de")
    assert float(rows["base"]["bleu"]) == expected["plain_quotes"]["score"]
    assert float(rows["base"]["sacrebleu"]) == expected["sacrebleu"]["score"]
    assert float(rows["base"]["low"]) < expected["plain_quotes"]["score"] < float(rows["base"]["high"])
    assert expected["plain_quotes"]["signature"].replace("|", r"\|") in markdown


def test_notes_say_how_and_where_from(folder):
    folder.add("base")
    folder.add("big", seconds=10.4, hardware="1 GPU", commit="unknown")
    _, markdown = folder.make(width=8, depth=3)
    caption, _, mark, _, shrinking, *_ = markdown.split("\n\n")
    assert "toy: dev" in caption
    assert "newstest2013" in caption
    assert "without averaging" in caption
    assert mark.startswith("† cannot be told from base: p ≥ 0.05")
    assert "1,000 resamples with seed 12345" in mark
    assert "by 8 and N by 3" in shrinking
    assert r"`en-de\|sacrebleu\|v:1`" in markdown
    effort = ["1.5·10^15", "6,000", "step 6,000 alone", "beam 4, alpha 0.6, extra_length 50", "10", "1 GPU"]
    origin = ["paper-text", "unknown", "ab" * 6, "cd" * 6]
    assert split(markdown.splitlines()[-1]) == ["en-de/big/1", "30.00", "29.00", *effort, *origin]


def test_the_papers_own_sizes_need_no_word_about_shrinking(folder):
    folder.add("base")
    _, markdown = folder.make(width=1, depth=1)
    assert "scale divides" not in markdown


def test_rows_of_the_papers_table_are_experiments_of_the_configuration():
    configured = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["experiments"]
    assert list(read_variations(ROOT / "workflow" / "paper" / "table3.csv").index) == list(configured)


def error(folder: Folder) -> str:
    """The one line that ends the stage."""
    with pytest.raises(InputError) as caught:
        folder.make()
    assert "\n" not in str(caught.value)
    assert not (folder.path / "tables").exists()
    return str(caught.value)


def test_translations_of_another_run(folder):
    folder.add("base")
    folder.add("big", REFERENCES)
    folder.hyps.reverse()
    found = f"{folder.path}/big.1.hyp: expected the translations that {folder.path}/score0.json is of, found others"
    assert error(folder) == found


def test_a_translation_too_few(folder):
    folder.add("base")
    folder.add("big")
    folder.hyps.pop()
    assert error(folder) == "expected a translation per score, found 1 and 2"


def test_other_references(folder):
    folder.add("base")
    folder.write("dev.de", BASE)
    assert error(folder) == f"{folder.ref}: expected the references of {folder.path}/score0.json, found others"


def test_two_scores_of_one_run(folder):
    folder.add("base")
    folder.add("base")
    assert error(folder).startswith("en-de/base/1: expected one score of a run, found ")


@pytest.mark.parametrize(
    ("key", "value"),
    [("scale", "demo"), ("task", "en-fr"), ("fidelity", "paper-code"), ("steps", 400), ("parameters", 9)],
)
def test_runs_that_do_not_belong_together(folder, key, value):
    """Other steps or another size under the name of one experiment are another training."""
    folder.add("base")
    run = folder.add("base", seed=2, **{key: value})["run"]
    if key == "steps":
        run["averaged_steps"] = [400]
    assert error(folder).startswith(f"expected scores of one {key}, found ")


@pytest.mark.parametrize("value", [None, math.nan])
def test_a_run_without_a_dev_perplexity(folder, value):
    folder.add("base", dev_perplexity=value)
    assert error(folder) == f"{folder.path}/score0.json, run: expected a dev_perplexity, found none"


@pytest.mark.parametrize("steps", [[5800, 6000], [5800]])
def test_scores_of_other_weights_than_the_last(folder, steps):
    folder.add("base", averaged_steps=steps)
    assert error(folder) == f"{folder.path}/score0.json: expected a score of step 6000 alone, found one of {steps}"


def test_a_paper_table_without_a_column(folder):
    folder.add("base")
    folder.paper.write_text("row,experiment,changed,perplexity,bleu\n,base,,4.92,25.8\n")
    assert error(folder).startswith(f"{folder.paper}: expected a column 'parameters', found row, experiment")
