"""§6.3: how many of a parser's brackets are the treebank's: what EVALB (Sekine & Collins, 1997) counts, by COLLINS.prm.

Equal to that program to the last digit it prints, without its limits: 200 words, 200 brackets, ten errors. Punctuation
and traces are left out by their tags before words are counted, so that a parser's mis-tagged comma makes its whole
sentence an "error", which then counts nowhere. `by_gold` leaves a word out where its tag in gold says so instead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from transformer.common.files import InputError
from transformer.common.text import count_lines, read_lines
from transformer.parsing.trees import TRACE, Close, Leaf, Open, Tree, parse

DELETED = {"TOP", TRACE, ",", ":", "``", "''", "."}  # words with these tags are left out, brackets not counted
SAME = {"PRT": "ADVP"}  # labels that count as another
SHORT = 40  # words in the sentences that have scores of their own

KEPT = "not deleted"  # no treebank's tag: wrong wherever it is compared

Constituent = tuple[str, int, int]  # label, words before it, words before its end


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence's counts, which are 0 unless its status is "ok"."""

    number: int
    length: int  # all words of gold, traces aside
    status: str  # "ok", "skip" (no words in test) or "error" (other words than in gold)
    why: str | None = None  # it is an error
    gold: int = 0  # brackets
    test: int = 0
    matched: int = 0
    crossing: int = 0  # brackets of test that cross one of gold
    words: int = 0  # those not left out
    right_tags: int = 0


def compare(gold: Tree, test: Tree, number: int, by_gold: bool = False) -> Sentence:
    """The counts of sentence `number`; of an empty `test`, a skip.

    by_gold: leave words out, in both trees, by their tags in gold; all words must then be the same, those left out too.
    """
    gold, test = said(gold), said(test)
    sentence = Sentence(number, len(leaves(gold)), "skip")
    if by_gold and test:
        why = difference(leaves(gold), leaves(test))
        if why:
            return replace(sentence, status="error", why=why)
        test = with_deletions_of(gold, test)
    if not counted(test):
        return sentence
    why = difference(counted(gold), counted(test))
    if why:
        return replace(sentence, status="error", why=why)
    return replace(sentence, status="ok", **counts(gold, test))


def counts(gold: Tree, test: Tree) -> dict[str, int]:
    """What a Sentence counts, of two trees over the same words."""
    ours, theirs = constituents(gold), constituents(test)
    words = list(zip(counted(gold), counted(test), strict=True))
    return {
        "gold": len(ours),
        "test": len(theirs),
        "matched": (Counter(ours) & Counter(theirs)).total(),
        "crossing": sum(any(cross(one, other) for other in ours) for one in theirs),
        "words": len(words),
        "right_tags": sum(same(word.tag) == same(guess.tag) for word, guess in words),
    }


def said(tree: Tree) -> Tree:
    """The tree without its traces; a bracket may then hold nothing."""
    return [event for event in tree if not (isinstance(event, Leaf) and event.tag == TRACE)]


def leaves(tree: Tree) -> list[Leaf]:
    return [event for event in tree if isinstance(event, Leaf)]


def counted(tree: Tree) -> list[Leaf]:
    """The words that are not left out."""
    return [leaf for leaf in leaves(tree) if leaf.tag not in DELETED]


def difference(gold: list[Leaf], test: list[Leaf]) -> str | None:
    """What differs in the words, or None."""
    if len(gold) != len(test):
        return f"{len(gold)} words in gold, {len(test)} in test"
    for number, (ours, theirs) in enumerate(zip(gold, test, strict=True), start=1):
        if ours.word != theirs.word:
            return f"word {number} is {ours.word!r} in gold, {theirs.word!r} in test"
    return None


def with_deletions_of(gold: Tree, test: Tree) -> Tree:
    """The test tree, tagged such that it leaves out the words that gold does; of the others, as many tags are right."""
    tags = iter([leaf.tag for leaf in leaves(gold)])
    result: Tree = []
    for event in test:
        if isinstance(event, Leaf):
            tag = next(tags)
            if tag in DELETED:
                event = replace(event, tag=tag)
            elif event.tag in DELETED:
                event = replace(event, tag=KEPT)
        result.append(event)
    return result


