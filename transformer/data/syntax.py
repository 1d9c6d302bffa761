"""The demo corpus: the rules, each of which builds a phrase in the three languages at once."""

import re
from typing import NamedTuple

from transformer.data.inflection import (
    LEAF,
    NOTHING,
    STRONG,
    Clause,
    Part,
    Phrase,
    english_noun_phrase,
    french_adjective,
    french_contracted,
    french_form,
    french_noun_phrase,
    german_noun_phrase,
    german_order,
    german_relative,
    join,
    tree,
)
from transformer.data.lexicon import FRENCH, GERMAN, Row


class Item(NamedTuple):
    """One sentence in three languages; `tree` is the English one, in brackets, and its leaves are the Moses tokens."""

    en: str
    de: str
    fr: str
    tree: str


def statement(main: Clause, opening: Part = NOTHING, closing: Part = NOTHING) -> Part:
    """Make a main clause, with a subordinate clause before or after it."""
    subject, predicate = main.en
    english = tree("S", opening.en, opening.en and tree(",", ","), subject, tree("VP", predicate, closing.en))
    german = join(opening.de, german_order(main.de, "first" if opening.de else "second"), closing.de)
    return Part(english, german, join(opening.fr, opening.fr and ",", main.fr, closing.fr))


def compound(first: Part, conjunction: str, second: Part) -> Part:
    comma = tree(",", ",") if conjunction == "but" else ""
    english = tree("S", first.en, comma, tree("CC", conjunction), second.en)
    return Part(english, join(first.de, GERMAN[conjunction], second.de), join(first.fr, FRENCH[conjunction], second.fr))


def subordinate(conjunction: str, content: Clause) -> Part:
    english = tree("SBAR", tree("IN", conjunction), statement(content).en)
    german = f", {GERMAN[conjunction]} {german_order(content.de, 'last')} ,"
    return Part(english, german, f"{FRENCH[conjunction]} {content.fr}")


def clause(subject: Phrase, verb: Row, *parts: Part, after: Part = NOTHING) -> Clause:
    """Make a clause of a subject, a verb, what the verb governs, and a clause `after` it."""
    english = tree("VBP", verb.en) if subject.plural else tree("VBZ", verb.en_sg)
    predicate = join(english, *(part.en for part in parts), after.en)
    finite, middle = verb.de if subject.plural else verb.de_sg, join(*(part.de for part in parts))
    german = (subject.de["nom"], finite, middle, verb.prefix, after.de)
    french = (subject.fr, verb.fr if subject.plural else verb.fr_sg, *(part.fr for part in parts), after.fr)
    return Clause((subject.en, predicate), german, join(*french))


def governed(verb: Row, thing: Phrase | None, recipient: Phrase | None = None) -> Part:
    """Make the objects of a verb, and its English particle, which follows the object unless that is complex."""
    particle = verb.en_prt and tree("PRT", tree("RP", verb.en_prt))
    if not thing:
        return Part(particle, "", "")
    english = tree("PP", tree("IN", verb.en_prep), thing.en) if verb.en_prep else thing.en
    english = join(particle, english) if thing.en.startswith("(NP (NP") else join(english, particle)
    german = join(thing.de[verb.case] and verb.de_prep, thing.de[verb.case])
    if not recipient:
        return Part(english, german, thing.fr)
    english = join(english, tree("PP", tree("TO", "to"), recipient.en))
    return Part(english, f"{recipient.de['dat']} {german}", f"{thing.fr} à {recipient.fr}")


def made(thing: Phrase, adjective: Row) -> Part:
    """Make the words after "make": "the task more difficult"."""
    english = tree("S", thing.en, tree("ADJP", tree("RBR", "more"), tree("JJ", adjective.en)))
    french = french_adjective(adjective, thing.noun, thing.plural)
    return Part(english, f"{thing.de['acc']} {adjective.de}er", f"{thing.fr} plus {french}")


