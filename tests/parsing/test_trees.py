"""Bracketed trees are read, cleaned, written, and converted to symbols and back. test_treebanks.py has NLTK's trees."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.trees import read, trees

from transformer.parsing.trees import (
    bracketed,
    clean,
    decode,
    encode_tree,
    parse_trees,
    words,
)
from transformer.storage.files import InputError


def cleaned(text: str) -> str:
    return bracketed(clean(read(text)))


def test_trees_wherever_they_begin_and_end():
    lines = ["", "( (S", "\t(NP (DT", "the)) )", ")(X (Y z)) (A b)", "( (X", "  (Y z)))", ""]
    trees = map(bracketed, parse_trees(lines, "text"))
    assert list(trees) == ["( (S (NP (DT the))))", "(X (Y z))", "(A b)", "( (X (Y z)))"]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("(S (A b))\n(S (A b)))", 2, "')'"),
        ("(A b)\n(S (A b)\n(A b)", 2, "none"),
        ("(S\n(A ))", 2, "')'"),
        ("(S\n(NP (A b) c))", 2, "'c'"),
        ("(S\n(NP a (A b)))", 2, "'('"),
        ("(( ()", 1, "')'"),
        ("(CD 1\t000)", 1, "'000'"),
    ],
)
def test_wrong_brackets(text, line, found):
    with pytest.raises(InputError, match=rf"^a\.mrg, line {line}: expected .*, found {re.escape(found)}$"):
        list(parse_trees(text.split("\n"), "a.mrg"))


def test_brackets_in_words():
    text = "(NP (-LRB- -LRB-) (NN Spouse-LRB-s-RRB-) (-RRB- -RRB-))"
    assert words(read(text)) == ["(", "Spouse(s)", ")"]
    assert bracketed(read(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (DT the)))", "(S (DT the))"),
        ("(S1 (S (DT the)))", "(S (DT the))"),
        ("(TOP ( (ROOT (S (DT the)))))", "(S (DT the))"),
        ("(ROOT (S (DT the)) (. .))", "(S (DT the)) (. .)"),
        ("( (S (NP-SBJ-1 (DT the)) (NP=2 (DT a)) (NP-LGS|TMP (NN b))))", "(S (NP (DT the)) (NP (DT a)) (NP (NN b)))"),
        ("(X (-LRB- -LRB-) (PRP$ my) (`` ``) (: --) (-RRB- -RRB-))",) * 2,
        ("(X (= =) (| |) (- -))",) * 2,
        ("(X (NN 1\\/2) (SYM \\*) (NN and\\/or\\*))", "(X (NN 1/2) (SYM *) (NN and/or*))"),
        ("(X (-LRB- -LCB-) (-LRB- -LSB-) (-RRB- -RSB-) (-RRB- -RCB-))", "(X (-LRB- {) (-LRB- [) (-RRB- ]) (-RRB- }))"),
        ("(S (NP-SBJ (-NONE- *-1)) (VP (VB go) (NP (-NONE- *T*-2))))", "(S (VP (VB go)))"),
        ("(S (SBAR (-NONE- 0) (S (VB do) (NP (-NONE- *)))) (VB go))", "(S (SBAR (S (VB do))) (VB go))"),
    ],
)
def test_cleaning(text, expected):
    assert cleaned(text) == cleaned(f"(TOP {expected})") == f"(TOP {expected})"


@given(trees)
def test_written_trees_are_read_back(tree):
    assume(not any("RB-" in word for word in words(tree)))  # -LRB- would become a bracket
    assert read(bracketed(tree)) == tree


def test_depth_is_no_matter():
    depth = 100_000
    text = "(X " * depth + "(A b)" + ")" * depth
    assert cleaned(text) == f"(TOP {text})"


WHOLE = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))"
SYMBOLS = "(S (NP DT NN )NP (VP VBZ )VP . )S"

ODD = ["", " ", "(", ")", "()", "((", ")(", "(S(", "(NP)", "DT)", "a b", "\n", "(\u00a0"]
ODD += ["<unk>", "-LRB-", "-NONE-", "(TOP", ")TOP"]
likely = st.sampled_from(["(S", ")S", "(NP", ")NP", "(VP", ")VP", "DT", "NN", *ODD])
symbols = st.lists(likely | st.text(), max_size=30)
sentences = st.lists(st.sampled_from(["the", "cat", "(", ")", "."]), min_size=1, max_size=8)


def mended(written: str, sentence: str) -> tuple[str, str | None]:
    tree, faults = decode(written.split(), sentence.split())
    return bracketed(tree), faults


def test_an_example():
    assert encode_tree(read(WHOLE)) == (["the", "cat", "sleeps", "."], SYMBOLS.split())
    assert mended(SYMBOLS, "the cat sleeps .") == (WHOLE, None)


@given(trees.map(clean))
@example(read("(TOP (X (NP (NP (DT a))) (NP (NP (DT b)))) (. .))"))
def test_there_and_back(tree):
    sentence, written = encode_tree(tree)
    assert decode(written, sentence) == (tree, None)


@pytest.mark.parametrize(
    ("written", "sentence", "tree", "faults"),
    [
        ("", "a b", "(XX a) (XX b)", "fewer tags than words"),
        # Words beyond the last tag join the outermost constituent, open or closed.
        ("(S (NP DT )NP )S", "a b", "(S (NP (DT a)) (XX b))", "fewer tags than words"),
        ("(S (NP", "a", "(S (XX a))", "brackets left open; fewer tags than words; an empty NP"),
        ("(S DT )S .", "a . c", "(S (DT a)) (. .) (XX c)", "fewer tags than words"),
        (". (S DT )S", ". b c", "(. .) (S (DT b)) (XX c)", "fewer tags than words"),
        ("(S DT )S (X NN", "a b c", "(S (DT a)) (X (NN b) (XX c))", "brackets left open; fewer tags than words"),
        # More tags than words
        ("(S DT NN )S", "a", "(S (DT a))", "more tags than words"),
        # Brackets
        (")S DT", "a", "(DT a)", "a )S that closes nothing"),
        ("(S (NP DT )S", "a", "(S (NP (DT a)))", "a )S that closes a NP"),
        ("(S (NP DT )S NN )NP", "a b", "(S (NP (DT a))) (NN b)", "a )S that closes a NP; a )NP that closes nothing"),
        ("(S (NP )S DT", "a", "(DT a)", "a )S that closes a NP; an empty NP; an empty S"),
        # Each fault is reported once.
        (")S )S (S DT DT DT )S", "a", "(S (DT a))", "a )S that closes nothing; more tags than words"),
        # An invalid symbol takes no word. An unknown tag takes a word.
        ("(S ( DT ) (S(NP NN) )S", "a", "(S (DT a))", "an unreadable symbol"),
        ("(S <unk> )S", "a", "(S (<unk> a))", None),
    ],
)
def test_mending(written, sentence, tree, faults):
    assert mended(written, sentence) == (f"(TOP {tree})", faults)


@given(symbols, sentences)
@example([], ["the"])
@example(["(S", *ODD, "DT", ")S"], ["a", "b"])
@example(["(NP"] * 5000 + ["DT"], ["the", "cat"])
def test_every_output_becomes_a_tree_over_the_words(written, sentence):
    tree, faults = decode(written, sentence)
    assert words(tree) == sentence
    assert read(bracketed(tree)) == tree
    assert decode(*reversed(encode_tree(tree))) == (tree, None)
    if faults is None:
        assert encode_tree(tree) == (sentence, written)
