"""Cards of the runs behind a page's numbers: how each was trained, averaged, decoded and scored."""

from pathlib import Path
from typing import NamedTuple

from transformer.common.files import read_json
from transformer.scoring.scorefiles import item
from transformer.tables.cells import averaged_text, flops_text

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


def facts(run: dict, where: str) -> dict[str, str]:
    """Return run.json for readers. Raises InputError, which begins with `where`, where it lacks something."""

    def entry(key: str):
        return item(run, key, where)

    starts = [
        f"{start['started']} at step {start['step']:,}, {start['processes']} × {start['hardware']}"
        for start in entry("starts")
    ]
    taken = {}
    if "taken" in run:
        taken = {"Taken from": f"{run['taken']['from']}, run.json's SHA-256 {run['taken']['sha256']}"}
    return {
        "Commit": entry("commit"),
        "Data (SHA-256)": entry("data_sha256"),
        "Settings (digest)": entry("digest"),
        "Fidelity": entry("fidelity"),
        "Steps": f"{entry('steps'):,}",
        "Parameters": f"{entry('parameters'):,}",
        "FLOPs": flops_text(entry("flops")),
        "Time": f"{entry('seconds'):,.0f} s",
        "Hardware": entry("hardware"),
        "Started": "; ".join(starts),
        "Finished": entry("finished"),
    } | taken


def scored(path: str) -> Scored:
    """Return one score file, of a translation or of parses. Raises InputError naming the file."""
    score = read_json(path)
    run, scores = item(score, "run", path), item(score, "scores", path)
    decoding = item(run, "decoding", f"{path}, run")
    untaken = "" if run.get("weights_sha256", "") is not None else ", weights not taken with the run"
    return Scored(
        Path(path).name,
        averaged_text(item(run, "averaged_steps", f"{path}, run")) + untaken,
        ", ".join(f"{key} {value}" for key, value in decoding.items()),
        bracket_measures(score) if "by" in score else bleu_measures(scores, path),
    )


def bleu_measures(scores: dict, where: str) -> list[tuple[str, float, str]]:
    """Return every variant, with a star on the one that the paper reports."""
    paper = item(scores, "paper", f"{where}, scores")
    variants = {name: variant for name, variant in scores.items() if name != "paper"}
    return [
        (
            name + (" *" if name == paper else ""),
            item(variant, "score", f"{where}, {name}"),
            item(variant, "signature", f"{where}, {name}"),
        )
        for name, variant in variants.items()
    ]


def bracket_measures(score: dict) -> list[tuple[str, float, str]]:
    """Return F1 and its parts; their signature says by whose tags words are left out."""
    scores = score["scores"]["all"]
    signature = f"COLLINS.prm, by {score['by']}"
    return [(name, scores[key], signature) for name, key in BRACKETS.items() if scores[key] is not None]