def quality(adjective: Row, subject: Phrase, degree: str = "") -> Part:
    """Make the words after "be": "too difficult"; French agrees with the subject."""
    english = tree("ADJP", degree and tree("RB", degree), tree("JJ", adjective.en))
    french = french_adjective(adjective, subject.noun, subject.plural)
    return Part(english, join(GERMAN[degree], adjective.de), join(FRENCH[degree], french))


def place(preposition: Row, ground: Phrase) -> Part:
    german = f"{preposition.de} {ground.de['dat']}"
    german = re.sub("^in dem ", "im ", re.sub("^bei dem ", "beim ", german))
    return Part(tree("PP", tree("IN", preposition.en), ground.en), german, f"{preposition.fr} {ground.fr}")


def noun_phrase(
    noun: Row, determiner: str = "", adjectives: tuple = (), plural: bool = False, owner: Phrase | None = None
) -> Phrase:
    """Make a noun phrase; a name has no determiner. The determiner "'s" names the owner, "own" is a pronoun for it."""
    words = noun, determiner, adjectives, plural, owner
    german = {case: german_noun_phrase(case, *words) for case in STRONG}
    return Phrase(english_noun_phrase(*words), german, french_noun_phrase(*words), noun, plural)


def pair(first: Phrase, second: Phrase) -> Phrase:
    """Join two phrases of one kind. In French, the one language with gender in the plural, the masculine prevails."""
    german = {case: f"{first.de[case]} und {second.de[case]}" for case in STRONG}
    noun = first.noun if first.noun.fr_gender == "m" else second.noun
    return Phrase(tree("NP", first.en, tree("CC", "and"), second.en), german, f"{first.fr} et {second.fr}", noun, True)


def pronoun(phrase: Phrase) -> Phrase:
    """Return the personal pronoun that stands for a noun phrase, in the nominative."""
    noun, plural = phrase.noun, phrase.plural
    english = tree("NP", tree("PRP", "they" if plural else noun.pronoun))
    german = "sie" if plural else {"m": "er", "f": "sie", "n": "es"}[noun.de_gender]
    french = french_form("il" if noun.fr_gender == "m" else "elle", plural)
    return phrase._replace(en=english, de={"nom": german}, fr=french)


def trace(phrase: Phrase) -> Phrase:
    """Return the silent place of a noun phrase in the relative clause that describes it."""
    return phrase._replace(en="", de=dict.fromkeys(STRONG, ""), fr="")


def located(phrase: Phrase, where: Part) -> Phrase:
    """Give a noun phrase a place."""
    german = {case: f"{text} {where.de}" for case, text in phrase.de.items()}
    return phrase._replace(en=tree("NP", phrase.en, where.en), de=german, fr=f"{phrase.fr} {where.fr}")


def related(phrase: Phrase, content: Clause, verb: Row | None = None) -> Phrase:
    """Give a noun phrase a relative clause, in which it is the subject or, if that is given, the object of `verb`."""
    person = tree("WP", "whom" if verb else "who")
    english = tree("WHNP", person if phrase.noun.kind == "p" else tree("WDT", "that"))
    relative = f"{german_relative(phrase, verb)} {german_order(content.de, 'last')}"
    german = {case: f"{text} , {relative} ," for case, text in phrase.de.items()}
    french = f"{phrase.fr} {'que' if verb else 'qui'} {content.fr}"
    return phrase._replace(en=tree("NP", phrase.en, tree("SBAR", english, statement(content).en)), de=german, fr=french)


def finished(sentence: Part) -> Item:
    """Return the sentence with its capital and its full stop."""
    bracketed = re.sub(r" [^(]", lambda match: match[0].upper(), f"{sentence.en[:-1]} (. .))", count=1)
    english = re.sub(r" (?=[.,'])", "", " ".join(word for _, word in LEAF.findall(bracketed)))
    return Item(english, punctuated(sentence.de), punctuated(french_contracted(sentence.fr)), bracketed)


def punctuated(text: str) -> str:
    """Add the capital and the full stop; merge doubled commas, where two clauses meet, and drop them at both ends."""
    text = re.sub("( ,)+", ",", text).strip(" ,")
    return f"{text[0].upper()}{text[1:]}."
