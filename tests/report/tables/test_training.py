"""The paper's statements on its trainings and ours, compared with numbers computed by hand."""

import json
from pathlib import Path

import pandas as pd
import pytest
from support.scored import detail, make_table, notes_of, score, shown

from transformer.report.tables.cells import read_printed
from transformer.report.tables.table2 import training
from transformer.storage.records import sum_of

PAPER = Path(__file__).parents[3] / "workflow/paper"
GPUS = [{"step": 0, "started": "2026-01-01T00:00:00+00:00", "hardware": "NVIDIA H200", "processes": 4}]
CORES = [GPUS[0] | {"hardware": "x86_64, 2 of 4 cores", "processes": 1}]
DATA = {"files": {}, "splits": {"train": {"kept": 1000, "target_tokens": 30_000}}, "sha256": sum_of({})}


def make(tmp_path, *runs: dict, expected: list[str]):
    """Return our rows by model, and the table."""
    paths = [tmp_path / f"run{number}.json" for number in range(len(runs))]
    for path, run in zip(paths, runs, strict=True):
        path.write_text(json.dumps(run))
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    options = {"paper": PAPER / "training.csv", "run": paths, "data": [tmp_path / "data.json"]}
    frame, _, table = make_table(
        training, "experiment", **options, expected=expected, subwords={"en-de": 600, "en-fr": 700}
    )
    return frame[frame["by"] == "ours"].set_index("experiment"), table


def run(**changes) -> dict:
    return score(30.0, **changes)["run"]


def test_ours_are_means_over_seeds_and_cores_are_no_gpus(tmp_path):
    """6,000 steps of 25 target tokens are five epochs of 30,000. 1 and 3 hours on 4 GPUs are 8 GPU-hours."""
    tokens = {"source_tokens": 120_000, "target_tokens": 150_000, "starts": GPUS}
    runs = [run(seed=seed, seconds=3600 * hours, **tokens) for seed, hours in ((1, 1), (2, 3))]
    rows, table = make(
        tmp_path, *runs, run(experiment="big", starts=CORES), expected=["en-de/base/1", "en-de/base/2", "en-de/big/1"]
    )
    values = {"pairs": 1000, "subwords": 600, "source_tokens": 20, "target_tokens": 25, "epochs": 5, "GPU_hours": 8}
    values |= {"parameters": 1_900_544}
    assert {name: rows.loc["base", name] for name in values} == pytest.approx(values)
    assert tuple(rows.loc["base", ["machine", "step_seconds"]]) == ("4 × NVIDIA H200", "1.2")
    assert shown(table.grid)[-1]["Target tokens a batch"] == "–"  # older records lack this number
    assert (detail(table)[-1]["GPU-hours"], detail(table)[-1]["Core-hours"]) == ("–", "3.0")
    assert [row["From"] for row in shown(table.grid)] == ["paper", "ours"] * 2


def test_a_step_has_the_seconds_of_each_machine(tmp_path):
    """6,000 steps take 600 and 1,800 seconds on one machine, and 9,000 on the other."""
    seconds = zip((600, 9000, 1800), (GPUS, CORES, GPUS), strict=True)
    runs = [run(seed=seed, seconds=taken, starts=starts) for seed, (taken, starts) in enumerate(seconds, start=1)]
    rows, table = make(tmp_path, *runs, expected=[f"en-de/base/{seed}" for seed in (1, 2, 3)])
    assert rows.loc["base", "machine"] == "4 × NVIDIA H200 / 1 × x86_64, 2 of 4 cores"
    assert (rows.loc["base", "step_seconds"], detail(table)[-1]["Seconds a step"]) == ("0.2 / 1.5", "0.20 / 1.50")


def test_runs_that_are_not_there_are_named_and_tasks_of_ones_own_have_no_row_of_the_papers(tmp_path):
    rows, table = make(tmp_path, expected=["en-fr/big/1", "en-xx/base/1"])
    assert rows.empty
    assert [(row["Task"], row["From"]) for row in shown(table.grid)] == [("en-fr", "paper")]
    assert "have not been made: en-fr/big/1, en-xx/base/1." in notes_of(table)


def test_the_papers_numbers_agree_with_its_other_tables():
    """Steps are Table 2's, and parameters Table 3's in millions. 12 hours and 3.5 days are on 8 GPUs."""
    stated = pd.read_csv(PAPER / "training.csv").set_index(["task", "experiment"])
    steps = read_printed(PAPER / "table2.csv").set_index("model")
    millions = read_printed(PAPER / "table3.csv").set_index("experiment")["parameters"]
    for experiment, hours in {"base": 12, "big": 84}.items():
        row = stated.loc[("en-de", experiment)]
        assert f"{row['steps'] / 1000:.0f}K" == steps.loc[f"Transformer ({experiment})", "en-de_steps"]
        assert f"{row['parameters'] / 1e6:.0f}" == millions[experiment]
        assert (row["GPU_hours"], row["machine"]) == (hours * 8, "8 × P100")
    assert pd.isna(stated.loc[("supervised", "parser"), "steps"])
