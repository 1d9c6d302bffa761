"""§6.3: bracketed trees. A tree is the list of its brackets and words from left to right, so nothing here recurses.

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
TOPS = {"", "TOP", "ROOT", "S1"}  # labels of roots in treebanks and parsers' output, which say nothing
TRACE = "-NONE-"  # the tag of what is understood but not written
WITHHELD = "_"  # stands for each word where a tree is passed on without its text, as in GUM's own files

TOKEN = re.compile(r"[()]|[^\s()]+")
BARE = re.compile(r"[^-=|]+")  # a label up to its function tags


@dataclass(frozen=True, slots=True)
class Open:
    """The beginning of a constituent."""

    label: str


@dataclass(frozen=True, slots=True)
class Close:
    """The end of the innermost open constituent, which has this label."""

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
    """Yield the tree on each of `lines`. Raises InputError like `parse`, and where a line has not exactly one tree."""
    for number, line in enumerate(lines, start=1):
        trees = [tree for _, tree in parse([line], name, number)]
        if len(trees) != 1:
            raise InputError(f"{name}, line {number}: expected one tree, found {len(trees)}")
        yield trees[0]


def parse(lines: Iterable[str], name: str | Path, first: int = 1) -> Iterator[tuple[int, Tree]]:
    """Yield the trees in `lines`, wherever they begin and end, each with the number of the line where it begins.

    first: the number of the first line. Raises InputError, naming `name` and the line, on brackets that do not match, a
    bracket with nothing in it, a word without a tag, a leaf of several words, and text outside of the trees.
    """
    reader = Reader(name)
    for number, line in enumerate(lines, start=first):
        for token in TOKEN.findall(line):
            reader.take(token, number)
            if reader.depth == 0:
                yield reader.begin, reader.tree
                reader = Reader(name)
    if reader.depth:
        where = f"{name}, line {reader.begin}"
        raise InputError(f"{where}: unbalanced brackets: the tree that begins here lacks {reader.depth} ')'")


class Reader:
    """A tree that is being read, bracket by bracket."""

    def __init__(self, name: str | Path):
        self.name = name
        self.begin = 0  # the line of its first bracket
        self.line = 0  # the line of its last bracket or word so far
        self.tree: Tree = []
        self.labels: list[str] = []  # of the constituents that are open
        self.inside: list[str] | None = None  # label and word in the last bracket, until it is clear what it is

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self.labels) + (self.inside is not None)

    def take(self, token: str, line: int) -> None:
        """Read the next bracket or word, which stands on that line."""
        self.begin = self.begin or line
        self.line = line
        if token == "(":
            self.open()
        elif token == ")":
            self.close()
        else:
            self.add(token)

    def open(self) -> None:
        """Open a bracket: the one around it, if any, is a constituent."""
        if self.inside is not None:
            if len(self.inside) == 2:
                raise self.error(f"expected ')' after the word in '({' '.join(self.inside)}', found '('")
            self.labels.append("".join(self.inside))
            self.tree.append(Open(self.labels[-1]))
        self.inside = []

    def close(self) -> None:
        """Close a leaf or a constituent."""
        if self.inside is not None:
            if len(self.inside) < 2:
                raise self.error(f"expected a word or a tree in '({''.join(self.inside)})', found nothing")
            self.tree.append(Leaf(self.inside[0], from_brackets(self.inside[1])))
            self.inside = None
        elif self.labels:
            self.tree.append(Close(self.labels.pop()))
        else:
            raise self.error("unbalanced brackets: found a ')' that closes nothing")

    def add(self, text: str) -> None:
        """Add a label, a tag or a word to the last bracket."""
        if self.inside is None:
            raise self.error(f"expected a bracket, found '{text}'")
        if len(self.inside) == 2:
            raise self.error(f"expected ')' after the word in '({' '.join(self.inside)}', found '{text}'")
        self.inside.append(text)

    def error(self, problem: str) -> InputError:
        """Return an error that names the file and the line."""
        return InputError(f"{self.name}, line {self.line}: {problem}")


def from_brackets(word: str) -> str:
    """Return a treebank's word with round brackets instead of their names."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def bracketed(tree: Tree) -> str:
    """Return the tree on one line, as treebanks write it."""
    return "".join(map(written, tree)).removeprefix(" ")


def written(event: Open | Leaf | Close) -> str:
    """Return a bracket or a leaf as treebanks write it."""
    match event:
        case Open(label):
            return f" ({label}"
        case Leaf(tag, word):
            word = word.replace("(", "-LRB-").replace(")", "-RRB-")
            return f" ({tag} {word})"
        case Close():
            return ")"


def words(tree: Tree) -> list[str]:
    """Return the words of the leaves."""
    return [event.word for event in tree if isinstance(event, Leaf)]


def without_words(tree: Tree) -> Tree:
    """Return the tree with every word withheld."""
    return [replace(event, word=WITHHELD) if isinstance(event, Leaf) else event for event in tree]


def with_words_of(gold: Tree, tree: Tree) -> Tree:
    """Return `tree` with the words of `gold`, without its traces, if all of its own are withheld; else as it is."""
    found = [event.word for event in gold if isinstance(event, Leaf) and event.tag != TRACE]
    if words(tree) != [WITHHELD] * len(found):
        return tree
    given = iter(found)
    return [replace(event, word=next(given)) if isinstance(event, Leaf) else event for event in tree]


def clean(tree: Tree) -> Tree:
    """Return the tree that a parser should find: under TOP, without traces, constituents of traces, and function tags.

    Escapes in words become what they stand for. Returns an empty list where the tree holds nothing but traces.
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
    """Return NP for NP-SBJ-1, NP=2 and NP|NX; a label that begins with a hyphen (-LRB-) stays whole."""
    match = BARE.match(label)
    return match[0] if match else label


def unescape(word: str) -> str:
    r"""Resolve the treebank's escapes: 1\/2 becomes 1/2, and so on."""
    for escaped, plain in (("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "["), ("-RSB-", "]"), ("\\/", "/"), ("\\*", "*")):
        word = word.replace(escaped, plain)
    return word


def phrases(tree: Tree, least: int) -> Iterator[Tree]:
    """Yield the constituents of a cleaned tree with at least `least` words but not all of them, each under a TOP."""
    starts: list[tuple[int, int]] = []  # where each open constituent begins: events, words before it
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
