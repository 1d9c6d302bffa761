"""Analyses of a toy run, and its scores from the subcommands, for the tests of analyses."""

import json
from pathlib import Path

from support.commands import do
from support.toy import write_text
from transformer.evaluation.analyses import ANALYSES
from transformer.evaluation.evaluated_run import EvaluatedRun, open_run
from transformer.storage.reading import structured

PAIRS = 41  # number of pairs in the dev set
STEPS = 250  # enough steps for translations that are only partly right


def opened(place: Path, sentences: int = PAIRS, data: Path | None = None) -> EvaluatedRun:
    """Open the run in the folder on pairs of its dev set. data: other training text."""
    return open_run(place / "run", place / "dev.en", place / "dev.de", sentences, data or place / "data")


def analyse(name: str, run: EvaluatedRun, **settings) -> dict:
    """Run an analysis and return its file."""
    analysis = ANALYSES[name]
    content = run.header | analysis.measure(run, analysis.Settings(sentences=PAIRS, **settings))
    return structured(json.loads(json.dumps(content)), analysis.Result, name)


def by_commands(run: Path, sides: tuple[list[str], list[str]], folder: Path, **decoding) -> dict:
    """Return the `Bleu` of the averaged weights from the subcommands translate and score."""
    source, target = (write_text(folder / f"by_commands.{side}", lines) for side, lines in enumerate(sides))
    hyp, scored = folder / "by_commands.hyp", folder / "by_commands.json"
    ways = ["--decoding", json.dumps(decoding), "--threads", "1"]
    do("translate", "--run", run, "--input", source, "--output", hyp, *ways)
    do("score", "--hyp", hyp, "--ref", target, "--lang", "de", "--run", run, "--json", scored)
    scores = json.loads(scored.read_text())
    paper = scores["scores"]["plain_quotes"]
    bleu = {"bleu": paper["score"], "low": paper["low"], "high": paper["high"], "draws": scores["draws"]}
    # The toy's words are tokens, because they have no punctuation.
    return bleu | {"length_ratio": len(hyp.read_text().split()) / len(target.read_text().split())}
