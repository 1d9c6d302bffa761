"""§6.3: bracketed trees. A tree is the list of what its brackets say from left to right, so that nothing here recurses.

    (TOP (NP (DT the) (NN cat)))   is   Open(TOP) Open(NP) Leaf(DT, the) Leaf(NN, cat) Close(NP) Close(TOP)

In files, treebanks write the round brackets in words -LRB- and -RRB-; here they are brackets.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from transformer.common.files import InputError
from transformer.common.text import read_lines

TOP = "TOP"  # the label of every cleaned tree's root
TOPS = {"", "TOP", "ROOT", "S1"}  # what treebanks and parsers write there, to say only that here is a tree
TRACE = "-NONE-"  # the tag of what is not said

TOKEN = re.compile(r"[()]|[^\s()]+")
BARE = re.compile(r"[^-=|]+")  # a label up to its function tags


@dataclass(frozen=True, slots=True)
class Open:
    """A constituent begins."""

    label: str


@dataclass(frozen=True, slots=True)
class Close:
    """The innermost open constituent, which has this label, ends."""

    label: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word with its part of speech."""

    tag: str
    word: str


Tree = list[Open | Leaf | Close]


def read_trees(path: str | Path) -> Iterator[Tree]:
    """The trees of a file with one on each line. Raises InputError naming the file and the line."""
    return one_a_line(read_lines(path), path)


def one_a_line(lines: Iterable[str], name: str | Path) -> Iterator[Tree]:
    """The tree on each of `lines`. Raises InputError, naming `name` and the line, as `parse` and where not one is."""
    for number, line in enumerate(lines, start=1):
        found = [tree for _, tree in parse([line], name, number)]
        if len(found) != 1:
            raise InputError(f"{name}, line {number}: expected one tree, found {len(found)}")
        yield found[0]


def parse(lines: Iterable[str], name: str | Path, first: int = 1) -> Iterator[tuple[int, Tree]]:
    """The trees in `lines`, wherever they begin and end, each with the number of the line where it begins.

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
    """A tree as far as it is read."""

    def __init__(self, name: str | Path):
        self.name = name
        self.begin = 0  # the line of its first bracket
        self.line = 0  # the line of its last bracket or word so far
        self.tree: Tree = []
        self.labels: list[str] = []  # of the constituents that are open
        self.said: list[str] | None = None  # in the last bracket, while it may yet be a leaf or a constituent

    @property
    def depth(self) -> int:
        """How many brackets are open."""
        return len(self.labels) + (self.said is not None)

    def take(self, token: str, line: int) -> None:
        """Read one more bracket or word, which stands on that line."""
        self.begin = self.begin or line
        self.line = line
        if token == "(":
            self.open()
        elif token == ")":
            self.close()
        else:
            self.say(token)

    def open(self) -> None:
        """A bracket opens: the one around it, if any, is a constituent."""
        if self.said is not None:
            if len(self.said) == 2:
                raise self.error(f"expected ')' after the word in '({' '.join(self.said)}', found '('")
            self.labels.append("".join(self.said))
            self.tree.append(Open(self.labels[-1]))
        self.said = []

    def close(self) -> None:
        """A leaf ends, or a constituent."""
        if self.said is not None:
            if len(self.said) < 2:
                raise self.error(f"expected a word or a tree in '({''.join(self.said)})', found nothing")
            self.tree.append(Leaf(self.said[0], from_brackets(self.said[1])))
            self.said = None
        elif self.labels:
            self.tree.append(Close(self.labels.pop()))
        else:
            raise self.error("unbalanced brackets: found a ')' that closes nothing")

    def say(self, text: str) -> None:
        """A label, a tag or a word."""
        if self.said is None:
            raise self.error(f"expected a bracket, found '{text}'")
        if len(self.said) == 2:
            raise self.error(f"expected ')' after the word in '({' '.join(self.said)}', found '{text}'")
        self.said.append(text)

    def error(self, problem: str) -> InputError:
        return InputError(f"{self.name}, line {self.line}: {problem}")


def from_brackets(word: str) -> str:
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def to_brackets(word: str) -> str:
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def bracketed(tree: Tree) -> str:
    """The tree on one line, as treebanks write it."""
    return "".join(map(written, tree)).removeprefix(" ")


def written(event: Open | Leaf | Close) -> str:
    match event:
        case Open(label):
            return f" ({label}"
        case Leaf(tag, word):
            return f" ({tag} {to_brackets(word)})"
        case Close():
            return ")"


def words(tree: Tree) -> list[str]:
    """The leaves' words."""
    return [event.word for event in tree if isinstance(event, Leaf)]


def clean(tree: Tree) -> Tree:
    """The tree that a parser is to find: under TOP, without traces, constituents of traces alone, and function tags.

    Escapes in words become what they stand for. Empty where the tree holds nothing but traces.
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
    """NP of NP-SBJ-1, NP=2 and NP|NX; a label that begins with a hyphen (-LRB-) is whole."""
    found = BARE.match(label)
    return found[0] if found else label


def unescape(word: str) -> str:
    """1/2 of the treebank's 1\\/2, and so on."""
    for escaped, plain in (("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "["), ("-RSB-", "]"), ("\\/", "/"), ("\\*", "*")):
        word = word.replace(escaped, plain)
    return word


def phrases(tree: Tree, least: int) -> Iterator[Tree]:
    """The constituents of a cleaned tree that have `least` words, or more but not all of them, each under a TOP."""
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
