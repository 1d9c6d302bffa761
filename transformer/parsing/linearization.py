"""§6.3: a tree as what the parser reads and what it writes, and back.

The parser reads words and writes the tree without them, as Vinyals et al. (2015) have it but with the words' tags, as
the authors' code: (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))) becomes

    the cat sleeps .
    (S (NP DT NN )NP (VP VBZ )VP . )S

What it writes need not be a tree over these words. `decode` then makes one, and says what was wrong.
"""

import re

from transformer.parsing.trees import TOP, Close, Leaf, Open, Tree, words

UNSAID = "XX"  # the tag of a word for which the parser wrote none
SYMBOL = re.compile(r"(?P<bracket>[()]?)(?P<label>[^\s()]+)")


def encode(tree: Tree) -> tuple[list[str], list[str]]:
    """The words of a cleaned tree, and its symbols, one for each opening bracket, word and closing bracket."""
    return words(tree), [symbol(event) for event in tree[1:-1]]


def symbol(event: Open | Leaf | Close) -> str:
    match event:
        case Open(label):
            return f"({label}"
        case Close(label):
            return f"){label}"
        case Leaf(tag, _):
            return tag


def decode(symbols: list[str], sentence: list[str]) -> tuple[Tree, str | None]:
    """The tree that `symbols` say over the words of `sentence`, and what had to be mended to make it one, or None.

    Symbols are followed from left to right. A closing bracket closes what is open within its constituent, too; one
    without its constituent is dropped. Tags beyond the last word are dropped; words beyond the last tag go, each tagged
    XX, to the end of the outermost constituent that is open or, if none is, of the one that holds all others, or else
    under TOP. Constituents without a word are dropped, and what is still open is closed. What cannot stand in a written
    tree (an empty label; brackets or spaces in one) is no symbol and is dropped.
    """
    builder = Builder(sentence)
    for said in symbols:
        builder.follow(said)
    return builder.finished(), "; ".join(dict.fromkeys(builder.faults)) or None


class Builder:
    """A tree in the making, and what was wrong with the symbols so far."""

    def __init__(self, sentence: list[str]):
        self.left = sentence[::-1]  # the words without a tag yet, next one last
        self.tree: Tree = [Open(TOP)]
        self.open: list[str] = []  # labels of the constituents that are open, TOP aside
        self.roots = 0  # how many constituents and words stand directly under TOP
        self.faults: list[str] = []

    def follow(self, said: str) -> None:
        """Do what one symbol says, as far as it can be done."""
        found = SYMBOL.fullmatch(said)
        if not found:
            self.faults.append("an unreadable symbol")
        elif found["bracket"] == "(":
            self.begin(found["label"])
        elif found["bracket"] == ")":
            self.close(found["label"])
        elif self.left:
            self.leaf(found["label"])
        else:
            self.faults.append("more tags than words")

    def begin(self, label: str) -> None:
        self.roots += not self.open
        self.open.append(label)
        self.tree.append(Open(label))

    def leaf(self, tag: str) -> None:
        self.roots += not self.open
        self.tree.append(Leaf(tag, self.left.pop()))

    def close(self, label: str) -> None:
        if label not in self.open:
            self.faults.append(f"a ){label} that closes nothing")
            return
        if self.open[-1] != label:
            self.faults.append(f"a ){label} that closes a {self.open[-1]}")
        while self.close_last() != label:
            pass

    def close_last(self) -> str:
        """Close the innermost constituent, or drop it if it holds nothing."""
        label = self.open.pop()
        if isinstance(self.tree[-1], Open):
            self.faults.append(f"an empty {label}")
            self.tree.pop()
            self.roots -= not self.open
        else:
            self.tree.append(Close(label))
        return label

    def finished(self) -> Tree:
        """The tree over all the words."""
        if self.open:
            self.faults.append("brackets left open")
        if self.left:
            self.faults.append("fewer tags than words")
            self.return_to_outermost()
            while self.left:
                self.leaf(UNSAID)
        while self.open:
            self.close_last()
        return [*self.tree, Close(TOP)]

    def return_to_outermost(self) -> None:
        """Go back into the outermost constituent that is open or, if none is, into the one that holds all others."""
        while len(self.open) > 1:
            self.close_last()
        if not self.open and self.roots == 1 and isinstance(self.tree[-1], Close):
            self.open.append(self.tree.pop().label)
