"""Cards of the runs behind a page's numbers: how each was trained, averaged, decoded and scored."""

from pathlib import Path
from typing import NamedTuple

from transformer.evaluation.records import Parsed, Run, Variant, read_scored, variants
from transformer.report.tables.cells import averaged_text, flops_text

BRACKETS = {"F1": "f1", "Recall": "recall", "Precision": "precision"}


class Scored(NamedTuple):
    """One score file of a run."""

    file: str
    averaged: str
    decoding: str
    measures: list[tuple[str, float, str]]  # name, score from 0 to 100, signature


class Card(NamedTuple):
    """A run: `facts` are texts by heading, `stale` what has changed since it was scored, by score file."""

    run: str
    facts: dict[str, str]
    scores: list[Scored]
    stale: dict[str, str]


def facts(run: Run) -> dict[str, str]:
    """Return run.json for readers."""
    starts = [
        f"{start['started']} at step {start['step']:,}, {start['processes']} × {start['hardware']}"
        for start in run["starts"]
    ]
    taken = {}
    if "taken" in run:
        taken = {"Taken from": f"{run['taken']['from']}, run.json's SHA-256 {run['taken']['sha256']}"}
    return {
        "Commit": run["commit"],
        "Data (SHA-256)": run["data_sha256"],
        "Settings (digest)": run["digest"],
        "Fidelity": run["fidelity"],
        "Steps": f"{run['steps']:,}",
        "Parameters": f"{run['parameters']:,}",
        "FLOPs": flops_text(run["flops"]),
        "Time": f"{run['seconds']:,.0f} s",
        "Hardware": run["hardware"],
        "Started": "; ".join(starts),
        "Finished": run["finished"],
    } | taken


def scored(path: str) -> Scored:
    """Return one score file, of a translation or of parses. Raises InputError naming the file."""
    score = read_scored(path)
    run = score["run"]
    untaken = "" if run.get("weights_sha256", "") is not None else ", weights not taken with the run"
    return Scored(
        Path(path).name,
        averaged_text(run["averaged_steps"]) + untaken,
        ", ".join(f"{key} {value}" for key, value in run["decoding"].items()),
        bracket_measures(score) if "by" in score else bleu_measures(score["scores"]),
    )


def bleu_measures(scores: dict[str, str | Variant]) -> list[tuple[str, float, str]]:
    """Return every variant, with a star on the paper's."""
    return [
        (name + (" *" if name == scores["paper"] else ""), variant["score"], variant["signature"])
        for name, variant in variants(scores).items()
    ]


def bracket_measures(score: Parsed) -> list[tuple[str, float, str]]:
    """Return F1 and its parts; their signature says by whose tags words are left out."""
    scores = score["scores"]["all"]
    signature = f"COLLINS.prm, by {score['by']}"
    return [(name, scores[key], signature) for name, key in BRACKETS.items() if scores[key] is not None]
