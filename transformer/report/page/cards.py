"""Run cards: how each run behind the numbers was trained, averaged, decoded and scored."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from transformer.records import Parsed, RunRecord, Trained, Variant, read_json, read_scored, run_name, typed, variants
from transformer.report.tables.cells import averaged_text, flops_text

BRACKETS = {"F1": "f1", "Recall": "recall", "Precision": "precision"}


class ScoreFile(NamedTuple):
    """One score file of a run."""

    file: str
    averaged: str
    decoding: str
    measures: list[tuple[str, float, str]]  # name, score from 0 to 100, signature


class RunCard(NamedTuple):
    """A run: `facts` are texts by heading."""

    run: str
    facts: dict[str, str]
    scores: list[ScoreFile]


def read_run_records(paths: Iterable[str | Path]) -> dict[str, Trained]:
    """Read run.json files, by the name of the run."""
    return {run_name(run): run for run in (read_json(path, Trained) for path in paths)}


def run_cards(runs: dict[str, Trained], scores: Iterable[str | Path]) -> list[RunCard]:
    """Make a card for each run, with its score files.

    A score whose run.json is gone has its own record of the run. Raises InputError for a file that is no score of a
    run.
    """
    cards = {name: RunCard(name, run_facts(run), []) for name, run in runs.items()}
    for path in scores:
        score = read_scored(path)
        run = typed(score["run"], RunRecord, f"{path}, run")
        card = cards.setdefault(run_name(run), RunCard(run_name(run), run_facts(run), []))
        card.scores.append(
            ScoreFile(
                Path(path).name,
                averaged_text(run["averaged_steps"]) + untaken_text(run),
                ", ".join(f"{key} {value}" for key, value in run["decoding"].items()),
                bracket_measures(score) if "by" in score else bleu_measures(score["scores"]),
            )
        )
    return list(cards.values())


def run_facts(run: Trained) -> dict[str, str]:
    """Format run.json for readers."""
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


def untaken_text(run: RunRecord) -> str:
    return "" if run.get("weights_sha256", "") is not None else ", weights not taken with the run"


def bleu_measures(scores: dict[str, str | Variant]) -> list[tuple[str, float, str]]:
    """List every variant, with a star on the paper's."""
    return [
        (name + (" *" if name == scores["paper"] else ""), variant["score"], variant["signature"])
        for name, variant in variants(scores).items()
    ]


def bracket_measures(score: Parsed) -> list[tuple[str, float, str]]:
    """List F1 and its parts; the signature says by whose tags words are left out."""
    scores = score["scores"]["all"]
    signature = f"COLLINS.prm, by {score['by']}"
    return [(name, scores[key], signature) for name, key in BRACKETS.items() if scores[key] is not None]


def card_text(card: RunCard) -> str:
    """Format a card for a terminal."""
    lines = [card.run, *(f"  {heading:18}{text}" for heading, text in card.facts.items())]
    for score in card.scores:
        lines.append(f"  {score.file}: {score.averaged}; {score.decoding}")
        lines += [f"    {name:16}{value:6.2f}  {signature}" for name, value, signature in score.measures]
    return "\n".join(lines)
