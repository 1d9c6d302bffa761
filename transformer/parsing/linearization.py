"""§6.3: from a tree to what the parser reads and what it writes, and back.

The parser reads words and writes the tree without them, as in Vinyals et al. (2015) but with the words' tags, as in
the authors' code: (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))) becomes

    the cat sleeps .
    (S (NP DT NN )NP (VP VBZ )VP . )S

What it writes need not be a tree over these words. `decode` then makes one, and returns what was wrong.
"""

import re

from transformer.parsing.trees import TOP, Close, Leaf, Open, Tree, words

UNTAGGED = "XX"  # the tag of a word for which the parser wrote none
SYMBOL = re.compile(r"(?P<bracket>[()]?)(?P<label>[^\s()]+)")


def encode(tree: Tree) -> tuple[list[str], list[str]]:
    """Return the words of a cleaned tree and its symbols, one for each opening bracket, word and closing bracket."""
    return words(tree), [symbol(event) for event in tree[1:-1]]


def symbol(event: Open | Leaf | Close) -> str:
    """Return the symbol of a bracket or a word."""
    match event:
        case Open(label):
            return f"({label}"
        case Close(label):
            return f"){label}"
        case Leaf(tag, _):
            return tag


def decode(symbols: list[str], sentence: list[str]) -> tuple[Tree, str | None]:
    """Return the tree that `symbols` describe over the words of `sentence`, and what had to be repaired, or None.

    Symbols are followed from left to right. A closing bracket also closes what is open within its constituent; one
    without its constituent is dropped. Tags beyond the last word are dropped. Words beyond the last tag get the tag XX
    and go to the end of the outermost open constituent or, if none is open, of the one that holds all others, or else
    under TOP. Constituents without a word are dropped, and what is still open is closed. A symbol that no written tree
    can contain (an empty label; brackets or spaces in one) is dropped.
    """
    builder = Builder(sentence)
    for text in symbols:
        builder.follow(text)
    return builder.finished(), "; ".join(dict.fromkeys(builder.faults)) or None


class Builder:
    """A tree under construction, and what was wrong with the symbols so far."""

    def __init__(self, sentence: list[str]):
        self.left = sentence[::-1]  # the words without a tag yet, next one last
        self.tree: Tree = [Open(TOP)]
        self.open: list[str] = []  # labels of the constituents that are open, except TOP
        self.roots = 0  # how many constituents and words stand directly under TOP
        self.faults: list[str] = []

    def follow(self, text: str) -> None:
        """Carry out one symbol, as far as possible."""
        match = SYMBOL.fullmatch(text)
        if not match:
            self.faults.append("an unreadable symbol")
        elif match["bracket"] == "(":
            self.begin(match["label"])
        elif match["bracket"] == ")":
            self.close(match["label"])
        elif self.left:
            self.leaf(match["label"])
        else:
            self.faults.append("more tags than words")

    def begin(self, label: str) -> None:
        """Open a constituent."""
        self.roots += not self.open
        self.open.append(label)
        self.tree.append(Open(label))

    def leaf(self, tag: str) -> None:
        """Tag the next word."""
        self.roots += not self.open
        self.tree.append(Leaf(tag, self.left.pop()))

    def close(self, label: str) -> None:
        """Close the innermost constituent with this label, and all in it that are open."""
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
        """Return the tree over all the words."""
        if self.open:
            self.faults.append("brackets left open")
        if self.left:
            self.faults.append("fewer tags than words")
            self.return_to_outermost()
            while self.left:
                self.leaf(UNTAGGED)
        while self.open:
            self.close_last()
        return [*self.tree, Close(TOP)]

    def return_to_outermost(self) -> None:
        """Go back into the outermost constituent that is open or, if none is, into the one that holds all others."""
        while len(self.open) > 1:
            self.close_last()
        if not self.open and self.roots == 1 and isinstance(self.tree[-1], Close):
            self.open.append(self.tree.pop().label)
