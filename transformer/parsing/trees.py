"""§6.3: bracketed trees, and their sequences of symbols for a parser.

A tree is the list of its brackets and words from left to right, so that no function recurses. Treebank files write
round brackets in words as -LRB- and -RRB-; here they are brackets. A parser reads words and writes the tree without
words, like in Vinyals et al. (2015), but with tags, like in the authors' code:

    (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))   becomes   (S (NP DT NN )NP (VP VBZ )VP . )S
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path

from transformer.storage.files import InputError

TOP = "TOP"  # label of the root of each cleaned tree
_TOPS = {"", "TOP", "ROOT", "S1"}  # labels of roots in treebanks and in parsers' output
TRACE = "-NONE-"  # the tag of an empty category
_WITHHELD = "_"  # replaces the words of texts that must not be redistributed, like in GUM's files

_BRACKET_OR_WORD = re.compile(r"[()]|[^\s()]+", re.ASCII)  # like EVALB: a word may contain U+00A0
_BARE = re.compile(r"[^-=|]+|.+")  # a label without function tags, or a whole label with an initial hyphen (-LRB-)
_ESCAPES = ("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "["), ("-RSB-", "]"), ("\\/", "/"), ("\\*", "*")
_UNTAGGED = "XX"  # the tag of a word without a tag in the parser's output
_BRACKET_OR_TAG = re.compile(r"([()]?)([^\s()]+)")  # bracket and label, or a tag


@dataclass(frozen=True, slots=True)
class Open:
    label: str


@dataclass(frozen=True, slots=True)
class Close:
    label: str  # label of the innermost open constituent


@dataclass(frozen=True, slots=True)
class Leaf:
    tag: str
    word: str


Tree = list[Open | Leaf | Close]


def one_a_line(lines: Iterable[str], name: str | Path, first: int = 1) -> Iterator[Tree]:
    """Yield the tree on each line. Raises InputError like `parse_trees`, and on a line without exactly one tree."""
    for number, line in enumerate(lines, start=first):
        trees = list(parse_trees([line], name, number))
        if len(trees) != 1:
            raise InputError(f"{name}, line {number}: expected one tree, found {len(trees)}")
        yield trees[0]


def parse_trees(lines: Iterable[str], name: str | Path, first: int = 1) -> Iterator[Tree]:
    """Yield all trees in `lines`. A tree may begin and end anywhere on a line.

    first: number of the first line. Raises InputError, naming `name` and the line, if a tree is malformed.
    """
    tree: Tree = []
    labels: list[str] = []  # labels of the open constituents
    inside: list[str] | None = None  # label and word in the last bracket, while its kind is unknown
    begin = 0  # the tree's first line
    for number, line in enumerate(lines, start=first):
        for token in _BRACKET_OR_WORD.findall(line):
            begin = begin or number
            match token, inside:
                case "(", None:
                    inside = []
                case "(", [] | [_]:
                    labels.append("".join(inside))
                    tree.append(Open(labels[-1]))
                    inside = []
                case ")", [tag, word]:
                    tree.append(Leaf(tag, from_brackets(word)))
                    inside = None
                case ")", None if labels:
                    tree.append(Close(labels.pop()))
                case text, [] | [_] if text != ")":
                    inside.append(text)
                case _:
                    raise InputError(f"{name}, line {number}: expected (label ...) or (tag word), found '{token}'")
            if inside is None and not labels:
                yield tree
                tree, begin = [], 0
    if begin:
        missing = len(labels) + (inside is not None)
        raise InputError(f"{name}, line {begin}: expected {missing} more ')' to end this tree, found none")


def split_words(line: str) -> list[str]:
    """Return the words of tokenised text, with brackets like in a tree."""
    return [from_brackets(word) for word in re.findall(r"\S+", line, re.ASCII)]


def from_brackets(word: str) -> str:
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def bracketed(tree: Tree) -> str:
    """Format the tree on one line like in a treebank."""
    parts = []
    for event in tree:
        match event:
            case Open(label):
                parts.append(f" ({label}")
            case Leaf(tag, word):
                parts.append(f" ({tag} {word.replace('(', '-LRB-').replace(')', '-RRB-')})")
            case Close():
                parts.append(")")
    return "".join(parts).removeprefix(" ")


def leaves(tree: Tree) -> list[Leaf]:
    return [event for event in tree if isinstance(event, Leaf)]


def words(tree: Tree) -> list[str]:
    return [leaf.word for leaf in leaves(tree)]


def without_words(tree: Tree) -> Tree:
    return [replace(event, word=_WITHHELD) if isinstance(event, Leaf) else event for event in tree]


def with_words_of(gold: Tree, tree: Tree) -> Tree:
    """If all words of a tree are withheld, return it with the words of `gold` (without traces), else unchanged."""
    found = [leaf.word for leaf in leaves(gold) if leaf.tag != TRACE]
    if words(tree) != [_WITHHELD] * len(found):
        return tree
    given = iter(found)
    return [replace(event, word=next(given)) if isinstance(event, Leaf) else event for event in tree]


def clean(tree: Tree) -> Tree:
    """Remove traces, function tags and escapes, and add the root TOP. Return [] if the tree contains only traces."""
    kept: Tree = []
    for event in tree:
        match event:
            case Open(label) | Close(label) if label in _TOPS:
                pass
            case Leaf(tag, word) if tag != TRACE:
                for escaped, plain in _ESCAPES:
                    word = word.replace(escaped, plain)
                kept.append(Leaf(_bare(tag), word))
            case Open(label):
                kept.append(Open(_bare(label)))
            case Close(label) if isinstance(kept[-1], Open):
                kept.pop()
            case Close(label):
                kept.append(Close(_bare(label)))
    return [Open(TOP), *kept, Close(TOP)] if kept else []


@cache
def _bare(label: str) -> str:
    """Remove function tags: NP-SBJ-1, NP=2 and NP|NX become NP."""
    return _BARE.match(label)[0]


def phrases(tree: Tree, least: int) -> Iterator[Tree]:
    """Yield constituents of a cleaned tree with `least` words or more, but not all words, each with the root TOP."""
    starts: list[tuple[int, int]] = []  # for each open constituent, the number of events and words before it
    total, seen = len(words(tree)), 0
    for place, event in enumerate(tree):
        match event:
            case Open():
                starts.append((place, seen))
            case Leaf():
                seen += 1
            case Close():
                start, before = starts.pop()
                if least <= seen - before < total:
                    yield [Open(TOP), *tree[start : place + 1], Close(TOP)]


def encode_tree(tree: Tree) -> tuple[list[str], list[str]]:
    """Return the words of a cleaned tree and its symbols: one per opening bracket, word and closing bracket."""
    symbols = []
    for event in tree[1:-1]:
        match event:
            case Open(label):
                symbols.append(f"({label}")
            case Close(label):
                symbols.append(f"){label}")
            case Leaf(tag, _):
                symbols.append(tag)
    return words(tree), symbols


def decode(symbols: list[str], sentence: list[str]) -> tuple[Tree, str | None]:
    """Return the tree of `symbols` over the words of `sentence`, and its faults or None.

    A closing bracket also closes all open constituents inside its constituent. Words after the last tag get the tag XX.
    They are added to the outermost open constituent. If no constituent is open, they are added to the constituent that
    contains all others, or to TOP. Open constituents are closed. Unmatched closing brackets, tags after the last word,
    constituents without words and unreadable symbols are dropped.
    """
    tree: Tree = [Open(TOP)]
    labels: list[str] = []  # labels of the open constituents except TOP
    left, faults = deque(sentence), []

    def close_last() -> str:
        """Close the innermost constituent, or drop it if it is empty. Return its label."""
        label = labels.pop()
        if isinstance(tree[-1], Open):
            faults.append(f"an empty {label}")
            tree.pop()
        else:
            tree.append(Close(label))
        return label

    for text in symbols:
        symbol = _BRACKET_OR_TAG.fullmatch(text)
        bracket, label = symbol.groups() if symbol else ("", "")
        if not symbol:
            faults.append("an unreadable symbol")
        elif bracket == "(":
            labels.append(label)
            tree.append(Open(label))
        elif bracket and label in labels:
            faults += [f"a ){label} that closes a {labels[-1]}"] if labels[-1] != label else []
            while close_last() != label:
                pass
        elif bracket:
            faults.append(f"a ){label} that closes nothing")
        elif left:
            tree.append(Leaf(label, left.popleft()))
        else:
            faults.append("more tags than words")
    faults += ["brackets left open"] if labels else []
    if left:
        faults.append("fewer tags than words")
        while len(labels) > 1:
            close_last()
        depths = list(accumulate(isinstance(event, Open) - isinstance(event, Close) for event in tree[1:]))
        if not labels and isinstance(tree[-1], Close) and depths.count(0) == 1:  # one constituent has all words
            labels.append(tree.pop().label)
        tree += [Leaf(_UNTAGGED, word) for word in left]
    while labels:
        close_last()
    return [*tree, Close(TOP)], "; ".join(dict.fromkeys(faults)) or None
