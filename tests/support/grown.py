"""Bracketed trees for tests: read from a text, or drawn by hypothesis."""

from hypothesis import strategies as st

from transformer.parsing.trees import Close, Leaf, Open, parse

tokens = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="()"), min_size=1)
leaves = st.builds(lambda tag, word: [Leaf(tag, word)], tokens, tokens)


def constituents(children):
    """Draw brackets around one or more trees."""
    inner = st.lists(children, min_size=1, max_size=4).map(lambda trees: [event for tree in trees for event in tree])
    return st.builds(lambda label, inside: [Open(label), *inside, Close(label)], tokens, inner)


trees = st.recursive(leaves, constituents)


def read(text: str) -> list:
    """Return the one tree in a text."""
    ((_, tree),) = parse(text.split("\n"), "text")
    return tree
