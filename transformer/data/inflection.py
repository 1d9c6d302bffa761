"""The demo corpus: phrases in three languages, and their words in the form that case, gender and number ask for."""

import re
from typing import NamedTuple

from transformer.data.lexicon import FRENCH_DETERMINERS, GERMAN, Row, is_name

LEAF = re.compile(r"\((\S+) ([^() ]+)\)")  # tag and word


class Part(NamedTuple):
    """Words in their final form in each language; the English ones as sister trees."""

    en: str
    de: str
    fr: str


NOTHING = Part("", "", "")


class Phrase(NamedTuple):
    """A noun phrase, in German by case. Its head, `noun`, gives it its kind and its gender."""

    en: str
    de: dict[str, str]
    fr: str
    noun: Row
    plural: bool


class Clause(NamedTuple):
    """The pieces of a clause, which `syntax.statement` and `german_order` put together."""

    en: tuple[str, str]  # subject, predicate
    de: tuple[str, str, str, str, str]  # subject, finite verb, middle, prefix of the verb, after
    fr: str


def tree(label: str, *children: str) -> str:
    """Put brackets around trees or a word."""
    return f"({label} {join(*children)})"


def join(*words: str) -> str:
    """Join the words that are not empty; a comma is a word, too."""
    return " ".join(filter(None, words))


# English --------------------------------------------------------------------------------------------------------------


POSSESSIVES = {"he": "his", "she": "her", "it": "its"}


def english_noun_phrase(noun: Row, determiner: str, adjectives: tuple, plural: bool, owner: Phrase | None) -> str:
    tag, word = ("NNS", noun.en_plural) if plural else ("NN" if determiner else "NNP", noun.en)
    first = adjectives[0].en if adjectives else word
    words = (*(tree("JJ", adjective.en) for adjective in adjectives), tree(tag, word))
    return tree("NP", english_determiner(determiner, plural, owner, first), *words)


def english_determiner(determiner: str, plural: bool, owner: Phrase | None, following: str) -> str:
    match determiner:
        case "own":
            return tree("PRP$", "their" if owner.plural else POSSESSIVES[owner.noun.pronoun])
        case "'s":
            return f"{owner.en[:-1]} (POS 's))"
        case "two":
            return tree("CD", "two")
        case "a" if following[0] in "aeiou":
            return tree("DT", "an")
        case "this" if plural:
            return tree("DT", "these")
    return determiner and tree("DT", determiner)


# German ---------------------------------------------------------------------------------------------------------------

FORMS = "mfnp"  # masculine, feminine, neuter, plural: the columns of the next two
STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en", "gen": "es er es er"}
ARTICLES = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den", "gen": "des der des der"}


def german_order(pieces: tuple[str, str, str, str, str], verb: str) -> str:
    """Return the clause with its finite verb first, second or last; only there is it joined to its prefix."""
    subject, finite, middle, prefix, after = pieces
    if verb == "last":
        return join(subject, middle, prefix + finite, after)
    return join(*((finite, subject) if verb == "first" else (subject, finite)), middle, prefix, after)


def german_noun_phrase(
    case: str, noun: Row, determiner: str, adjectives: tuple, plural: bool, owner: Phrase | None
) -> str:
    form = "p" if plural else noun.de_gender
    word, ending = german_determiner(case, form, determiner, owner)
    genitive = owner.de["gen"] if determiner == "'s" and not is_name(owner.noun) else ""
    return join(word, *(a.de.removesuffix("e") + ending for a in adjectives), german_noun(case, form, noun), genitive)


def german_determiner(case: str, form: str, determiner: str, owner: Phrase | None) -> tuple[str, str]:
    """Return the determiner and the ending of the adjectives after it, strong only where the determiner has none."""
    strong, article = (table[case].split()[FORMS.index(form)] for table in (STRONG, ARTICLES))
    weak = "e" if form != "p" and (case == "nom" or (case == "acc" and form != "m")) else "en"
    match determiner:
        case "'s" if is_name(owner.noun):
            return owner.noun.de_genitive, strong
        case "the" | "'s":
            return article, weak
        case "this" | "every":
            return GERMAN[determiner] + strong, weak
        case "some":
            return GERMAN[determiner] + strong, strong
        case "a" | "own":
            stem = GERMAN["a"]
            if determiner == "own":
                stem = "ihr" if owner.plural or owner.noun.de_gender == "f" else "sein"
            return (stem, strong) if f"{case} {form}" in ("nom m", "nom n", "acc n") else (stem + strong, weak)
    return GERMAN[determiner], strong


def german_noun(case: str, form: str, noun: Row) -> str:
    if form == "p":
        return noun.de_plural + ("n" if case == "dat" and noun.de_plural[-1] not in "ns" else "")
    is_weak = form == "m" and noun.de_genitive.endswith("n")  # der Junge, but den Jungen, dem Jungen
    return noun.de_genitive if case == "gen" or (is_weak and case != "nom") else noun.de


def german_relative(phrase: Phrase, verb: Row | None) -> str:
    """Return the relative pronoun, in the case that the verb of the relative clause governs."""
    form = "p" if phrase.plural else phrase.noun.de_gender
    case, preposition = (verb.case, verb.de_prep) if verb else ("nom", "")
    pronoun = ARTICLES[case].split()[FORMS.index(form)]
    return join(preposition, "denen" if (case, form) == ("dat", "p") else pronoun)


# French ---------------------------------------------------------------------------------------------------------------

VOWEL = "[aeiouhâàéèêîôûœ]"  # no word of the lexicon begins with an aspirated h
EUPHONY = {"ce": "cet", "sa": "son", "beau": "bel", "vieux": "vieil"}  # in the singular, before a vowel
CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def french_noun_phrase(noun: Row, determiner: str, adjectives: tuple, plural: bool, owner: Phrase | None) -> str:
    forms = FRENCH_DETERMINERS["their" if determiner == "own" and owner.plural else determiner]
    before, after = (
        [french_adjective(a, noun, plural) for a in adjectives if a.fr_side == side] for side in ("before", "after")
    )
    words = join(forms["mfp".index("p" if plural else noun.fr_gender)], *before, french_form(noun.fr, plural), *after)
    if not plural:
        words = re.sub(rf"\b({'|'.join(EUPHONY)})(?= {VOWEL})", lambda match: EUPHONY[match[0]], words)
    return f"{words} de {owner.fr}" if determiner == "'s" else words


def french_adjective(adjective: Row, noun: Row, plural: bool) -> str:
    return french_form(adjective.fr if noun.fr_gender == "m" else adjective.fr_feminine, plural)


def french_form(word: str, plural: bool) -> str:
    if not plural or word[-1] in "sx":
        return word
    return f"{word[:-1]}ux" if word.endswith("al") else word + ("x" if word.endswith(("au", "eu")) else "s")


def french_contracted(text: str) -> str:
    """Apply elision ("le homme" to "l'homme", "que il" to "qu'il"), then contraction ("de le" to "du")."""
    text = re.sub(rf"\b(l|d|qu|s)[ea] (?={VOWEL})", r"\1'", text, flags=re.IGNORECASE)
    return re.sub(r"\b(de|à) les?\b", lambda match: CONTRACTIONS[match[0]], text)
