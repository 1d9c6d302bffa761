"""EVALB's counts, compared with its authors' published sample, the C program's output, and trees counted by hand."""

import re
from itertools import count

import pytest

from transformer.parsing.brackets import (
    SentenceCounts,
    bracket_scores,
    compare,
    evalb_summary,
    read_gold_and_test,
)
from transformer.parsing.trees import Tree, parse_trees
from transformer.storage.files import InputError


def tree(text: str) -> Tree:
    """Read a tree that consists of tags and brackets. Its words, except traces, are 0, 1, and so on."""
    number = count()
    leaves = re.sub(r"(?<= )[^\s()]+", lambda tag: f"({tag[0]} {'*' if tag[0] == '-NONE-' else next(number)})", text)
    return read_line(leaves)


def read_line(line: str) -> Tree:
    return [event for tree in parse_trees([line], "a test") for event in tree]


def counted(gold: str, test: str, by_gold: bool = False) -> SentenceCounts:
    return compare(tree(gold), tree(test), 1, by_gold)


def counts(sentence: SentenceCounts) -> tuple[int, int, int]:
    assert sentence.status == "ok", sentence
    return sentence.matched, sentence.gold, sentence.test


def printed(score: dict) -> str:
    """Return numbers of sentences, errors, skipped and valid sentences, and measures with the C program's rounding."""
    values = list(score.values())
    return " ".join([*map(str, values[:4]), *(f"{value:.2f}" for value in values[4:])])


# EVALB's sample: the trees of sample.gld and sample.tst
THIS = "(A (P this)) (B (Q is) (A (R a) (T test)))"
GOLD = [f"(S {THIS})"] * 20
GOLD += ["(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))", f"(S {' '.join([THIS] * 11)})"]
GOLD += [f"(S {THIS} (-NONE- *))", f"(S {THIS} (: *))"]
TEST = [
    f"(S {THIS})",
    "(S (A (P this)) (B (Q is) (C (R a) (T test))))",
    "(S (A (P this)) (B (Q is) (A (R a) (U test))))",
    "(S (C (P this)) (B (Q is) (A (R a) (U test))))",
    "(S (A (P this)) (B (Q is) (R a) (A (T test))))",
    "(S (A (P this) (Q is)) (A (R a) (T test)))",
    "(S (P this) (Q is) (R a) (T test))",
    "(P this) (Q is) (R a) (T test)",
    "(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))",
    "(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))",
    "",
    "(S (A (P this)) (B (Q was) (A (A (R a) (T test)))))",
    "(S (A (P this)) (B (Q is) (U not) (A (A (R a) (T test)))))",
    "",
    f"(TOP (S {THIS}))",
    "(S (A (P this)) (NONE *) (B (Q is) (A (R a) (T test))))",
    "(S (A (P this)) (S (NONE abc) (A (NONE *))) (B (Q is) (A (R a) (T test))))",
    "(S (A (P this)) (B (Q is) (A (R a) (TT test))))",
    "(S (A (P This)) (B (Q is) (A (R a) (T test))))",
    "(S (A (P That)) (B (Q is) (A (R a) (T test))))",
    f"(S {THIS})",
    *GOLD[21:],
]


def sample(gold: list[str], test: list[str]) -> list[SentenceCounts]:
    pairs = zip(map(read_line, gold), map(read_line, test), strict=True)
    return [compare(*pair, number) for number, pair in enumerate(pairs, start=1)]


def test_sample_as_published():
    """The result is sample.rsl. sample.prm equates the tags T and TT, and the words This and this."""
    test = [line.replace("(TT ", "(T ").replace(" This)", " this)") for line in TEST]
    sentences = sample(GOLD, test)
    assert [sentence.number for sentence in sentences if sentence.status == "error"] == [12, 13, 16, 17, 20]
    assert [sentence.number for sentence in sentences if sentence.status == "skip"] == [11, 14]
    assert [sentence.length for sentence in sentences] == [4] * 21 + [44, 4, 5]
    assert [counts(sentence) for sentence in sentences[:10]] == [
        *((4, 4, 4), (3, 4, 4), (4, 4, 4), (3, 4, 4), (3, 4, 4)),
        *((2, 4, 3), (1, 4, 1), (0, 4, 0), (4, 4, 5), (4, 4, 8)),
    ]
    summaries = bracket_scores(sentences)
    assert printed(summaries["all"]) == "24 5 2 17 87.76 90.53 89.12 52.94 0.06 94.12 100.00 98.15"
    assert printed(summaries["len40"]) == "23 5 2 16 81.25 85.25 83.20 50.00 0.06 93.75 100.00 96.88"


