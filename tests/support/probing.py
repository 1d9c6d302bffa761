"""Probes of a toy run, and its scores by the stages that the pipeline runs, for the tests of probes."""

import json
from pathlib import Path

from support.commands import do
from support.toy import write_text
from transformer.commands import probe, score

PAIRS = 41  # in the dev set
STEPS = 250  # so many that the run translates, but not all of it right


def options(place: Path, name: str, *more) -> list[str]:
    """Return the command line of a probe on all pairs of the place."""
    files = ["--run", place / "run", "--source", place / "dev.en", "--target", place / "dev.de"]
    ways = ["--sentences", PAIRS, "--threads", 1, "--output", place / f"{name}.json"]
    return [name, *map(str, [*files, *ways, *more])]


def measured(place: Path, name: str, *more) -> dict:
    """Return what a probe wrote."""
    probe.main(options(place, name, *more))
    return json.loads((place / f"{name}.json").read_text())


def by_stages(run: Path, sides: tuple[list[str], list[str]], folder: Path, **decoding) -> dict:
    """Return BLEU, its interval and its draws of the run's average, as the stages translate and score write them."""
    source, target = (write_text(folder / f"by_stages.{side}", lines) for side, lines in enumerate(sides))
    files = {"hyp": folder / "by_stages.hyp", "json": folder / "by_stages.json"}
    ways = ["--decoding", json.dumps(decoding), "--threads", "1"]
    do("translate", "--run", run, "--input", source, "--output", files["hyp"], *ways)
    texts = ["--hyp", str(files["hyp"]), "--ref", str(target), "--lang", "de"]
    score.main([*texts, "--run", str(run), "--json", str(files["json"])])
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
