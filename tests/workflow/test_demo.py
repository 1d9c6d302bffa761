"""The demo, run once: its models' scores, its tables in LaTeX, its page in a browser."""

import csv
import json
import math
import re
from pathlib import Path

import pytest
from msgspec import structs
from support import browsing
from support.project import copy_project, snakemake, transformer
from support.tools import typeset

from transformer.config import settings
from transformer.config.experiment import save
from transformer.config.scales import RunName, ScaleSettings
from transformer.layout import Data, Run
from transformer.pipeline.registry import FIGURES, TABLES
from transformer.process import StopSignals
from transformer.training.loop import train_and_publish

pytestmark = pytest.mark.slow
CONFIG = settings.read([], [])
ROWS = CONFIG.scales["demo"].rows


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """A copy of the project with a finished demo."""
    project = copy_project(tmp_path_factory.mktemp("demo"))
    result = snakemake(project)
    assert result.returncode == 0, result.stderr
    return project


def read_table(demo: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((demo / f"results/demo/tables/{table}.csv").read_text("utf-8").splitlines()))


def test_translators_learn(demo):
    """The grammar is easy: a model that has learned it has a BLEU near 100 (or slightly above), otherwise near 0.

    After these few steps, an LSTM is between the two.
    """
    rows = read_table(demo, "table2")
    ours = [row for row in rows if row["by"] == "ours"]
    assert [row["model"].partition(" (")[2] for row in ours] == ["base)", "big)", "lstm)", "conv)"]
    for row in ours:
        assert "grammar" in row["label"]
        least = 15 if "lstm" in row["model"] else 90
        tasks = ("en-de", "en-fr") if row["model"].endswith(("(base)", "(big)")) else ("en-de",)
        assert all(least < float(row[f"{task}_bleu"]) < 100.001 for task in tasks)
    lines = (demo / "results/demo/runs/en-fr/big/1/metrics.jsonl").read_text().splitlines()
    perplexities = [entry["dev_perplexity"] for entry in map(json.loads, lines) if "dev_perplexity" in entry]
    assert perplexities[-1] < min(2, perplexities[0])


def test_table_3_has_all_rows_and_the_demos_rows_have_learned(demo):
    rows = read_table(demo, "table3")
    assert {row["experiment"] for row in rows} == CONFIG.experiments.keys()
    bleu = {row["experiment"]: float(row["bleu"]) for row in rows if row["bleu"]}
    assert bleu.keys() == set(ROWS) & CONFIG.experiments.keys()
    assert all(value > 0.7 * bleu["base"] > 63 for value in bleu.values())
    assert all(row["p"] for row in rows if row["experiment"] in bleu.keys() - {"base"})  # base has several seeds


@pytest.mark.parametrize("row", [row for row in CONFIG.ablations if row not in ROWS])
def test_every_other_row_of_table_5_can_be_trained(demo, tmp_path, on_the_processor, row):
    """Other rows of Table 3 differ from base only in sizes and rates."""
    experiment = ScaleSettings(CONFIG).experiment(RunName("en-de", row, 1))
    short = structs.replace(experiment.training, steps=3, checkpoint_every=1, averaged_checkpoints=2)
    run = Run(tmp_path)
    save(structs.replace(experiment, training=short), run.experiment)
    train_and_publish(run, Data(demo / "results/demo/data/en-de"), 1, None, StopSignals())
    assert math.isfinite(json.loads(run.record.read_text())["dev_perplexity"])
    assert run.average.exists()


def test_table_5_tests_its_claims(demo):
    """A model without residuals, warm-up or positions clearly fails."""
    rows = read_table(demo, "table5")
    rows = {row["compared"]: row for row in rows}
    for name in ("no-residual", "no-warmup", "no-positions"):
        row = rows[f"`{name}` − `base`"]
        assert float(row["value"]) < -20
        assert row["verdict"] == "replicated"
    masked = next(row for compared, row in rows.items() if "heads masked − none masked" in compared)
    assert 0 < float(masked["p"]) <= float(masked["p_holm"]) <= 1
    measured = ["5 checkpoints − the last", "beam 20", "3 × the longest", "4 heads masked − none masked, encoder"]
    assert all(any(name in compared for compared in rows) for name in measured)


def test_parsers_learn(demo):
    rows = read_table(demo, "table4")
    supervised, semi = [row for row in rows if row["by"] == "ours"]
    # A parser that has learned the grammar scores above this, like translators; otherwise it scores below 40.
    assert 95 <= float(supervised["f1"]) <= 100
    assert 80 <= float(semi["f1"]) <= 100
    assert "self-training" in semi["training"]


def test_a_person_parses(demo):
    run = ["parse", "--run", "results/demo/runs/supervised/parser/1"]
    expected = "(TOP (S (NP (DT The) (JJ small) (NN king)) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .)))\n"
    assert transformer(demo, *run, input="The small king sees a dog.\n").stdout == expected
    assert transformer(demo, *run, "--tokenized", input="The small king sees a dog .\n").stdout == expected


def test_tables_are_typeset(demo, tmp_path):
    """Each table fits on a page with all its notes, and the font has all characters."""
    tables = [(demo / f"results/demo/tables/{table}.tex").read_text(encoding="utf-8") for table in TABLES]
    assert "Missing character" not in typeset(tmp_path, "\n\\clearpage\n".join(tables))


def test_the_page_in_a_browser(demo):
    """The checks of test_browser.py run on a page with every table, figure and run."""
    page = demo / "results/demo/report.html"
    assert all(re.search(f'id="?{part}\\b', page.read_text("utf-8")) for part in (*TABLES, *FIGURES))
    with browsing.started() as browser:
        browsing.check_loading(browser, page.as_uri())
        browsing.show(browser, page.as_uri(), browsing.TELEPHONE)
        browsing.check_width(browser)
        for scheme in ("light", "dark"):
            browsing.show(browser, page.as_uri(), scheme=scheme)
            browsing.check_access(browser)
