"""Bracketed trees for tests: a small treebank, or drawn by hypothesis."""

from itertools import chain

from hypothesis import strategies as st

from transformer.parsing.trees import Close, Leaf, Open, parse_trees

# Plain sentences and their trees, under TOP and in our format.
TREEBANK = {
    "The cat sleeps.": "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))",
    "The dog doesn't sleep.": "(S (NP (DT The) (NN dog)) (VP (VBZ does) (RB n't) (VP (VB sleep))) (. .))",
    "Mary sees a cat.": "(S (NP (NNP Mary)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
    "Mary's cat runs (fast).": "(S (NP (NP (NNP Mary) (POS 's)) (NN cat)) (VP (VBZ runs)"
    " (PRN (-LRB- -LRB-) (ADVP (RB fast)) (-RRB- -RRB-))) (. .))",
    '"No!" says Mary.': "(SINV (`` ``) (INTJ (UH No)) (. !) ('' '') (VP (VBZ says)) (NP (NNP Mary)) (. .))",
    "Sleep!": "(S (VP (VB Sleep)) (. !))",
    "He runs and she sings.": "(S (S (NP (PRP He)) (VP (VBZ runs))) (CC and)"
    " (S (NP (PRP she)) (VP (VBZ sings))) (. .))",
    "Dogs, cats and birds sleep.": "(S (NP (NNS Dogs) (, ,) (NNS cats) (CC and) (NNS birds)) (VP (VBP sleep)) (. .))",
    "Who sees the dog?": "(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ sees) (NP (DT the) (NN dog)))) (. ?))",
    "The cat on the mat sings.": "(S (NP (NP (DT The) (NN cat)) (PP (IN on) (NP (DT the) (NN mat)))) (VP (VBZ sings))"
    " (. .))",
    "It costs $5.": "(S (NP (PRP It)) (VP (VBZ costs) (NP ($ $) (CD 5))) (. .))",
    "Yes.": "(INTJ (UH Yes) (. .))",
}
PLAIN = list(TREEBANK)
TREES = [f"(TOP {tree})" for tree in TREEBANK.values()]

tokens = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="()"), min_size=1)


def constituent(label: str, inside: list[list]) -> list:
    return [Open(label), *chain(*inside), Close(label)]


trees = st.recursive(
    st.builds(lambda tag, word: [Leaf(tag, word)], tokens, tokens),
    lambda inner: st.builds(constituent, tokens, st.lists(inner, min_size=1, max_size=4)),
)


def read(text: str) -> list:
    """Return the only tree in a text."""
    (tree,) = parse_trees(text.split("\n"), "text")
    return tree
