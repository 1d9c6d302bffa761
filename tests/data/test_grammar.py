"""The demo's language: translations and declensions written by hand, and what holds of every sentence."""

import os
import re
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some
from sacremoses import MosesTokenizer
from support.project import ROOT

from transformer.commands import prepare
from transformer.data.grammar import Item, take
from transformer.files import InputError
from transformer.parsing.trees import bracketed, one_a_line, words

EXAMPLES = """
A question is too complicated. | Eine Frage ist zu kompliziert. | Une question est trop compliquée.
The small hens must find a teacher. | Die kleinen Hühner müssen einen Lehrer finden. | \
Les petites poules doivent trouver un professeur.
The black hen must hear its hungry cat. | Das schwarze Huhn muss seine hungrige Katze hören. | \
La poule noire doit entendre son chat affamé.
The cow finds its small table without its cats. | Die Kuh findet ihren kleinen Tisch ohne ihre Katzen. | \
La vache trouve sa petite table sans ses chats.
This king draws this big house without his mothers. | Dieser König zeichnet dieses große Haus ohne seine Mütter. | \
Ce roi dessine cette grande maison sans ses mères.
These plans make a popular problem more complicated. | Diese Pläne machen ein beliebtes Problem komplizierter. | \
Ces plans rendent un problème populaire plus compliqué.
"""
TREES = [
    "(S (NP (DT The) (NN cow)) (VP (VBZ finds) (NP (NP (PRP$ its) (JJ small) (NN table)) (PP (IN without)"
    " (NP (PRP$ its) (NNS cats))))) (. .))",
    "(S (NP (DT This) (NN queen)) (VP (MD must) (VP (VB clean) (NP (PRP$ her) (JJ heavy) (NNS letters)))) (. .))",
    "(S (NP (DT These) (NNS plans)) (VP (VBP make) (S (NP (DT a) (JJ popular) (NN problem))"
    " (ADJP (RBR more) (JJ complicated)))) (. .))",
]
DECLENSIONS = {  # all that stands before the noun
    "klein\\w* König": "der kleine|den kleinen|dieser kleine|diesen kleinen|ein kleiner|einen kleinen|seinen kleinen|"
    "ihren kleinen",
    "klein\\w* Katze": "die kleine|diese kleine|eine kleine|seine kleine|ihre kleine",
    "klein\\w* Huhn": "das kleine|dieses kleine|ein kleines|sein kleines|ihr kleines",
    "klein\\w* Kühe": "die kleinen|diese kleinen|zwei kleine|seine kleinen|ihre kleinen",
    "grande? maison": "la grande|cette grande|une grande|sa grande|leur grande",
    "petits? rois": "les petits|ces petits|deux petits|ses petits|leurs petits",
}


@pytest.fixture(scope="module")
def items() -> list[Item]:  # every sentence of the demo: for training, dev, test and self-training
    return take(1, 0, 26000)


def test_translations_and_trees_are_those_written_by_hand(items):
    sentences = {item[:3] for item in items}
    assert {tuple(line.split(" | ")) for line in EXAMPLES.strip().split("\n")} <= sentences
    assert set(TREES) <= {item.tree for item in items}


@pytest.mark.parametrize(("phrase", "forms"), DECLENSIONS.items())
def test_phrases_decline_as_in_a_textbook(items, phrase, forms):
    pattern = re.compile(rf"(\w+ {phrase})\b")
    text = " ".join(part[0].lower() + part[1:] for item in items for part in item[1:3])
    assert {match[1].rpartition(" ")[0] for match in pattern.finditer(text)} == set(forms.split("|"))


def test_no_sentence_comes_twice_on_any_side(items):
    assert [len(set(side)) for side in zip(*items, strict=True)] == [len(items)] * 4


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
    """A plural subject has a plural verb and "their", no other has."""
    for item in items:
        subject, rest = re.fullmatch(r"\(S (\(NP.*?\)\)) (\(VP.*)", item.tree).groups()
        plural = "(NNS " in subject
        assert ("(VBZ " not in rest) if plural else ("(VBP " not in rest)
        owner = re.findall(r"NNS? (\w+)", subject)[0]
        pronouns = {"their"} if plural else {"king": {"his"}, "queen": {"her"}}.get(owner, {"his", "her", "its"})
        assert set(re.findall(r"PRP\$ (\w+)", rest)) <= pronouns


def test_a_german_infinitive_comes_last(items):
    last = {item.de[:-1].rpartition(" ")[2] for item in items if "(MD " in item.tree}
    assert last == {"sehen", "finden", "lieben", "verstecken", "zeichnen", "hören", "putzen", "vergessen"}


def test_sentences_of_the_demos_figures_are_in_the_language_but_not_in_the_demo(items):
    known = {word for item in items for word in item.en[:-1].split()}
    for figure in yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["scales"]["demo"]["figures"].values():
        found = figure["text"].rstrip(".").split()
        assert known.issuperset(found)
        assert {figure.get("from", found[0]), *figure.get("to", [])} <= set(found)
        assert figure["text"] not in {item.en for item in items}


def test_stream_does_not_depend_on_the_hash_order(items):
    script = (
        "import sys; from transformer.data.grammar import take; sys.stdout.buffer.write(repr(take(1, 0, 50)).encode())"
    )
    command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONHASHSEED": "2"}
    result = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert result.stdout.decode() == repr(items[:50])


def test_a_negative_slice_is_refused():
    with pytest.raises(InputError, match="at least 0, found -1 and 5"):
        take(seed=1, skip=-1, count=5)


def test_generate_writes_aligned_files(tmp_path, items):
    prepare.generate(seed=1, skip=20, take=30, output=tmp_path / "dev")
    lines = [(tmp_path / f"dev.{side}").read_text("utf-8").splitlines() for side in ("en", "de", "fr", "trees")]
    assert list(zip(*lines, strict=True)) == items[20:50]
