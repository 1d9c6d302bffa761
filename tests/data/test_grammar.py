"""The demo grammar: hand-written translations and declensions, and what must hold of every sentence."""

import os
import re
import subprocess
import sys
from itertools import islice, repeat

import pytest
from sacremoses import MosesTokenizer

from transformer.commands import prepare
from transformer.data import grammar
from transformer.data.grammar import take
from transformer.data.lexicon import ADJECTIVES, BE, NOUNS, PREPOSITIONS, VERBS
from transformer.data.syntax import (
    Item,
    clause,
    compound,
    finished,
    governed,
    located,
    made,
    noun_phrase,
    pair,
    place,
    pronoun,
    quality,
    related,
    statement,
    subordinate,
    trace,
)
from transformer.files import InputError
from transformer.parsing.trees import bracketed, parse_trees, words


@pytest.fixture(scope="module")
def items():
    return take(seed=1, skip=0, count=2000)


def row(table, en, **columns):
    """Return the one row of a lexicon table with these values."""
    columns = {"en": en, **columns}
    (match,) = [r for r in table if all(getattr(r, column) == value for column, value in columns.items())]
    return match


def np(words, plural=False, owner=None):
    """Make a noun phrase from its English singular: "the old dog", "Paul", "own key"."""
    determiner, *adjectives, noun = words.split() if " " in words else ("", words)
    adjectives = tuple(row(ADJECTIVES, adjective) for adjective in adjectives)
    return noun_phrase(row(NOUNS, noun), determiner, adjectives, plural, owner)


def does(subject, verb, thing=None, recipient=None, **columns):
    verb = row(VERBS, verb, **columns)
    return clause(subject, verb, governed(verb, thing, recipient))


def at(preposition, ground):
    return place(row(PREPOSITIONS, preposition), ground)


def eats_up(thing=None):
    return does(np("the dog"), "eat", thing or np("the apple"), en_prt="up", by="a")


def possession(subject, verb, thing, plural=False, **columns):
    return statement(does(subject, verb, np(thing, plural, owner=subject), **columns))


def sentence_because_it_is(word, of_subject):
    subject, thing = np("the dog"), np("the apple")
    it = pronoun(subject if of_subject else thing)
    reason = subordinate("because", clause(it, BE, quality(row(ADJECTIVES, word), it, "too")))
    return statement(eats_up(thing), closing=reason)


def relative_of_subject():
    dogs = np("the dog", plural=True)
    related_dogs = related(dogs, does(trace(dogs), "see", np("a old woman")))
    return statement(does(related_dogs, "sleep"))


def relative_of_object(noun, subject, verb, then, plural=False, **columns):
    phrase = np(noun, plural)
    verb_row = row(VERBS, verb, **columns)
    return statement(does(related(phrase, does(subject, verb, trace(phrase), **columns), verb_row), then))


def more_difficult():
    games = np("the important game", plural=True)
    verb = row(VERBS, "love")
    games = related(games, does(np("the boy"), "love", trace(games)), verb)
    return statement(clause(np("every question"), row(VERBS, "make"), made(games, row(ADJECTIVES, "difficult"))))


