"""§6.3: scores of labelled brackets, counted like EVALB (Sekine & Collins, 1997) with COLLINS.prm.

Scores equal EVALB's in all printed digits, without EVALB's limits of 200 words, 200 brackets and ten errors. Words with
the tags of punctuation and traces are deleted before words are counted. So a comma with a wrong tag makes the whole
sentence an "error", and the sentence is excluded from the scores. With `by_gold`, the gold tags decide instead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from transformer.parsing.trees import TRACE, Close, Leaf, Open, Tree, leaves, parse_trees, with_words_of
from transformer.storage.files import InputError, read_pairs

_DELETED = {"TOP", TRACE, ",", ":", "``", "''", "."}  # tags of words and labels of brackets that do not count
_SAME = {"PRT": "ADVP"}  # label: equivalent label
_FAILED = re.compile(r"\s*\(\s*(\(\s*\))?\s*\)\s*")
SHORT = 40  # maximum number of words in the sentences of the separate score `len40`

_Constituent = tuple[str, int, int]  # label, words before it, words before its end


@dataclass(frozen=True, slots=True)
class SentenceCounts:  # 0 unless the status is "ok"
    number: int
    length: int  # number of gold words except traces
    status: str  # "ok", "skip" (no words in test) or "error" (test and gold have different words)
    why: str | None = None  # the reason for an error
    gold: int = 0  # brackets
    test: int = 0
    matched: int = 0
    crossing: int = 0  # test brackets that cross a gold bracket
    words: int = 0  # without deleted words
    right_tags: int = 0


def compare(gold: Tree, test: Tree, number: int, by_gold: bool = False) -> SentenceCounts:
    """Return the counts of sentence `number`. Its status is "skip" if `test` has no words.

    by_gold: delete words in both trees by their gold tags. All words, including deleted words, must then be equal.
    """
    gold, test = ([event for event in tree if getattr(event, "tag", "") != TRACE] for tree in (gold, test))
    sentence, why = SentenceCounts(number, len(leaves(gold)), "skip"), None
    if by_gold and test:
        why = _first_difference(leaves(gold), leaves(test))
        test = test if why else _with_deletions_of(gold, test)
    right, ours = ([leaf for leaf in leaves(tree) if leaf.tag not in _DELETED] for tree in (gold, test))
    if not why and not ours:
        return sentence
    if why := why or _first_difference(right, ours):
        return replace(sentence, status="error", why=why)
    expected, proposed = _constituents(gold), _constituents(test)
    pairs = list(zip(right, ours, strict=True))
    return replace(
        sentence,
        status="ok",
        gold=len(expected),
        test=len(proposed),
        matched=(Counter(expected) & Counter(proposed)).total(),
        crossing=sum(any(_cross(one, other) for other in expected) for one in proposed),
        words=len(pairs),
        right_tags=sum(_SAME.get(word.tag, word.tag) == _SAME.get(guess.tag, guess.tag) for word, guess in pairs),
    )


def _first_difference(gold: list[Leaf], test: list[Leaf]) -> str | None:
    if len(gold) != len(test):
        return f"{len(gold)} words in gold, {len(test)} in test"
    for number, (right, guess) in enumerate(zip(gold, test, strict=True), start=1):
        if right.word != guess.word:
            return f"word {number} is {right.word!r} in gold, {guess.word!r} in test"
    return None


def _with_deletions_of(gold: Tree, test: Tree) -> Tree:
    """Change tags of the test tree so that equal words are deleted in both trees. Other tags stay right or wrong."""
    tags, result = iter([leaf.tag for leaf in leaves(gold)]), []
    for event in test:
        if isinstance(event, Leaf) and ((tag := next(tags)) in _DELETED or event.tag in _DELETED):
            event = replace(event, tag=tag if tag in _DELETED else "not deleted")  # a tag of no treebank
        result.append(event)
    return result


def _constituents(tree: Tree) -> list[_Constituent]:
    """Return the brackets that count: they contain a word, and their label is not deleted."""
    result, words = [], 0
    starts: list[int] = []
    for event in tree:
        match event:
            case Open():
                starts.append(words)
            case Leaf(tag, _):
                words += tag not in _DELETED
            case Close(label):
                start, label = starts.pop(), re.split("[-=]", label, maxsplit=1)[0]
                if start < words and label not in _DELETED:
                    result.append((_SAME.get(label, label), start, words))
    return result


def _cross(one: _Constituent, other: _Constituent) -> bool:
    (_, start, end), (_, other_start, other_end) = one, other
    return start < other_start < end < other_end or other_start < start < other_end < end


def unparsed(sentence: SentenceCounts) -> SentenceCounts:
    """Count the sentence as if its parser had found no bracket and no tag. Gold brackets and words still count."""
    return replace(sentence, test=0, matched=0, crossing=0, right_tags=0)


def bracket_scores(sentences: Iterable[SentenceCounts]) -> dict:
    """Summarise "all" sentences, and "len40", the sentences of up to 40 words. Both also count errors and skips."""
    sentences = list(sentences)
    return {"all": evalb_summary(sentences), "len40": evalb_summary([s for s in sentences if s.length <= SHORT])}


def evalb_summary(sentences: list[SentenceCounts]) -> dict:
    """Return EVALB's summary: counts of sentences, percentages, and the mean number of crossing brackets.

    There are two differences: a value is None if its denominator is 0, and F1 is 0 if no bracket matches.
    """
    valid = [s for s in sentences if s.status == "ok"]
    names = ("gold", "test", "matched", "crossing", "words", "right_tags")
    gold, test, matched, crossing, words, right_tags = (sum(getattr(s, name) for s in valid) for name in names)
    recall, precision = _percentage(matched, gold), _percentage(matched, test)
    return {
        "sentences": len(sentences),
        "errors": sum(s.status == "error" for s in sentences),
        "skipped": sum(s.status == "skip" for s in sentences),
        "valid": len(valid),
        "recall": recall,
        "precision": precision,
        "f1": 2 * precision * recall / (precision + recall) if matched else _percentage(0, gold + test),
        "complete": _percentage(sum(s.gold == s.test == s.matched for s in valid), len(valid)),
        "crossing": crossing / len(valid) if valid else None,
        "no_crossing": _percentage(sum(s.crossing == 0 for s in valid), len(valid)),
        "two_or_less_crossing": _percentage(sum(s.crossing <= 2 for s in valid), len(valid)),
        "tagging": _percentage(right_tags, words),
    }


def _percentage(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def read_gold_and_test(gold: str | Path, test: str | Path, *digests: Any) -> Iterator[tuple[Tree, Tree]]:
    """Yield the trees of two files, line by line. Several trees on a line are one sentence.

    In `test`, an empty line and `(())` (from Berkeley's parser) are empty trees. The gold words replace withheld words
    (`_`) in `test`. Raises InputError like `read_pairs` and `parse_trees`, and on an empty line in `gold`.
    """
    for number, (right, guess) in enumerate(read_pairs(gold, test, *digests), start=1):
        if not right.strip():
            raise InputError(f"{gold}, line {number}: expected a tree, found an empty line")
        expected = parse_line(right, gold, number)
        guess = "" if _FAILED.fullmatch(guess) else guess
        yield expected, with_words_of(expected, parse_line(guess, test, number))


def parse_line(line: str, name: str | Path, number: int) -> Tree:
    """Read all trees on a line as one tree."""
    return list(chain.from_iterable(parse_trees([line], name, number)))
