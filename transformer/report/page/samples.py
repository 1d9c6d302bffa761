"""Sentences to look at: those that a run did best, those that it did worst, and some drawn at random.

A translation is ranked by chrF, as BLEU of a single sentence is 0 more often than not; a parse by its labelled F1.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transformer.parsing.brackets import Sentence, compare, read_gold_and_test
from transformer.parsing.trees import Close, Open, Tree, bracketed, words
from transformer.text import read_pairs

SEED = 1  # of the random ones


class Sample(NamedTuple):
    """A sentence of a test set."""

    line: int  # from 1
    score: float  # 0 to 100
    source: str
    reference: str
    ours: str


class Samples(NamedTuple):
    """Sentences of one run: the "best", the "worst", and others drawn at "random"."""

    run: str
    measure: str  # what `Sample.score` is
    kinds: dict[str, list[Sample]]


def choose(scores: list[float], most: int) -> dict[str, list[int]]:
    """Return at most `most` places of each kind, none in two.

    Of equal scores the earlier comes first. A short list has no worst or others.
    """
    ranked = sorted(range(len(scores)), key=lambda place: -scores[place])
    best, rest = ranked[:most], ranked[most:]
    worst = sorted(rest, key=lambda place: scores[place])[:most]
    others = sorted(set(rest) - set(worst))
    chosen = random.Random(SEED).sample(others, min(most, len(others)))
    return {"best": best, "worst": worst, "random": sorted(chosen)}


def gather(run: str, measure: str, scores: list[float], most: int, sample: Callable[[int], Sample]) -> Samples:
    """Return the chosen sentences; `sample` makes the one at a place."""
    kinds = {kind: [sample(place) for place in places] for kind, places in choose(scores, most).items()}
    return Samples(run, measure, kinds)


def translations(run: str, hypotheses: str | Path, sources: str | Path, references: str | Path, most: int) -> Samples:
    """Return samples of plain text, a sentence a line. Raises InputError where the files are not of equal length."""
    from sacrebleu.metrics import CHRF  # here, as a page without translations needs none

    originals = [source for source, _ in read_pairs(sources, references)]
    pairs = list(read_pairs(hypotheses, references))
    metric = CHRF()
    scores = [metric.sentence_score(ours, [reference]).score for ours, reference in pairs]

    def sample(place: int) -> Sample:
        ours, reference = pairs[place]
        return Sample(place + 1, scores[place], originals[place], reference, ours)

    return gather(run, f"chrF of the sentence, `{metric.get_signature().format()}`", scores, most, sample)


def parses(run: str, trees: str | Path, gold: str | Path, most: int) -> Samples:
    """Return samples of a parser's trees and the treebank's, in brackets and indented.

    A sentence without a bracket that counts is left out. Errors as in `read_gold_and_test`.
    """
    pairs = list(read_gold_and_test(gold, trees))
    compared = [compare(right, ours, line, by_gold=True) for line, (right, ours) in enumerate(pairs, start=1)]
    ranked = [(score, sentence) for sentence in compared if (score := f1(sentence)) is not None]

    def sample(place: int) -> Sample:
        score, sentence = ranked[place]
        right, ours = pairs[sentence.number - 1]
        return Sample(sentence.number, score, " ".join(words(right)), indented(right), indented(ours))

    measure = "labelled F1 of the sentence; words left out by the treebank's tags"
    return gather(run, measure, [score for score, _ in ranked], most, sample)


def f1(sentence: Sentence) -> float | None:
    """Return F1 in per cent: 0 for a tree that is missing or over other words, None without a bracket to compare."""
    if sentence.status != "ok":
        return 0.0
    brackets = sentence.gold + sentence.test
    return 200 * sentence.matched / brackets if brackets else None


def indented(tree: Tree) -> str:
    """Write a constituent on each line, two spaces further in than the one around it; one of words alone is whole."""
    lines: list[str] = []
    depth = place = 0
    while place < len(tree):
        event, end = tree[place], place + 1
        if isinstance(event, Close):
            lines[-1] += ")"
            depth -= 1
        else:
            # Where the constituent has ended, if it holds words alone; else the next place.
            end = next((n for n in range(place + 1, len(tree)) if isinstance(tree[n], Open | Close)), place)
            flat = isinstance(event, Open) and isinstance(tree[end], Close)
            end = end + 1 if flat else place + 1
            lines.append("  " * depth + bracketed(tree[place:end]))
            depth += isinstance(event, Open) and end == place + 1
        place = end
    return "\n".join(lines)