def constituents(tree: Tree) -> list[Constituent]:
    """The brackets that count: those with a word in them and a label that is not left out."""
    found = []
    starts: list[int] = []
    words = 0
    for event in tree:
        match event:
            case Open():
                starts.append(words)
            case Leaf(tag, _):
                words += tag not in DELETED
            case Close(label):
                start, label = starts.pop(), same(re.split("[-=]", label, maxsplit=1)[0])
                if start < words and label not in DELETED:
                    found.append((label, start, words))
    return found


def same(label: str) -> str:
    """The one name of labels that count as the same."""
    return SAME.get(label, label)


def cross(one: Constituent, other: Constituent) -> bool:
    """Whether each has words that the other lacks, and words in common."""
    (_, start, end), (_, other_start, other_end) = one, other
    return start < other_start < end < other_end or other_start < start < other_end < end


def unparsed(sentence: Sentence) -> Sentence:
    """The sentence as if its parser had found no bracket and no tag; gold's still count."""
    return replace(sentence, test=0, matched=0, crossing=0, right_tags=0)


def scores(sentences: Iterable[Sentence]) -> dict:
    """Summaries of all sentences and of those of at most 40 words, errors and skips included, as "all" and "len40"."""
    sentences = list(sentences)
    return {"all": summary(sentences), "len40": summary([one for one in sentences if one.length <= SHORT])}


def summary(sentences: list[Sentence]) -> dict:
    """EVALB's summary: counts of sentences, percentages, and the mean number of crossing brackets.

    None where there is nothing to divide by: EVALB prints 0.00, or nan for F1. It prints nan, too, where no bracket
    matches; here F1 is 0 then.
    """
    valid = [sentence for sentence in sentences if sentence.status == "ok"]
    gold, test, matched = (sum(getattr(one, name) for one in valid) for name in ("gold", "test", "matched"))
    recall, precision = percent(matched, gold), percent(matched, test)
    return {
        "sentences": len(sentences),
        "errors": sum(one.status == "error" for one in sentences),
        "skipped": sum(one.status == "skip" for one in sentences),
        "valid": len(valid),
        "recall": recall,
        "precision": precision,
        "f1": 2 * precision * recall / (precision + recall) if matched else percent(0, gold + test),
        "complete": percent(sum(one.gold == one.test == one.matched for one in valid), len(valid)),
        "crossing": sum(one.crossing for one in valid) / len(valid) if valid else None,
        "no_crossing": percent(sum(one.crossing == 0 for one in valid), len(valid)),
        "two_or_less_crossing": percent(sum(one.crossing <= 2 for one in valid), len(valid)),
        "tagging": percent(sum(one.right_tags for one in valid), sum(one.words for one in valid)),
    }


def percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def read_gold_and_test(gold: str | Path, test: str | Path) -> Iterator[tuple[Tree, Tree]]:
    """The trees of two files, line by line: what stands on a line, be it one tree or several, is one sentence.

    An empty line in `test` is an empty tree. Raises InputError on files of unequal length or without a line, and,
    naming the file and the line, on an empty line in `gold` and on what `trees.parse` does not read.
    """
    number = 0
    for number, (ours, theirs) in enumerate(zip_longest(read_lines(gold), read_lines(test)), start=1):
        if ours is None or theirs is None:
            counts = f"{gold} has {count_lines(gold)}, {test} has {count_lines(test)}"
            short = gold if ours is None else test
            raise InputError(f"expected as many lines in gold and test, found: {counts}; {short} has no line {number}")
        if not ours.strip():
            raise InputError(f"{gold}, line {number}: expected a tree, found an empty line")
        yield on_line(ours, gold, number), on_line(theirs, test, number)
    if not number:
        raise InputError(f"expected trees, found none: {gold} and {test} are empty")


def on_line(line: str, name: str | Path, number: int) -> Tree:
    """All that stands on a line."""
    return [event for _, tree in parse([line], name, number) for event in tree]
