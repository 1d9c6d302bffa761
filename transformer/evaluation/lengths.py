"""Measure how BLEU depends on the length of a sentence, also far beyond the sentences of the training (§3.5).

Payload: "positions", the model's encoding; "longest", the tokens of the longest source sentence in training; "skipped",
how many joined sentences were left out, as the model has too few positions for them; and "groups", a list with "times",
"sentences", "tokens" (mean of the source, EOS included), BLEU and its interval ("bleu", "low", "high", "draws") and
"length_ratio", the words of the translations over those of the references. "times" is null for single sentences, which
are in four groups by length; 1 where as many neighbours were joined as have no more tokens than the longest; another t
where they were joined until they had t times as many. A t of which no joined sentence is left has no group.
"""

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from transformer.commandline import positive
from transformer.files import InputError

if TYPE_CHECKING:
    from transformer.evaluation.measures import Subject

GROUPS = 4  # of single sentences, by length


class Sentence(NamedTuple):
    """A sentence pair, or several joined, and the number of source tokens."""

    source: str
    reference: str
    tokens: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this probe."""
    parser.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="the encoded training text: train.source.offsets"
    )
    parser.add_argument(
        "--times",
        required=True,
        nargs="+",
        type=positive,
        metavar="T",
        help="join sentences until they have T times the tokens of the longest in training; with 1, no more tokens",
    )


def make(subject: "Subject", args: argparse.Namespace) -> dict:
    """Return BLEU of each group. Raises InputError where there are fewer sentences than groups."""
    translator, longest = subject.translator, longest_source(args.data)
    lengths = subject.text.source.lengths.tolist()
    sentences = [Sentence(*row) for row in zip(subject.sources, subject.references, lengths, strict=True)]
    groups: list[tuple[int | None, list[Sentence]]] = [(None, group) for group in by_length(sentences)]
    skipped = 0
    for times in args.times:
        way = join_within if times == 1 else join
        joined = way(sentences, times * longest, lambda text: len(translator.encode([text])[0]))
        fitting = [sentence for sentence in joined if sentence.tokens <= translator.longest]
        skipped += len(joined) - len(fitting)
        groups += [(times, fitting)] if fitting else []
    return {
        "positions": subject.experiment.model.positions,
        "longest": longest,
        "skipped": skipped,
        "groups": scored(subject, groups),
    }


def longest_source(data: Path) -> int:
    """Return the tokens of the longest source sentence in training, EOS included. Raises InputError naming the file."""
    from transformer.data.corpus import read_offsets

    return int(np.diff(read_offsets(data / "train.source.offsets")).max())


def by_length(sentences: list[Sentence]) -> list[list[Sentence]]:
    """Return the sentences in GROUPS groups of equal number, the shortest first."""
    if len(sentences) < GROUPS:
        raise InputError(f"expected {GROUPS} sentences at least, one for each group, found {len(sentences)}")
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    return [[ordered[index] for index in part] for part in np.array_split(range(len(ordered)), GROUPS)]


def join(sentences: list[Sentence], least: int, count: Callable[[str], int]) -> list[Sentence]:
    """Return neighbours joined by spaces until each source has `least` tokens by `count`; a rest with less is dropped.

    The tokens of the whole are counted, as they may differ from the sum of the parts'.
    """
    joined, parts = [], []
    for sentence in sentences:
        parts.append(sentence)
        if (whole := merged(parts, count)).tokens >= least:
            joined.append(whole)
            parts = []
    return joined


def join_within(sentences: list[Sentence], most: int, count: Callable[[str], int]) -> list[Sentence]:
    """Return neighbours joined by spaces, as many as have `most` tokens together; what stays alone is dropped.

    They are as unlike the training's sentences as other joined ones are, but no longer.
    """
    joined: list[list[Sentence]] = []
    for sentence in sentences:
        if joined and merged([*joined[-1], sentence], count).tokens <= most:
            joined[-1].append(sentence)
        else:
            joined.append([sentence])
    return [merged(parts, count) for parts in joined if len(parts) > 1]


def merged(parts: list[Sentence], count: Callable[[str], int]) -> Sentence:
    """Return neighbours as one sentence."""
    source = " ".join(part.source for part in parts)
    return Sentence(source, " ".join(part.reference for part in parts), count(source))


def scored(subject: "Subject", groups: list[tuple[int | None, list[Sentence]]]) -> list[dict]:
    """Return the entry of each group; all sentences are translated together, as short ones fill up batches."""
    from transformer.evaluation.measures import score

    translations = iter(subject.translator.translate([sentence.source for _, group in groups for sentence in group]))
    entries = []
    for times, group in groups:
        hypotheses = list(islice(translations, len(group)))
        tokens = sum(sentence.tokens for sentence in group) / len(group)
        scores = score(hypotheses, [sentence.reference for sentence in group], subject.language)
        entries.append({"times": times, "sentences": len(group), "tokens": tokens} | scores)
    return entries
