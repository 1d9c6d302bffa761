"""A run of a few steps with its data, and other files that stages read, for the tests of damaged ones."""

import json
import os
from pathlib import Path

import pandas as pd

from support.page import attention
from support.scored import score
from support.toy import make_data, make_experiment, make_run, random_lines
from transformer import cli
from transformer.evaluation.analyses import PAYLOADS
from transformer.evaluation.layers import COSTS, LAYERS
from transformer.report.tables.render import Cell, Grid, Table, write_table

RUN, DATA = "runs/en-de/base/1", "data/en-de"
TIME = {"n": 8, "d": 4, "k": 3, "r": 3, "multiply_adds": 9, "seconds": 0.1, "quartiles": 0.01}
SCORE = {"bleu": 30.0, "low": 29.0, "high": 31.0, "draws": [29.0, 31.0], "length_ratio": 1.0}
KIND = {"increase": [[0.1]], "distance": [[2.0]], "equal": 3.0}
KIND |= {"curve": [{"masked": 1, "layer": 1, "head": 1, "loss": 0.7}]}
PAYLOAD = {
    "averaging": {"averages": [SCORE | {"checkpoints": 1, "perplexity": 2.0}]},
    "heads": {
        "layers": 1,
        "heads": 1,
        "loss": 0.5,
        "kinds": dict.fromkeys(("encoder", "decoder", "cross"), KIND),
        "bleu": [SCORE | {"kind": None, "masked": 0}],
    },
    "lengths": {
        "positions": "sinusoid",
        "longest": 9,
        "skipped": 0,
        "groups": [SCORE | {"times": None, "sentences": 5, "tokens": 4.5}],
    },
    "smoothing": {
        "epsilon_ls": 0.1,
        "perplexity": 2.0,
        "perplexity_draws": [2.0],
        "beams": [SCORE | {"beam": 4}],
        "calibration": {"error": 0.1, "confidence": 0.5, "accuracy": 0.6},
    },
}


def train_run(folder: Path) -> None:
    """Make a run in a folder by the stages, from its data to the score of its translations."""
    make_data(folder / DATA, random_lines(1, 30), random_lines(2, 8))
    make_run(folder / RUN, make_experiment(steps=6))
    (folder / "test.en").write_text("ab cd\nef gh ij\n")
    before = Path.cwd()
    os.chdir(folder)
    try:
        cli.main(["train", RUN, "--data", DATA, "--threads", "1"])
        cli.main(["average", "--run", RUN])
        cli.main(["translate", "--run", RUN, "--input", "test.en", "--output", f"{RUN}/test.hyp", "--threads", "1"])
        texts = ["--hyp", f"{RUN}/test.hyp", "--ref", "test.en", "--lang", "de"]
        cli.main(["score", *texts, "--run", RUN, "--json", f"{RUN}/test.json"])
    finally:
        os.chdir(before)


def write_others(folder: Path) -> None:
    """Write, as stages would, what the run does not have."""
    start = {"threads": 1, "hardware": "CPU", "versions": {"torch": "2"}, "commit": "c", "date": "d"}
    times = [{"layer": layer, "grid": grid} | TIME for layer in COSTS for grid in "nd"]
    connections = [{"layer": layer, "n": 8, "path": 1, "sequential": 2} for layer in LAYERS]
    contents = {"layers": start | {"times": times, "connections": connections}, "attention": attention()}
    contents["parses"] = {"sentences": 2, "repaired": {"2": "no tree"}, "scores": [-0.5, -0.7]}
    common = {"run": score(30.0)["run"], "language": "de", "sentences": 9, "target_sha256": "ab"}
    contents |= {probe: common | PAYLOAD[probe] for probe in PAYLOADS}
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    grid = Grid(("Model",), [{"Model": "base", "BLEU": Cell("27.3", ("en-de/base/1",))}])
    write_table(
        Table("table1", "T", "C", grid, ["a note", ["a list"], grid]), str(folder / "table1"), pd.DataFrame({"a": [1]})
    )
