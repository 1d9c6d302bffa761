"""How BLEU depends on the length of a sentence, also far beyond the sentences of the training (§3.5)."""

from collections.abc import Callable
from itertools import islice
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from transformer.data.corpus import TokenArray
from transformer.evaluation.analyses import GroupedByLength
from transformer.evaluation.subject import bleu_of, open_subject
from transformer.files import InputError
from transformer.layout import Data

GROUPS = 4  # of single sentences, by length


class LongSentence(NamedTuple):
    """A sentence pair, or several joined, and the number of source tokens."""

    source: str
    reference: str
    tokens: int


def lengths(input: SimpleNamespace, params: SimpleNamespace) -> GroupedByLength:
    """Measure BLEU of single sentences in groups by length, and of neighbours joined to long ones.

    params: `data`, the folder with the encoded training text; `times`, the multiples of its longest source sentence.
    Raises InputError if there are fewer sentences than groups.
    """
    subject = open_subject(input, params)
    translator = subject.translator
    longest = int(TokenArray.open(*Data(params.data).arrays("train")[:2]).lengths.max())
    rows = zip(subject.sources, subject.references, subject.text.source.lengths.tolist(), strict=True)
    sentences = [LongSentence(*row) for row in rows]
    groups: list[tuple[int | None, list[LongSentence]]] = [(None, group) for group in groups_by_length(sentences)]
    skipped = 0
    for times in params.times:
        way = join_within if times == 1 else join_until
        joined = way(sentences, times * longest, lambda text: len(translator.encode([text])[0]))
        fitting = [sentence for sentence in joined if sentence.tokens <= translator.longest]
        skipped += len(joined) - len(fitting)
        groups += [(times, fitting)] if fitting else []
    # All are translated together, as short sentences fill up batches.
    translations = iter(translator.translate([sentence.source for _, group in groups for sentence in group]))
    entries = []
    for times, group in groups:
        hypotheses = list(islice(translations, len(group)))
        tokens = sum(sentence.tokens for sentence in group) / len(group)
        bleu = bleu_of(hypotheses, [sentence.reference for sentence in group], subject.experiment.target)
        entries.append({"times": times, "sentences": len(group), "tokens": tokens} | bleu)
    found = {"positions": subject.experiment.model.positions, "longest": longest, "skipped": skipped}
    return subject.header | found | {"groups": entries}


def groups_by_length(sentences: list[LongSentence]) -> list[list[LongSentence]]:
    """Return the sentences in GROUPS groups of equal number, the shortest first."""
    if len(sentences) < GROUPS:
        raise InputError(f"expected {GROUPS} sentences at least, one for each group, found {len(sentences)}")
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    return [[ordered[index] for index in part] for part in np.array_split(range(len(ordered)), GROUPS)]


def join_until(sentences: list[LongSentence], least: int, count: Callable[[str], int]) -> list[LongSentence]:
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


def join_within(sentences: list[LongSentence], most: int, count: Callable[[str], int]) -> list[LongSentence]:
    """Return neighbours joined by spaces, as many as have `most` tokens together; single sentences are dropped.

    They are as unlike the training's sentences as other joined ones are, but no longer.
    """
    joined: list[list[LongSentence]] = []
    for sentence in sentences:
        if joined and merged([*joined[-1], sentence], count).tokens <= most:
            joined[-1].append(sentence)
        else:
            joined.append([sentence])
    return [merged(parts, count) for parts in joined if len(parts) > 1]


def merged(parts: list[LongSentence], count: Callable[[str], int]) -> LongSentence:
    """Return neighbours as one sentence."""
    source = " ".join(part.source for part in parts)
    return LongSentence(source, " ".join(part.reference for part in parts), count(source))
