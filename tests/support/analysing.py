"""Analyses of a toy run, and its scores by the subcommands, for the tests of analyses."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from support.commands import do
from support.toy import write_text

PAIRS = 41  # in the dev set
STEPS = 250  # so many that the run translates, but not all of it right


def analyse(analysis: Callable, place: Path, **params) -> dict:
    """Run an analysis on the pairs of the place, and return its record as it is written."""
    input = SimpleNamespace(source=place / "dev.en", target=place / "dev.de")
    content = analysis(input, SimpleNamespace(**{"run": place / "run", "sentences": PAIRS} | params))
    return json.loads(json.dumps(content))


def by_commands(run: Path, sides: tuple[list[str], list[str]], folder: Path, **decoding) -> dict:
    """Return the `Bleu` of the average, as the subcommands translate and score give it."""
    source, target = (write_text(folder / f"by_commands.{side}", lines) for side, lines in enumerate(sides))
    hyp, scored = folder / "by_commands.hyp", folder / "by_commands.json"
    ways = ["--decoding", json.dumps(decoding), "--threads", "1"]
    do("translate", "--run", run, "--input", source, "--output", hyp, *ways)
    do("score", "--hyp", hyp, "--ref", target, "--lang", "de", "--run", run, "--json", scored)
    scores = json.loads(scored.read_text())
    paper = scores["scores"]["plain_quotes"]
    bleu = {"bleu": paper["score"], "low": paper["low"], "high": paper["high"], "draws": scores["draws"]}
    # The toy's words are tokens, as they have no punctuation.
    return bleu | {"length_ratio": len(hyp.read_text().split()) / len(target.read_text().split())}
