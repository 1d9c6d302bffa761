"""A tree as symbols and back; and whatever a parser writes is mended into a tree over the words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.trees import read, trees

from transformer.parsing.linearization import decode, encode
from transformer.parsing.trees import Close, Leaf, Open, bracketed, clean, words

CAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))"
SYMBOLS = "(S (NP DT NN )NP (VP VBZ )VP . )S"

ODD = ["", " ", "(", ")", "()", "((", ")(", "(S(", "(NP)", "DT)", "a b", "\n", "(\u00a0"]
ODD += ["<unk>", "-LRB-", "-NONE-", "(TOP", ")TOP"]
likely = st.sampled_from(["(S", ")S", "(NP", ")NP", "(VP", ")VP", "DT", "NN", *ODD])
symbols = st.lists(likely | st.text(), max_size=30)
sentences = st.lists(st.sampled_from(["the", "cat", "(", ")", "."]), min_size=1, max_size=8)


def mended(written: str, sentence: str) -> tuple[str, str | None]:
    """Return the tree of these symbols over these words, both with spaces between them, and its faults."""
    tree, faults = decode(written.split(), sentence.split())
    return bracketed(tree), faults


def expect_balance(tree) -> None:
    """Check that every closing bracket fits its opening one, nothing is empty, and TOP is around all."""
    assert tree[0] == Open("TOP")
    open_labels = []
    for before, event in zip([None, *tree], tree, strict=False):
        match event:
            case Open(label):
                assert open_labels or before is None
                open_labels.append(label)
            case Close(label):
                assert not isinstance(before, Open)
                assert open_labels.pop() == label
            case Leaf():
                assert open_labels
    assert open_labels == []


def test_an_example():
    assert encode(read(CAT)) == (["the", "cat", "sleeps", "."], SYMBOLS.split())
    assert mended(SYMBOLS, "the cat sleeps .") == (CAT, None)


def test_brackets_among_the_words():
    tree = read("(TOP (PRN (-LRB- -LRB-) (NN Re-LRB-a-RRB-d) (-RRB- -RRB-)))")
    assert encode(tree) == (["(", "Re(a)d", ")"], ["(PRN", "-LRB-", "NN", "-RRB-", ")PRN"])
    assert decode(["(PRN", "-LRB-", "NN", "-RRB-", ")PRN"], ["(", "Re(a)d", ")"]) == (tree, None)


@given(trees.map(clean))
@example(read(CAT))
@example(read("(TOP (X (NP (NP (DT a))) (NP (NP (DT b)))) (. .))"))
def test_there_and_back(tree):
    sentence, written = encode(tree)
    assert decode(written, sentence) == (tree, None)


@pytest.mark.parametrize(
    ("written", "sentence", "tree", "faults"),
    [
        ("", "a b", "(XX a) (XX b)", "fewer tags than words"),
        # Words beyond the last tag: into the outermost constituent, open or closed.
        ("(S (NP DT )NP )S", "a b", "(S (NP (DT a)) (XX b))", "fewer tags than words"),
        ("(S (NP DT )NP", "a b", "(S (NP (DT a)) (XX b))", "brackets left open; fewer tags than words"),
        ("(S (NP DT", "a b", "(S (NP (DT a)) (XX b))", "brackets left open; fewer tags than words"),
        ("(S", "a b", "(S (XX a) (XX b))", "brackets left open; fewer tags than words"),
        ("(S (NP", "a", "(S (XX a))", "brackets left open; fewer tags than words; an empty NP"),
        ("(S DT )S .", "a . c", "(S (DT a)) (. .) (XX c)", "fewer tags than words"),
        (". (S DT )S", ". b c", "(. .) (S (DT b)) (XX c)", "fewer tags than words"),
        ("(S DT )S (X NN", "a b c", "(S (DT a)) (X (NN b) (XX c))", "brackets left open; fewer tags than words"),
        # More tags than words.
        ("(S DT NN )S", "a", "(S (DT a))", "more tags than words"),
        # Brackets.
        ("(S (NP DT", "a", "(S (NP (DT a)))", "brackets left open"),
        ("(S DT )S )S", "a", "(S (DT a))", "a )S that closes nothing"),
        (")S DT", "a", "(DT a)", "a )S that closes nothing"),
        ("(S DT )NP NN )S", "a b", "(S (DT a) (NN b))", "a )NP that closes nothing"),
        ("(S (NP DT )S", "a", "(S (NP (DT a)))", "a )S that closes a NP"),
        ("(S (NP DT )S NN )NP", "a b", "(S (NP (DT a))) (NN b)", "a )S that closes a NP; a )NP that closes nothing"),
        ("(S (NP )NP DT )S", "a", "(S (DT a))", "an empty NP"),
        ("(S (NP )S DT", "a", "(DT a)", "a )S that closes a NP; an empty NP; an empty S"),
        # Each fault is named once.
        (")S )S (S DT DT DT )S", "a", "(S (DT a))", "a )S that closes nothing; more tags than words"),
        # What is no symbol takes no word; a strange tag does.
        ("(S ( DT ) (S(NP NN) )S", "a", "(S (DT a))", "an unreadable symbol"),
        ("(S <unk> )S", "a", "(S (<unk> a))", None),
    ],
)
def test_mending(written, sentence, tree, faults):
    assert mended(written, sentence) == (f"(TOP {tree})", faults)


@pytest.mark.parametrize("written", ODD)
def test_odd_symbols(written):
    tree, _ = decode(["(S", written, "DT", ")S"], ["a", "b"])
    assert words(read(bracketed(tree))) == ["a", "b"]


@given(symbols, sentences)
@example([], ["the"])
@example(["(NP"] * 5000 + ["DT"], ["the", "cat"])
def test_whatever_is_said_becomes_a_tree_over_the_words(written, sentence):
    tree, faults = decode(written, sentence)
    assert words(tree) == sentence
    expect_balance(tree)
    assert read(bracketed(tree)) == tree
    if faults is None:
        assert encode(tree) == (sentence, written)


@given(symbols, sentences)
def test_what_is_mended_needs_no_mending(written, sentence):
    tree, _ = decode(written, sentence)
    assert decode(*reversed(encode(tree))) == (tree, None)