TRANSLATIONS = {
    "separable prefix": (
        lambda: statement(eats_up()),
        "The dog eats the apple up.",
        "Der Hund frisst den Apfel auf.",
        "Le chien dévore la pomme.",
    ),
    "verb-final complement": (
        lambda: statement(clause(np("Paul"), row(VERBS, "think"), after=subordinate("that", eats_up()))),
        "Paul thinks that the dog eats the apple up.",
        "Paul glaubt, dass der Hund den Apfel auffrisst.",
        "Paul croit que le chien dévore la pomme.",
    ),
    "verb-second after a subordinate clause": (
        lambda: statement(does(np("Anna"), "sleep"), opening=subordinate("if", does(np("the bird"), "wake"))),
        "If the bird wakes up, Anna sleeps.",
        "Wenn der Vogel aufwacht, schläft Anna.",
        "Si l'oiseau se réveille, Anna dort.",
    ),
    "agreement across a relative clause": (
        relative_of_subject,
        "The dogs that see an old woman sleep.",
        "Die Hunde, die eine alte Frau sehen, schlafen.",
        "Les chiens qui voient une vieille femme dorment.",
    ),
    "relative pronoun in the accusative": (
        lambda: relative_of_object("the king", np("the woman", plural=True), "invite", "sing"),
        "The king whom the women invite sings.",
        "Der König, den die Frauen einladen, singt.",
        "Le roi que les femmes invitent chante.",
    ),
    "relative pronoun in the dative": (
        lambda: relative_of_object("the woman", np("Anna"), "help", "laugh", plural=True),
        "The women whom Anna helps laugh.",
        "Die Frauen, denen Anna hilft, lachen.",
        "Les femmes qu'Anna aide rient.",
    ),
    "relative pronoun after a preposition": (
        lambda: relative_of_object("the horse", np("this boy"), "wait", "arrive"),
        "The horse that this boy waits for arrives.",
        "Das Pferd, auf das dieser Junge wartet, kommt an.",
        "Le cheval que ce garçon attend arrive.",
    ),
    "her keys": (
        lambda: possession(np("the woman"), "forget", "own key", plural=True),
        "The woman forgets her keys.",
        "Die Frau vergisst ihre Schlüssel.",
        "La femme oublie ses clés.",
    ),
    "its egg, a cat's": (
        lambda: possession(np("the cat"), "eat", "own egg", by="a", en_prt=""),
        "The cat eats its egg.",
        "Die Katze frisst ihr Ei.",
        "Le chat mange son œuf.",
    ),
    "their school": (
        lambda: possession(np("the boy", plural=True), "see", "own school"),
        "The boys see their school.",
        "Die Jungen sehen ihre Schule.",
        "Les garçons voient leur école.",
    ),
    "it, the subject": (
        lambda: sentence_because_it_is("hungry", of_subject=True),
        "The dog eats the apple up because it is too hungry.",
        "Der Hund frisst den Apfel auf, weil er zu hungrig ist.",
        "Le chien dévore la pomme parce qu'il est trop affamé.",
    ),
    "it, the object": (
        lambda: sentence_because_it_is("heavy", of_subject=False),
        "The dog eats the apple up because it is too heavy.",
        "Der Hund frisst den Apfel auf, weil er zu schwer ist.",
        "Le chien dévore la pomme parce qu'elle est trop lourde.",
    ),
    "make ... more difficult": (
        more_difficult,
        "Every question makes the important games that the boy loves more difficult.",
        "Jede Frage macht die wichtigen Spiele, die der Junge liebt, schwieriger.",
        "Chaque question rend les jeux importants que le garçon aime plus difficiles.",
    ),
    "dative before accusative": (
        lambda: statement(does(np("a king"), "give", np("a good book"), np("the boy", plural=True), en_prt="back")),
        "A king gives a good book back to the boys.",
        "Ein König gibt den Jungen ein gutes Buch zurück.",
        "Un roi rend un bon livre aux garçons.",
    ),
    "genitives": (
        lambda: statement(
            does(np("'s old horse", owner=np("Anna")), "follow", np("'s bear", owner=np("the man"))),
        ),
        "Anna's old horse follows the man's bear.",
        "Annas altes Pferd folgt dem Bären des Mannes.",
        "Le vieux cheval d'Anna suit l'ours de l'homme.",
    ),
    "places": (
        lambda: statement(does(located(np("a cat"), at("near", np("the garden"))), "sleep")),
        "A cat near the garden sleeps.",
        "Eine Katze beim Garten schläft.",
        "Un chat près du jardin dort.",
    ),
    "coordination": (
        lambda: compound(
            statement(clause(both := pair(np("Anna"), np("Paul")), BE, quality(row(ADJECTIVES, "tired"), both))),
            "but",
            statement(clause(both := pair(np("a cow"), np("the mouse")), BE, quality(row(ADJECTIVES, "big"), both))),
        ),
        "Anna and Paul are tired, but a cow and the mouse are big.",
        "Anna und Paul sind müde, aber eine Kuh und die Maus sind groß.",
        "Anna et Paul sont fatigués, mais une vache et la souris sont grandes.",
    ),
}


@pytest.mark.parametrize(("build", "en", "de", "fr"), TRANSLATIONS.values(), ids=TRANSLATIONS)
def test_translations_are_those_written_by_hand(build, en, de, fr):
    assert finished(build())[:3] == (en, de, fr)


def test_tree_is_the_one_written_by_hand():
    assert finished(statement(eats_up())).tree == (
        "(S (NP (DT The) (NN dog)) (VP (VBZ eats) (NP (DT the) (NN apple)) (PRT (RP up))) (. .))"
    )
    assert finished(relative_of_subject()).tree == (
        "(S (NP (NP (DT The) (NNS dogs)) (SBAR (WHNP (WDT that)) (S (VP (VBP see) (NP (DT an) (JJ old) (NN woman))))))"
        " (VP (VBP sleep)) (. .))"
    )


DECLENSIONS = {  # nominative, accusative, dative, genitive; a star marks the plural
    "the old dog": "der alte Hund, den alten Hund, dem alten Hund, des alten Hundes",
    "a old dog": "ein alter Hund, einen alten Hund, einem alten Hund, eines alten Hundes",
    "a tired cow": "eine müde Kuh, eine müde Kuh, einer müden Kuh, einer müden Kuh",
    "a red house": "ein rotes Haus, ein rotes Haus, einem roten Haus, eines roten Hauses",
    "this young bear": "dieser junge Bär, diesen jungen Bären, diesem jungen Bären, dieses jungen Bären",
    "*the old dog": "die alten Hunde, die alten Hunde, den alten Hunden, der alten Hunde",
    "*some old dog": "einige alte Hunde, einige alte Hunde, einigen alten Hunden, einiger alter Hunde",
    "*two young bear": "zwei junge Bären, zwei junge Bären, zwei jungen Bären, zwei junger Bären",
}
AGREEMENT = {
    "this old bird": "ce vieil oiseau",
    "*this old bird": "ces vieux oiseaux",
    "a beautiful black bear": "un bel ours noir",
    "this man": "cet homme",
    "*some big horse": "quelques grands chevaux",
    "*the tired mouse": "les souris fatiguées",
}


