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
    files = {"hyp": folder / "by_commands.hyp", "json": folder / "by_commands.json"}
    ways = ["--decoding", json.dumps(decoding), "--threads", "1"]
    do("translate", "--run", run, "--input", source, "--output", files["hyp"], *ways)
    do("score", "--hyp", files["hyp"], "--ref", target, "--lang", "de", "--run", run, "--json", files["json"])
    scores = json.loads(files["json"].read_text())
    paper = scores["scores"]["plain_quotes"]
    words = [sum(len(line.split()) for line in path.read_text().splitlines()) for path in (files["hyp"], target)]
    return {
        "bleu": paper["score"],
        "low": paper["low"],
        "high": paper["high"],
        "draws": scores["draws"],
        "length_ratio": words[0] / words[1],  # the toy's words are tokens, as they have no punctuation
    }
