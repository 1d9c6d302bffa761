"""Grids of what probes measured, for the notes of Table 5."""

from typing import Any

import pandas as pd

from transformer.report.tables.cells import Cell, Row, mean_text, ours
from transformer.report.tables.probed import KINDS
from transformer.report.tables.render import Grid, Note

SLIGHT = 0.01  # nats per token: a head whose masking adds less to the loss changes perplexity by about 1 % at most

AVERAGING = "Averaging (§6.1): how many of the last checkpoints; a run keeps no more than it averages."
SMOOTHING = (
    "Label smoothing (§5.4). Calibration error: the mean distance between how sure the model is of its most probable "
    "token and how often that is right, in ten classes (Guo et al. 2017), after the reference's own prefixes. Words: "
    "those written for each word of the reference."
)
LENGTHS = (
    "Length (§3.5): sentences as they are, in four groups by length; then neighbours, joined. Joined sentences are "
    "unlike those in training in more than length: those that are no longer than the longest in training show what "
    "that costs. Words: those written for each word of the reference."
)
HEADS = (
    "Heads of base masked (§3.2.2): each alone, by how much the loss per token rises, in nats; then ever more of a "
    "kind, always the one that raises the loss least. Distance: how many tokens lie on average between a query and "
    "what it looks at; “if alike”, for a head that looks at all alike."
)


def measurements(measured: dict[str, list[dict[str, Any]]], frames: dict[str, pd.DataFrame]) -> list[Note]:
    """Return a grid for each probe that was made, with what it is, and of how many sentences."""
    grids = {
        "averaging": (AVERAGING, lambda: averaging(frames["averaging"])),
        "smoothing": (SMOOTHING, lambda: smoothing(measured["smoothing"], frames["beams"])),
        "lengths": (LENGTHS, lambda: lengths(frames["lengths"])),
        "heads": (HEADS, lambda: heads(measured["heads"], frames["heads"])),
    }
    notes: list[Note] = []
    for probe, (words, grid) in grids.items():
        if measured[probe]:
            notes += [f"{words} Measured on {measured[probe][0]['sentences']:,} sentences of the dev set.", grid()]
    return notes


def mean_cell(rows: pd.DataFrame, column: str, decimals: int) -> Cell:
    """Return the mean over seeds, with its standard deviation."""
    return ours(mean_text(rows[column].mean(), rows[column].std(), decimals), rows)


def averaging(averages: pd.DataFrame) -> Grid:
    """Return BLEU and perplexity by how many checkpoints are averaged."""
    rows = [
        {
            "Experiment": experiment,
            "Checkpoints": str(count),
            "BLEU": mean_cell(same, "bleu", 2),
            "Perplexity": mean_cell(same, "perplexity", 3),
        }
        for (experiment, count), same in averages.groupby(["experiment", "checkpoints"])
    ]
    return Grid(("Experiment",), rows)


def smoothing(contents: list[dict[str, Any]], beams: pd.DataFrame) -> Grid:
    """Return by smoothing: perplexity, how far probabilities are from the truth, and BLEU by beam."""
    runs = pd.DataFrame([content | calibrated(content) for content in contents])
    rows = []
    for epsilon, same in runs.groupby("epsilon_ls"):
        row: Row = {"ε": f"{epsilon:g}", "Perplexity": mean_cell(same, "perplexity", 2)}
        row |= {"Calibration error, %": mean_cell(same, "error", 1), "Sure − right, %": mean_cell(same, "over", 1)}
        for beam, at_beam in beams[beams["name"].isin(same["name"])].groupby("beam"):
            row[f"BLEU, beam {beam}"] = mean_cell(at_beam, "bleu", 2)
            row[f"Words, beam {beam}"] = mean_cell(at_beam, "length_ratio", 3)
        rows.append(row)
    return Grid((), rows)


def calibrated(content: dict[str, Any]) -> dict[str, float]:
    """Return the calibration error, and by how much confidence is above accuracy, in per cent."""
    values = {name: 100 * content["calibration"][name] for name in ("error", "confidence", "accuracy")}
    return {"error": values["error"], "over": values["confidence"] - values["accuracy"]}


def lengths(groups: pd.DataFrame) -> Grid:
    """Return BLEU by the length of sentences, columns for each kind of positions."""
    rows: list[Row] = []
    for _, same in groups.groupby("place"):
        first = same.iloc[0]
        row: Row = {"Sentences": joined_text(first["times"]), "Number": f"{first['sentences']}"}
        row["Mean tokens"] = f"{first['tokens']:.1f}"
        for positions, of_kind in same.groupby("positions", sort=False):
            row[f"BLEU, {positions}"] = mean_cell(of_kind, "bleu", 1)
            row[f"Words, {positions}"] = mean_cell(of_kind, "length_ratio", 2)
        rows.append(row)
    return Grid(("Sentences",), rows)


def joined_text(times: float) -> str:
    """Return what a group's sentences are."""
    if pd.isna(times):
        return "as they are"
    return "joined, no longer than in training" if times == 1 else f"joined, {times:g} × the longest in training"


def heads(contents: list[dict[str, Any]], masked: pd.DataFrame) -> Grid:
    """Return by kind of attention how much single heads matter, how far they look, and BLEU with a part masked."""
    files, rows = pd.DataFrame(contents), []
    for kind, words in KINDS.items():
        measures = [content["kinds"][kind] for content in contents]
        increases = [increase for measure in measures for layer in measure["increase"] for increase in layer]
        share = sum(increase < SLIGHT for increase in increases) / len(increases)
        layers = pd.DataFrame(
            [[sum(layer) / len(layer) for layer in measure["distance"]] for measure in measures]
        ).mean()
        alike = sum(measure["equal"] for measure in measures) / len(measures)
        row: Row = {
            "Attention": words,
            "Heads": str(len(increases) // len(measures)),
            f"Loss + < {SLIGHT}": ours(f"{100 * share:.0f} %", files),
            "Loss +, at most": ours(f"{max(increases):.3f}", files),
        }
        for count, same in masked[masked["kind"].isin([kind]) | (masked["masked"] == 0)].groupby("masked"):
            row[f"BLEU, {count} masked"] = mean_cell(same, "bleu", 1)
        row["Distance, by layer"] = ours(", ".join(f"{mean:.1f}" for mean in layers), files)
        rows.append(row | {"If alike": ours(f"{alike:.1f}", files)})
    return Grid(("Attention",), rows)
