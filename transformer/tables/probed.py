"""Measurements of trained runs (transformer/probes), as points for comparisons and as grids for Table 5."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from transformer.common.files import read_json
from transformer.scoring.scorefiles import item, read_run, require_one, run_name
from transformer.tables.cells import Cell, Row, mean_text, ours
from transformer.tables.render import Grid

KINDS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "decoder to encoder",
}  # of attention, as readers know them
SLIGHT = 0.01  # nats per token: a head whose masking adds less to the loss changes perplexity by less than 1 %
SCORED = ["bleu", "draws"]  # of a point


def read_probes(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return the content of each file, with `name`, `experiment` and `seed` of its run and its `file`.

    Raises InputError naming the file and what it lacks, and on runs of several scales.
    """
    contents = []
    for path in paths:
        content = read_json(path)
        run = read_run(content, path)
        named = {"name": run_name(run), "experiment": run["experiment"], "seed": run["seed"], "scale": run["scale"]}
        contents.append(content | named | {"file": path})
    if contents:
        require_one("scale", pd.DataFrame(contents, columns=["scale", "file"]))
    return contents


def points(contents: list[dict[str, Any]], key: str, columns: list[str]) -> pd.DataFrame:
    """Return a row per entry of the list `key` of each file: its run, these columns and those of a score."""
    rows = []
    for content in contents:
        for entry in item(content, key, content["file"]):
            values = {name: item(entry, name, f"{content['file']}, {key}") for name in [*columns, *SCORED]}
            rows.append({name: content[name] for name in ("name", "experiment", "seed")} | values)
    return pd.DataFrame(rows, columns=["name", "experiment", "seed", *columns, *SCORED])


def mean_cell(rows: pd.DataFrame, column: str, decimals: int) -> Cell:
    """Return the mean over seeds, with its standard deviation."""
    return ours(mean_text(rows[column].mean(), rows[column].std(), decimals), rows)


def averaging_grid(averages: pd.DataFrame) -> Grid:
    """Return BLEU and perplexity by how many checkpoints are averaged."""
    rows = [
        {
            "Checkpoints": str(count),
            "BLEU": mean_cell(same, "bleu", 2),
            "Perplexity": mean_cell(same, "perplexity", 3),
        }
        for count, same in averages.groupby("checkpoints")
    ]
    return Grid((), rows)


def smoothing_grid(contents: list[dict[str, Any]], beams: pd.DataFrame) -> Grid:
    """Return by smoothing: perplexity, how far probabilities are from the truth, and BLEU by beam."""
    rows = []
    for experiment, same in beams.groupby("experiment", sort=False):
        files = pd.DataFrame([content for content in contents if content["experiment"] == experiment])
        files["error"] = [100 * item(entry, "error", "calibration") for entry in files["calibration"]]
        files["over"] = [100 * (entry["confidence"] - entry["accuracy"]) for entry in files["calibration"]]
        row: Row = {"ε": f"{files['epsilon_ls'].iloc[0]:g}", "Perplexity": mean_cell(files, "perplexity", 2)}
        row |= {
            "Calibration error, %": mean_cell(files, "error", 1),
            "Confidence − accuracy, %": mean_cell(files, "over", 1),
        }
        for beam, at_beam in same.groupby("beam"):
            row[f"BLEU, beam {beam}"] = mean_cell(at_beam, "bleu", 2)
            row[f"Length, beam {beam}"] = mean_cell(at_beam, "length_ratio", 3)
        rows.append(row)
    return Grid((), sorted(rows, key=lambda row: float(row["ε"])))


def lengths_grid(groups: pd.DataFrame) -> Grid:
    """Return BLEU by the length of sentences, a column for each kind of positions."""
    rows: list[Row] = []
    groups = groups.assign(times=groups["times"].fillna(0), tokens=groups["tokens"].round(1))
    for (times, tokens), same in groups.groupby(["times", "tokens"]):
        joined = f"joined, {times:g} × the longest in training" if times else "as they are"
        row: Row = {"Sentences": joined, "Number": str(same["sentences"].iloc[0]), "Mean tokens": f"{tokens:.1f}"}
        for positions, of_kind in same.groupby("positions", sort=False):
            row[f"BLEU, {positions}"] = mean_cell(of_kind, "bleu", 1)
            row[f"Length, {positions}"] = mean_cell(of_kind, "length_ratio", 2)
        rows.append(row)
    return Grid(("Sentences",), rows)


def heads_grid(contents: list[dict[str, Any]], masked: pd.DataFrame) -> Grid:
    """Return by kind of attention how much single heads matter, and BLEU with a part of them masked."""
    rows: list[Row] = []
    for kind, words in KINDS.items():
        single = [number for content in contents for layer in content["kinds"][kind]["increase"] for number in layer]
        files = pd.DataFrame(contents)
        slight = sum(number < SLIGHT for number in single)
        row: Row = {
            "Attention": words,
            "Heads": str(len(single) // len(contents)),
            f"Loss rises by less than {SLIGHT}": ours(f"{100 * slight / len(single):.0f} %", files),
            "By most": ours(f"{max(single):.3f}", files),
        }
        of_kind = masked[masked["kind"].isin([kind]) | (masked["masked"] == 0)]
        for count, same in of_kind.groupby("masked"):
            row[f"BLEU, {count} masked"] = mean_cell(same, "bleu", 1)
        distances = [
            pd.Series(content["kinds"][kind]["distance"]).map(lambda layer: sum(layer) / len(layer))
            for content in contents
        ]
        means = pd.concat(distances, axis=1).mean(axis=1)
        row["Distance by layer, tokens"] = ours(", ".join(f"{mean:.1f}" for mean in means), files)
        rows.append(row)
    return Grid(("Attention",), rows)
