"""§6.3: labelled brackets, counted as EVALB (Sekine & Collins, 1997) does by COLLINS.prm.

Scores equal that program's in all digits that it prints, without its limits: 200 words, 200 brackets, ten errors.
Words with the tags of punctuation and traces are left out before words are counted, so that a comma with a wrong tag
makes the whole sentence an "error", which then counts nowhere. With `by_gold` the tags in gold decide instead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer.parsing.trees import TRACE, Close, Leaf, Open, Tree, leaves, parse_trees, with_words_of
from transformer.storage.files import InputError, read_pairs

_DELETED = {"TOP", TRACE, ",", ":", "``", "''", "."}  # words with these tags are left out, brackets not counted
_SAME = {"PRT": "ADVP"}  # labels that count as another
_FAILED = re.compile(r"\s*\(\s*(\(\s*\))?\s*\)\s*")
SHORT = 40  # words at most in the sentences that are also scored apart

_Constituent = tuple[str, int, int]  # label, words before it, words before its end


@dataclass(frozen=True, slots=True)
class SentenceCounts:  # 0 unless the status is "ok"
    number: int
    length: int  # all words of gold except traces
    status: str  # "ok", "skip" (no words in test) or "error" (other words than in gold)
    why: str | None = None  # the reason of an error
    gold: int = 0  # brackets
    test: int = 0
    matched: int = 0
    crossing: int = 0  # brackets of test that cross one of gold
    words: int = 0  # except those that are left out
    right_tags: int = 0


def compare(gold: Tree, test: Tree, number: int, by_gold: bool = False) -> SentenceCounts:
    """Return the counts of sentence `number`; its status is "skip" if `test` has no words.

    by_gold: leave words out, in both trees, by their tags in gold; all words must then be equal, even those left out.
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
    """Tag the test tree so that the same words are left out as in gold; no other tag becomes right or wrong."""
    tags, result = iter([leaf.tag for leaf in leaves(gold)]), []
    for event in test:
        if isinstance(event, Leaf) and ((tag := next(tags)) in _DELETED or event.tag in _DELETED):
            event = replace(event, tag=tag if tag in _DELETED else "not deleted")  # which no treebank has
        result.append(event)
    return result


def _constituents(tree: Tree) -> list[_Constituent]:
    """List the brackets that count: those that hold a word and whose label is not left out."""
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
    """Count the sentence as if its parser had found no bracket and no tag; those of gold still count."""
    return replace(sentence, test=0, matched=0, crossing=0, right_tags=0)


def bracket_scores(sentences: Iterable[SentenceCounts]) -> dict:
    """Summarise all sentences, and those of up to 40 words, as "all" and "len40"; both include errors and skips."""
    sentences = list(sentences)
    return {"all": evalb_summary(sentences), "len40": evalb_summary([s for s in sentences if s.length <= SHORT])}


def evalb_summary(sentences: list[SentenceCounts]) -> dict:
    """Return EVALB's summary: counts of sentences, percentages, and the mean number of crossing brackets.

    Two differences: a value is None if its denominator is 0, and F1 is 0 if no bracket matches.
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
    """Yield the trees of two files, line by line; several trees on a line are one sentence.

    In `test` an empty line is an empty tree, as is `(())`, which Berkeley's parser writes. Words that are withheld in
    `test` (`_`) are gold's. Raises InputError like `read_pairs` and `parse_trees`, and on an empty line in `gold`.
    """
    for number, (right, guess) in enumerate(read_pairs(gold, test, *digests), start=1):
        if not right.strip():
            raise InputError(f"{gold}, line {number}: expected a tree, found an empty line")
        expected = parse_line(right, gold, number)
        guess = "" if _FAILED.fullmatch(guess) else guess
        yield expected, with_words_of(expected, parse_line(guess, test, number))


def parse_line(line: str, name: str | Path, number: int) -> Tree:
    """Read the trees on a line as one."""
    return [event for _, tree in parse_trees([line], name, number) for event in tree]
