"""§6.3: from a tree to what the parser reads and what it writes, and back.

The parser reads words and writes the tree without them, as in Vinyals et al. (2015) but with the words' tags, as in
the authors' code: (TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))) becomes

    the cat sleeps .
    (S (NP DT NN )NP (VP VBZ )VP . )S

A parser may write what is no tree over these words. `decode` then makes one, and names each repair.
"""

import re

from transformer.parsing.trees import TOP, Close, Leaf, Open, Tree, words

UNTAGGED = "XX"  # the tag of a word for which the parser wrote none
WRITTEN = re.compile(r"(?P<bracket>[()]?)(?P<label>[^\s()]+)")


def encode(tree: Tree) -> tuple[list[str], list[str]]:
    """Return the words of a cleaned tree and its symbols, one for each opening bracket, word and closing bracket."""
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
    """Return the tree that `symbols` describe over the words of `sentence`, and its faults, or None.

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
    """A tree under construction, and the faults of the symbols so far."""

    def __init__(self, sentence: list[str]):
        self.left = sentence[::-1]  # the words without a tag yet, next one last
        self.tree: Tree = [Open(TOP)]
        self.open: list[str] = []  # labels of the constituents that are open, except TOP
        self.roots = 0  # constituents and words directly under TOP
        self.faults: list[str] = []

    def follow(self, text: str) -> None:
        """Carry out one symbol, as far as possible."""
        match = WRITTEN.fullmatch(text)
        if not match:
            self.faults.append("an unreadable symbol")
        elif match["bracket"] == "(":
            self.roots += not self.open
            self.open.append(match["label"])
            self.tree.append(Open(match["label"]))
        elif match["bracket"] == ")":
            self.close(match["label"])
        elif self.left:
            self.tag_next(match["label"])
        else:
            self.faults.append("more tags than words")

    def tag_next(self, tag: str) -> None:
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
            while len(self.open) > 1:
                self.close_last()
            if not self.open and self.roots == 1 and isinstance(self.tree[-1], Close):
                self.open.append(self.tree.pop().label)
            while self.left:
                self.tag_next(UNTAGGED)
        while self.open:
            self.close_last()
        return [*self.tree, Close(TOP)]
