"""The demo's language: hand-written translations and declensions, and properties of every sentence."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some
from sacremoses import MosesTokenizer
from support.project import ROOT

from transformer.data.grammar import Item, take
from transformer.parsing.trees import bracketed, one_a_line, words

EXAMPLES = """
A task is too useful. | Eine Aufgabe ist zu nützlich. | Une tâche est trop utile.
This hen cleans its key without its big mothers. | Dieses Huhn putzt seinen Schlüssel ohne seine großen Mütter. | \
Cette poule lave sa clé sans ses grandes mères.
Two young hens clean their cats for their fathers. | Zwei junge Hühner putzen ihre Katzen für ihre Väter. | \
Deux jeunes poules lavent leurs chats pour leurs pères.
The strong mother makes her problem more popular. | Die starke Mutter macht ihr Problem beliebter. | \
La mère forte rend son problème plus populaire.
"""
TREES = [
    "(S (NP (DT This) (NN hen)) (VP (VBZ cleans) (NP (NP (PRP$ its) (NN key)) (PP (IN without)"
    " (NP (PRP$ its) (JJ big) (NNS mothers))))) (. .))",
    "(S (NP (DT A) (JJ hungry) (NN king)) (VP (MD must) (VP (VB love) (NP (CD two) (JJ small) (NNS lamps)))) (. .))",
    "(S (NP (DT The) (JJ strong) (NN mother)) (VP (VBZ makes) (S (NP (PRP$ her) (NN problem))"
    " (ADJP (RBR more) (JJ popular)))) (. .))",
]
DECLENSIONS = {  # the words before the noun
    "klein\\w* König": "der kleine|den kleinen|dieser kleine|diesen kleinen|ein kleiner|einen kleinen|seinen kleinen|"
    "ihren kleinen",
    "klein\\w* Katze": "die kleine|diese kleine|eine kleine|seine kleine|ihre kleine",
    "klein\\w* Huhn": "das kleine|dieses kleine|ein kleines|sein kleines|ihr kleines",
    "klein\\w* Kühe": "die kleinen|diese kleinen|zwei kleine|seine kleinen|ihre kleinen",
    "grande? maison": "la grande|cette grande|une grande|sa grande|leur grande",
    "petits? rois": "les petits|ces petits|deux petits|ses petits|leurs petits",
}


@pytest.fixture(scope="module")
def items() -> list[Item]:  # every sentence of the demo: training, dev, test and self-training
    return take(1, 0, 26000)


def test_translations_and_trees_equal_handwritten_ones(items):
    sentences = {item[:3] for item in items}
    assert {tuple(line.split(" | ")) for line in EXAMPLES.strip().split("\n")} <= sentences
    assert set(TREES) <= {item.tree for item in items}
    assert [len(set(side)) for side in zip(*items, strict=True)] == [len(items)] * 4


@pytest.mark.parametrize(("phrase", "forms"), DECLENSIONS.items())
def test_phrases_decline_as_in_a_textbook(items, phrase, forms):
    pattern = re.compile(rf"(\w+ {phrase})\b")
    text = " ".join(part[0].lower() + part[1:] for item in items for part in item[1:3])
    assert {match[1].rpartition(" ")[0] for match in pattern.finditer(text)} == set(forms.split("|"))


@given(seed=some.integers(0, 2**32), skip=some.integers(0, 50), count=some.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_slices_are_cut_from_one_stream_of_short_sentences(seed, skip, count):
    cut = take(seed, skip, count)
    assert cut == take(seed, 0, skip + count)[skip:]
    moses = MosesTokenizer(lang="en")
    for item in cut:
        tree = next(one_a_line([item.tree], "a tree"))
        assert bracketed(tree) == item.tree
        assert words(tree) == moses.tokenize(item.en, escape=False)
        assert 4 <= len(item.en.split()) <= 12
        for text in item[:3]:
            assert re.fullmatch(r"[A-Z](\w+)?( \w+){3,11}\.", text)


def test_verbs_agree_and_possessives_have_an_antecedent(items):
    """A plural subject has a plural verb and "their". Other subjects have neither."""
    for item in items:
        subject, rest = re.fullmatch(r"\(S (\(NP.*?\)\)) (\(VP.*)", item.tree).groups()
        plural = "(NNS " in subject
        assert ("(VBZ " not in rest) if plural else ("(VBP " not in rest)
        owner = re.findall(r"NNS? (\w+)", subject)[0]
        pronouns = {"their"} if plural else {"king": {"his"}, "queen": {"her"}}.get(owner, {"his", "her", "its"})
        assert set(re.findall(r"PRP\$ (\w+)", rest)) <= pronouns


def test_sentences_of_the_demos_figures_are_in_the_language_but_not_in_the_demo(items):
    known = {word for item in items for word in item.en[:-1].split()}
    for figure in yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["scales"]["demo"]["figures"].values():
        found = figure["text"].rstrip(".").split()
        assert known.issuperset(found)
        assert {figure.get("from", found[0]), *figure.get("to", [])} <= set(found)
        assert figure["text"] not in {item.en for item in items}
