"""§6.3: bracketed trees. A tree is the list of its brackets and words from left to right: no function recurses.

    (TOP (NP (DT the) (NN cat)))   is   Open(TOP) Open(NP) Leaf(DT, the) Leaf(NN, cat) Close(NP) Close(TOP)

In files, treebanks write the round brackets in words -LRB- and -RRB-; here they are brackets.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from transformer.files import InputError
from transformer.text import read_lines

TOP = "TOP"  # the label of every cleaned tree's root
TOPS = {"", "TOP", "ROOT", "S1"}  # labels of roots in treebanks and in parsers' output
TRACE = "-NONE-"  # the tag of an empty category
WITHHELD = "_"  # replaces each word of a tree whose text may not be passed on, as in GUM's own files

BRACKET_OR_WORD = re.compile(r"[()]|[^\s()]+")
BARE = re.compile(r"[^-=|]+")  # a label up to its function tags


@dataclass(frozen=True, slots=True)
class Open:
    """The beginning of a constituent."""

    label: str


@dataclass(frozen=True, slots=True)
class Close:
    """The end of the innermost open constituent, with its label."""

    label: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word with its part of speech."""

    tag: str
    word: str


Tree = list[Open | Leaf | Close]


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yield the trees of a file with one on each line. Raises InputError naming the file and the line."""
    return one_a_line(read_lines(path), path)


def one_a_line(lines: Iterable[str], name: str | Path) -> Iterator[Tree]:
    """Yield the tree on each of `lines`. Raises InputError like `parse_trees`, and if a line has not one tree."""
    for number, line in enumerate(lines, start=1):
        trees = [tree for _, tree in parse_trees([line], name, number)]
        if len(trees) != 1:
            raise InputError(f"{name}, line {number}: expected one tree, found {len(trees)}")
        yield trees[0]


def parse_trees(lines: Iterable[str], name: str | Path, first: int = 1) -> Iterator[tuple[int, Tree]]:
    """Yield the trees in `lines`, wherever they begin and end, each with the number of the line where it begins.

    first: the number of the first line. Raises InputError, naming `name` and the line, on brackets that do not match, a
    bracket with nothing in it, a word without a tag, a leaf of several words, and text outside of the trees.
    """
    tree: Tree = []
    labels: list[str] = []  # of the open constituents
    inside: list[str] | None = None  # label and word in the last bracket, until it is clear what it is
    begin, problem = 0, ""
    for number, line in enumerate(lines, start=first):
        for token in BRACKET_OR_WORD.findall(line):
            begin = begin or number
            match token, inside:
                case "(", None:
                    inside = []
                case ")", [tag, word]:
                    tree.append(Leaf(tag, from_brackets(word)))
                    inside = None
                case _, [tag, word]:
                    problem = f"expected ')' after the word in '({tag} {word}', found '{token}'"
                case "(", _:
                    labels.append("".join(inside))
                    tree.append(Open(labels[-1]))
                    inside = []
                case ")", None if labels:
                    tree.append(Close(labels.pop()))
                case ")", None:
                    problem = "unbalanced brackets: found a ')' that closes nothing"
                case ")", _:
                    problem = f"expected a word or a tree in '({''.join(inside)})', found nothing"
                case _, None:
                    problem = f"expected a bracket, found '{token}'"
                case _:
                    inside.append(token)
            if problem:
                raise InputError(f"{name}, line {number}: {problem}")
            if inside is None and not labels:
                yield begin, tree
                tree, begin = [], 0
    if begin:
        missing = len(labels) + (inside is not None)
        raise InputError(f"{name}, line {begin}: unbalanced brackets: the tree that begins here lacks {missing} ')'")


def from_brackets(word: str) -> str:
    """Replace the names of round brackets by the brackets."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def bracketed(tree: Tree) -> str:
    """Write the tree on one line, as treebanks do."""
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


def words(tree: Tree) -> list[str]:
    """List the words of the leaves."""
    return [event.word for event in tree if isinstance(event, Leaf)]


def without_words(tree: Tree) -> Tree:
    """Withhold every word."""
    return [replace(event, word=WITHHELD) if isinstance(event, Leaf) else event for event in tree]


def with_words_of(gold: Tree, tree: Tree) -> Tree:
    """Give a tree whose words are all withheld the words of `gold`, without traces; leave another tree as it is."""
    found = [event.word for event in gold if isinstance(event, Leaf) and event.tag != TRACE]
    if words(tree) != [WITHHELD] * len(found):
        return tree
    given = iter(found)
    return [replace(event, word=next(given)) if isinstance(event, Leaf) else event for event in tree]


def clean(tree: Tree) -> Tree:
    """Remove traces, constituents of traces alone, function tags and escapes; put the tree under TOP.

    A tree that holds nothing but traces becomes an empty list.
    """
    kept: Tree = []
    for event in tree:
        match event:
            case Open(label) | Close(label) if label in TOPS:
                pass
            case Leaf(tag, word) if tag != TRACE:
                kept.append(Leaf(bare(tag), unescape(word)))
            case Open(label):
                kept.append(Open(bare(label)))
            case Close(label) if isinstance(kept[-1], Open):
                kept.pop()
            case Close(label):
                kept.append(Close(bare(label)))
    return [Open(TOP), *kept, Close(TOP)] if kept else []


@cache
def bare(label: str) -> str:
    """Cut function tags: NP-SBJ-1, NP=2 and NP|NX become NP. A label that begins with a hyphen (-LRB-) stays."""
    match = BARE.match(label)
    return match[0] if match else label


def unescape(word: str) -> str:
    r"""Resolve the treebank's escapes, such as 1\/2."""
    for escaped, plain in (("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "["), ("-RSB-", "]"), ("\\/", "/"), ("\\*", "*")):
        word = word.replace(escaped, plain)
    return word


def phrases(tree: Tree, least: int) -> Iterator[Tree]:
    """Yield the constituents of a cleaned tree with at least `least` words but not all of them, each under a TOP."""
    starts: list[tuple[int, int]] = []  # of each open constituent: events and words before it
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
