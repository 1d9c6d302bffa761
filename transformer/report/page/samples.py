"""Sentences to look at: those that a run did best, those that it did worst, and some drawn at random.

A translation is ranked by chrF, as BLEU of a single sentence is 0 more often than not; a parse by its labelled F1.
"""

import random
from typing import NamedTuple

from transformer.parsing.brackets import SentenceCounts, compare, read_gold_and_test
from transformer.parsing.trees import Close, Open, Tree, bracketed, words
from transformer.text import read_pairs

SAMPLING_SEED = 1  # of the random ones


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
    metric: str  # of `Sample.score`
    kinds: dict[str, list[Sample]]


def choose(sentences: list[Sample], most: int) -> dict[str, list[Sample]]:
    """Choose at most `most` sentences of each kind, none for two.

    Of equal scores the earlier comes first. A short list has no worst or others.
    """
    ranked = sorted(range(len(sentences)), key=lambda place: -sentences[place].score)
    best, rest = ranked[:most], ranked[most:]
    worst = sorted(rest, key=lambda place: sentences[place].score)[:most]
    others = sorted(set(rest) - set(worst))
    drawn = random.Random(SAMPLING_SEED).sample(others, min(most, len(others)))
    places = {"best": best, "worst": worst, "random": sorted(drawn)}
    return {kind: [sentences[place] for place in chosen] for kind, chosen in places.items()}


def sample_translations(run: str, hypotheses: str, sources: str, references: str, most: int) -> Samples:
    """Choose from plain text, a sentence a line. Raises InputError for files of unequal length."""
    from sacrebleu.metrics import CHRF  # here, as a page without translations needs none

    metric = CHRF()
    sentences = [
        Sample(line, metric.sentence_score(ours, [reference]).score, source, reference, ours)
        for line, ((source, _), (ours, reference)) in enumerate(
            zip(list(read_pairs(sources, references)), list(read_pairs(hypotheses, references)), strict=True), start=1
        )
    ]
    return Samples(run, f"chrF of the sentence, `{metric.get_signature().format()}`", choose(sentences, most))


def sample_parses(run: str, trees: str, gold: str, most: int) -> Samples:
    """Choose from a parser's trees and the treebank's, in brackets and indented.

    A sentence without a bracket that counts is left out. Errors as in `read_gold_and_test`.
    """
    sentences = [
        Sample(line, score, " ".join(words(right)), indented(right), indented(ours))
        for line, (right, ours) in enumerate(read_gold_and_test(gold, trees), start=1)
        if (score := sentence_f1(compare(right, ours, line, by_gold=True))) is not None
    ]
    metric = "labelled F1 of the sentence; words left out by the treebank's tags"
    return Samples(run, metric, choose(sentences, most))


def sentence_f1(sentence: SentenceCounts) -> float | None:
    """Compute F1 in per cent: 0 for a tree that is missing or over other words, None without a bracket to compare."""
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
            # The end of the constituent, if it holds words alone; else the next place.
            end = next((n for n in range(place + 1, len(tree)) if isinstance(tree[n], Open | Close)), place)
            flat = isinstance(event, Open) and isinstance(tree[end], Close)
            end = end + 1 if flat else place + 1
            lines.append("  " * depth + bracketed(tree[place:end]))
            depth += isinstance(event, Open) and end == place + 1
        place = end
    return "\n".join(lines)