@pytest.mark.parametrize(("words", "forms"), DECLENSIONS.items())
def test_german_declines_as_in_a_textbook(words, forms):
    assert ", ".join(np(words.strip("*"), plural=words[0] == "*").de.values()) == forms


@pytest.mark.parametrize(("words", "french"), AGREEMENT.items())
def test_french_noun_phrases_agree(words, french):
    assert np(words.strip("*"), plural=words[0] == "*").fr == french


def test_slices_of_the_stream_fit_together(items):
    """No sentence comes twice on any side."""
    assert take(seed=1, skip=300, count=100) == items[300:400]
    assert take(seed=2, skip=0, count=100) != items[:100]
    assert [len(set(side)) for side in list(zip(*items, strict=True))[:3]] == [len(items)] * 3
    with pytest.raises(InputError, match="at least 0, found -1 and 5"):
        take(seed=1, skip=-1, count=5)


def test_stream_does_not_depend_on_the_hash_order(items):
    script = (
        "import sys; from transformer.data.grammar import take; sys.stdout.buffer.write(repr(take(1, 0, 100)).encode())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "2"}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert result.stdout.decode() == repr(items[:100])


def test_trees_are_bracketed_over_the_moses_tokens(items):
    moses = MosesTokenizer(lang="en")
    for item in items:
        ((_, tree),) = parse_trees([item.tree], "a tree")
        assert bracketed(tree) == item.tree
        assert words(tree) == moses.tokenize(item.en, escape=False)


def test_sentences_are_well_formed(items):
    for item in items:
        for sentence in item[:3]:
            assert re.fullmatch(r"[^\W\d_a-zäöü](?:[\w']|,(?= )| (?=\w))+\.", sentence), sentence


def test_articles_are_euphonic_and_french_contracts(items):
    english = re.compile(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]")
    french = re.compile(r"\b(?:[LlDdSs][ea]|[Qq]ue|[Cc]e) [aeiouhœâéê]|\b(?:de|à) les?\b")
    assert not [item for item in items if english.search(item.en) or french.search(item.fr)]


def test_german_verb_ends_a_subordinate_clause_and_is_second_in_the_main_one(items):
    finite = {form for verb in VERBS for form in (verb.de, verb.de_sg)}
    final = {verb.prefix + form for verb in VERBS for form in (verb.de, verb.de_sg)}
    closing = [re.fullmatch(r"[^,]+, (?:dass|weil|wenn|während) [^,]+ (\w+)\.", item.de) for item in items]
    opening = [re.fullmatch(r"(?:Weil|Wenn|Während) [^,]+ (\w+), (\w+) [^,]+\.", item.de) for item in items]
    closing, opening = list(filter(None, closing)), list(filter(None, opening))
    assert min(len(closing), len(opening)) > 100
    assert all(match[1] in final for match in closing + opening)
    assert all(match[2] in finite for match in opening)


def test_sentences_are_short_and_the_vocabulary_is_small(items):
    lengths = [len(item.en.split()) for item in items]
    assert min(lengths) >= 3
    assert max(lengths) <= 25
    assert 9 < sum(lengths) / len(lengths) < 12
    for side in list(zip(*items, strict=True))[:3]:
        types = {word for sentence in side for word in re.findall(r"\w+", sentence.lower())}
        assert 150 < len(types) < 310


def test_distinct_drops_an_item_of_which_one_side_is_known():
    first, same_german, second = Item("a", "b", "c", ""), Item("x", "b", "y", ""), Item("c", "d", "e", "")
    assert list(grammar.distinct([first, same_german, second])) == [first, second]


def test_an_exhausted_grammar_is_an_error():
    item = Item("a", "b", "c", "")
    stream = grammar.distinct(repeat(item))
    assert next(stream) == item
    with pytest.raises(InputError, match=f"only 1 distinct sentences found, then {grammar.TRIES} tries"):
        next(stream)


def test_stage_writes_aligned_files(tmp_path, items):
    output = tmp_path / "corpora" / "grammar-dev"
    prepare.generate(seed=1, skip=20, take=30, output=output)
    lines = [output.with_suffix(f".{side}").read_bytes().decode().split("\n") for side in ("en", "de", "fr", "trees")]
    assert [list(item) for item in items[20:50]] == [list(item) for item in islice(zip(*lines, strict=True), 30)]
    assert [side[30:] for side in lines] == [[""]] * 4
    assert len(list(output.parent.iterdir())) == 4