def test_sample_by_collins_as_the_program_prints_it():
    summaries = bracket_scores(sample(GOLD, TEST))
    assert printed(summaries["all"]) == "24 6 2 16 87.23 90.11 88.65 50.00 0.06 93.75 100.00 97.12"
    assert printed(summaries["len40"]).endswith("80.00 84.21 82.05 46.67 0.07 93.33 100.00 95.00")


def test_crossing_by_hand():
    for crossing, none, few in ((0, 100, 100), (2, 0, 100), (3, 0, 0)):
        score = evalb_summary([SentenceCounts(1, 5, "ok", crossing=crossing)])
        assert (score["crossing"], score["no_crossing"], score["two_or_less_crossing"]) == (crossing, none, few)


def test_adverbs_are_particles():
    """They are equal as labels and, like in the program, as tags."""
    sentence = counted("(S (ADVP RB) (PRT-X RP) ADVP)", "(S (PRT RB) (ADVP RP) PRT)")
    assert counts(sentence) == (3, 3, 3)
    assert sentence.right_tags == 3


def test_short_sentences_have_40_words_with_punctuation_and_without_traces():
    exact, more = (f"(S {'NN ' * 39}{last} -NONE- -NONE-)" for last in (".", ". ."))
    sentences = [counted(text, text) for text in (exact, more)]
    assert [sentence.length for sentence in sentences] == [40, 41]
    summaries = bracket_scores(sentences)
    assert (summaries["all"]["sentences"], summaries["len40"]["sentences"]) == (2, 1)


def test_a_mistagged_comma_is_no_error_by_golds_tags():
    gold, test = "(S (NP NN , NN))", "(S (NP (X NN) NN ,))"
    assert counted(gold, gold.replace(",", "CD")).why == "2 words in gold, 3 in test"
    sentence = counted(gold, test, by_gold=True)
    assert counts(sentence) == (2, 2, 3)  # only X is wrong
    assert (sentence.right_tags, sentence.words) == (1, 2)  # the tag of the last NN is a comma
    assert counted("(S , NN)", "(S NN NN)", by_gold=True).right_tags == 1
    assert counts(counted("(S (NP -NONE-) (VP VB))", "(S (VP VB))", by_gold=True)) == (2, 2, 2)  # traces are not words
    gold, test = read_line("(S (NN a) (, ,))"), read_line("(S (NN a) (, ;))")
    assert compare(gold, test, 1).status == "ok"
    assert compare(gold, test, 1, by_gold=True).why == "word 2 is ',' in gold, ';' in test"


def test_nothing_found():
    """If none of two brackets is right, F1 is 0. Without any bracket, F1 and recall are undefined."""
    score = evalb_summary([counted("(S NN)", "(X NN)")])
    assert (score["recall"], score["precision"], score["f1"]) == (0, 0, 0)
    score = evalb_summary([counted("(TOP NN)", "(TOP NN)")])
    assert (score["recall"], score["precision"], score["f1"], score["complete"]) == (None, None, None, 100)
    score = evalb_summary([counted("(S NN)", "(TOP NN)")])
    assert (score["recall"], score["precision"], score["f1"]) == (0, None, 0)
    assert set(list(evalb_summary([]).values())[4:]) == {None}


def test_equal_brackets_count_as_often_as_in_both_trees():
    """What follows - or = in a label does not count."""
    assert counts(counted("(S (NP (NP=2 NN)))", "(S (NP-SBJ NN))")) == (2, 3, 2)
    assert counts(counted("(S (NP (NP=2 NN)))", "(S (NP-SBJ (NP NN)))")) == (3, 3, 3)


@pytest.mark.parametrize(
    ("gold", "test", "message"),
    [
        ("(S (N a))\n" * 3, "(S (N a))\n" * 2, r"gold has 3, .*test has 2"),
        ("(S (N a))\n \n", "(S (N a))\n\n", r"gold, line 2: expected a tree, found an empty line"),
    ],
)
def test_bad_files(tmp_path, gold, test, message):
    (tmp_path / "gold").write_text(gold)
    (tmp_path / "test").write_text(test)
    with pytest.raises(InputError, match=message):
        list(read_gold_and_test(tmp_path / "gold", tmp_path / "test"))


def test_trees_without_words_get_the_words_of_gold(tmp_path):
    """A tree with a word of its own, or with too few words, is left unchanged."""
    gold, bare = tmp_path / "gold", tmp_path / "bare"
    gold.write_text("(S (NP (-NONE- *)) (VP (V go) (RP on)) (. .))\n" * 4)
    bare.write_text("\n".join(["(S (VP (V _) (NN _)) (. _))", "", "(S (VP (V _) (RP in)) (. _))", "(S (V _))", ""]))
    expected = ["(S (VP (V go) (NN on)) (. .))", "", "(S (VP (V _) (RP in)) (. _))", "(S (V _))"]
    assert [test for _, test in read_gold_and_test(gold, bare)] == list(map(read_line, expected))
