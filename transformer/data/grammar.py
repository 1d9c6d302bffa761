"""The demo corpus: English sentences, their German and French translations, and the English constituency trees.

A small synchronous grammar: every rule builds a phrase in the three languages at once, and `Author` draws the rules.
What is hard in real translation is here in miniature: agreement in case, gender and number, also across a relative
clause; verbs that end a German clause, and prefixes that leave their verb; pronouns that take the gender of what they
stand for; "make ... more difficult". The words are in lexicon.py.
"""

import random
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from transformer.common.files import InputError
from transformer.data.lexicon import (
    ADJECTIVES,
    BE,
    FRENCH,
    FRENCH_DETERMINERS,
    GERMAN,
    NOUNS,
    PREPOSITIONS,
    VERBS,
    Row,
    is_name,
)

TRIES = 10_000  # so many drafts in a row without a new sentence mean that the grammar has no more
LENGTHS = range(4, 26)  # English tokens before the full stop


class Item(NamedTuple):
    """One sentence in three languages; `tree` is the English one's, in brackets, its leaves the Moses tokens."""

    en: str
    de: str
    fr: str
    tree: str


def take(seed: int, skip: int, count: int) -> list[Item]:
    """Items `skip` to `skip + count` of `sentences(seed)`: slices that do not overlap share no sentence.

    Raises InputError if `skip` or `count` is negative, or the grammar has fewer sentences.
    """
    if skip < 0 or count < 0:
        raise InputError(f"grammar: skip and take must be at least 0, found {skip} and {count}")
    return list(islice(sentences(seed), skip, skip + count))


def sentences(seed: int) -> Iterator[Item]:
    """A stream, the same on every machine, in which no English, German or French sentence comes twice."""
    return distinct(drafts(Author(seed)))


def distinct(items: Iterable[Item]) -> Iterator[Item]:
    """The items of which all three sentences are new. Raises InputError after `TRIES` in a row that are not."""
    seen, found, failures = set(), 0, 0
    for item in items:
        sides = {("en", item.en), ("de", item.de), ("fr", item.fr)}
        if seen.isdisjoint(sides):
            seen |= sides
            found, failures = found + 1, 0
            yield item
        elif (failures := failures + 1) == TRIES:
            raise InputError(f"grammar: only {found} distinct sentences found, then {TRIES} tries gave nothing new")


def drafts(author: "Author") -> Iterator[Item]:
    """Sentences of a proper length in which no content word repeats (no "the king sees the old king")."""
    while True:
        sentence = author.sentence()
        tokens = LEAF.findall(sentence.en)
        words = (word for tag, word in tokens if tag[:2] in ("NN", "JJ", "VB") and word not in ("is", "are"))
        content = [word.removesuffix("s") for word in words]
        if len(tokens) in LENGTHS and len(content) == len(set(content)):
            yield finished(sentence)


# Drawing. A letter is a kind of noun (see the lexicon); everything is drawn as often as it is listed. -----------------

SHAPES = ("plain", "plain", "plain", "plain", "compound", "opening", "closing", "reason")
SUBJECTS = "ppppppppppaaaaaaxxlsotvf"
FRAMES = {
    "p": ("do",) * 7 + ("give",) * 3 + ("that",) * 3 + ("make", "be"),
    "a": ("do",) * 6 + ("be",),
    "x": ("make", "make", "be"),
}
SINGULAR = ("the", "the", "the", "the", "a", "a", "a", "this", "every")
PLURAL = ("the", "the", "the", "this", "some", "two")


class Author:
    """Draws sentences; `depth` is how many clauses may still nest.

    All choices come from `random()`, the one method whose stream Python promises not to change.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items):
        return items[int(self.random() * len(items))]

    def sentence(self) -> "Part":
        match self.pick(SHAPES):
            case "compound":
                return compound(statement(self.clause(0)), self.pick(("and", "but")), statement(self.clause(0)))
            case "opening":
                return statement(self.clause(1), opening=self.subordinate())
            case "closing":
                return statement(self.clause(1), closing=self.subordinate())
            case "reason":
                return self.reasoned()
        return statement(self.clause(2))

    def subordinate(self) -> "Part":
        return subordinate(self.pick(("because", "if", "while")), self.clause(0))

    def reasoned(self) -> "Part":
        """What "it" is in "... because it is too heavy", the subject or the object, only the adjective tells."""
        subject, kind = self.phrase(self.pick("pa"), 1), self.pick("paftov")
        verb, thing = self.verb("do", subject, kind), self.phrase(kind, 1, subject)
        it, other = (subject, thing) if self.chance(0.5) else (thing, subject)
        apt = [a for a in ADJECTIVES if it.noun.kind in a.kinds and other.noun.kind not in a.kinds]
        if not apt:
            return statement(clause(subject, verb, governed(verb, thing)))
        reason = clause(pronoun(it), BE, quality(self.pick(apt), it, "too"))
        return statement(clause(subject, verb, governed(verb, thing)), closing=subordinate("because", reason))

    def clause(self, depth: int, subject: "Phrase | None" = None) -> "Clause":
        subject = subject or self.phrase(self.pick(SUBJECTS), depth)
        kind = subject.noun.kind
        frame = self.pick(FRAMES.get(kind, ("be",)))
        verb = self.verb("do" if frame == "that" and not depth else frame, subject)
        match verb.frame:
            case "be":
                return clause(subject, verb, quality(self.adjective(kind), subject, self.pick(("", "too", "very"))))
            case "that":
                return clause(subject, verb, after=subordinate("that", self.clause(depth - 1)))
            case "make":
                return clause(subject, verb, made(self.phrase("x", depth, subject), self.adjective("x", "after")))
            case "give":  # a longer object would rather follow the recipient
                thing, recipient = self.phrase(self.pick(verb.of), 0, subject), self.nominal("p", subject)
                return clause(subject, verb, governed(verb, thing, recipient))
        thing = self.phrase(self.pick(verb.of), depth, subject) if verb.of else None
        place = self.place(subject) if self.chance(0.3) else NOTHING
        return clause(subject, verb, governed(verb, thing), place)

    def verb(self, frame: str, subject: "Phrase", thing: str = "") -> Row:
        return self.pick([v for v in VERBS if v.frame == frame and subject.noun.kind in v.by and thing in v.of])

    def place(self, binder: "Phrase | None" = None) -> "Part":
        preposition = self.pick(PREPOSITIONS)
        return place(preposition, self.nominal(self.pick(preposition.kinds), binder))

    def phrase(self, kind: str, depth: int, binder: "Phrase | None" = None) -> "Phrase":
        """A noun phrase. A possessive pronoun in it refers to the `binder`, the subject of its clause."""
        phrase = self.nominal(kind, binder)
        if self.chance(0.08) and (other := self.nominal(kind, binder)).noun is not phrase.noun:
            return pair(phrase, other)
        if not depth or is_name(phrase.noun):
            return phrase
        if kind not in "lx" and self.chance(0.1):
            return located(phrase, self.place())
        return self.related(phrase, depth - 1) if self.chance(0.17) else phrase

    def related(self, phrase: "Phrase", depth: int) -> "Phrase":
        gap, kind = trace(phrase), phrase.noun.kind
        if kind in "pa" and self.chance(0.6):
            return related(phrase, self.clause(depth, gap))
        subject = self.nominal("p" if kind == "x" else self.pick("ppa"))
        verb = self.verb("do", subject, kind)
        return related(phrase, clause(subject, verb, governed(verb, gap)), verb)

    def nominal(self, kind: str, binder: "Phrase | None" = None) -> "Phrase":
        noun = self.noun(kind)
        if is_name(noun):
            return noun_phrase(noun)
        plural, adjectives = self.chance(0.3), self.adjectives(kind)
        if binder and self.chance(0.25):
            return noun_phrase(noun, "own", adjectives, plural, binder)
        if self.chance(0.07):
            owner = self.noun("p")
            return noun_phrase(noun, "'s", adjectives, plural, noun_phrase(owner, "" if is_name(owner) else "the"))
        return noun_phrase(noun, self.pick(PLURAL if plural else SINGULAR), adjectives, plural)

    def noun(self, kind: str) -> Row:
        return self.pick([noun for noun in NOUNS if noun.kind == kind])

    def adjectives(self, kind: str) -> tuple[Row, ...]:
        if self.chance(0.65):
            return ()
        if self.chance(0.8):
            return (self.adjective(kind),)
        return (self.adjective(kind, "before"), self.adjective(kind, "after"))

    def adjective(self, kind: str, side: str = "") -> Row:
        return self.pick([a for a in ADJECTIVES if kind in a.kinds and side in a.fr_side])


# Rules, in three languages at once ------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Words in their final form; the English as sister trees."""

    en: str
    de: str
    fr: str


NOTHING = Part("", "", "")


class Phrase(NamedTuple):
    """A noun phrase, in German by case. Its head, `noun`, says what kind of thing it is and gives it its gender."""

    en: str
    de: dict[str, str]
    fr: str
    noun: Row
    plural: bool


class Clause(NamedTuple):
    """A clause in pieces, which `statement` and `german_order` put together."""

    en: tuple[str, str]  # subject, predicate
    de: tuple[str, str, str, str, str]  # subject, finite verb, middle, prefix of the verb, after
    fr: str


def statement(of: Clause, opening: Part = NOTHING, closing: Part = NOTHING) -> Part:
    subject, predicate = of.en
    english = tree("S", opening.en, opening.en and tree(",", ","), subject, tree("VP", predicate, closing.en))
    german = join(opening.de, german_order(of.de, "first" if opening.de else "second"), closing.de)
    return Part(english, german, join(opening.fr, opening.fr and ",", of.fr, closing.fr))


def compound(first: Part, conjunction: str, second: Part) -> Part:
    comma = tree(",", ",") if conjunction == "but" else ""
    english = tree("S", first.en, comma, tree("CC", conjunction), second.en)
    return Part(english, join(first.de, GERMAN[conjunction], second.de), join(first.fr, FRENCH[conjunction], second.fr))


def subordinate(conjunction: str, of: Clause) -> Part:
    english = tree("SBAR", tree("IN", conjunction), statement(of).en)
    german = f", {GERMAN[conjunction]} {german_order(of.de, 'last')} ,"
    return Part(english, german, f"{FRENCH[conjunction]} {of.fr}")


def clause(subject: Phrase, verb: Row, *parts: Part, after: Part = NOTHING) -> Clause:
    english = tree("VBP", verb.en) if subject.plural else tree("VBZ", verb.en_sg)
    predicate = join(english, *(part.en for part in parts), after.en)
    finite, middle = verb.de if subject.plural else verb.de_sg, join(*(part.de for part in parts))
    german = (subject.de["nom"], finite, middle, verb.prefix, after.de)
    french = (subject.fr, verb.fr if subject.plural else verb.fr_sg, *(part.fr for part in parts), after.fr)
    return Clause((subject.en, predicate), german, join(*french))


def governed(verb: Row, thing: Phrase | None, recipient: Phrase | None = None) -> Part:
    """The objects of a verb, and its English particle, which follows the object unless that is complex."""
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
    """What follows "make": "the task more difficult"."""
    english = tree("S", thing.en, tree("ADJP", tree("RBR", "more"), tree("JJ", adjective.en)))
    french = french_adjective(adjective, thing.noun, thing.plural)
    return Part(english, f"{thing.de['acc']} {adjective.de}er", f"{thing.fr} plus {french}")


def quality(adjective: Row, of: Phrase, degree: str = "") -> Part:
    english = tree("ADJP", degree and tree("RB", degree), tree("JJ", adjective.en))
    french = french_adjective(adjective, of.noun, of.plural)
    return Part(english, join(GERMAN[degree], adjective.de), join(FRENCH[degree], french))


def place(preposition: Row, ground: Phrase) -> Part:
    german = f"{preposition.de} {ground.de['dat']}"
    german = re.sub("^in dem ", "im ", re.sub("^bei dem ", "beim ", german))
    return Part(tree("PP", tree("IN", preposition.en), ground.en), german, f"{preposition.fr} {ground.fr}")


def noun_phrase(
    noun: Row, determiner: str = "", adjectives: tuple = (), plural: bool = False, owner: Phrase | None = None
) -> Phrase:
    """A noun phrase; a name has no determiner. With the determiner "'s" the owner is named, with "own" a pronoun."""
    words = noun, determiner, adjectives, plural, owner
    german = {case: german_noun_phrase(case, *words) for case in STRONG}
    return Phrase(english_noun_phrase(*words), german, french_noun_phrase(*words), noun, plural)


def pair(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases of one kind. In French, the one language with gender in the plural, the masculine prevails."""
    german = {case: f"{first.de[case]} und {second.de[case]}" for case in STRONG}
    noun = first.noun if first.noun.fr_gender == "m" else second.noun
    return Phrase(tree("NP", first.en, tree("CC", "and"), second.en), german, f"{first.fr} et {second.fr}", noun, True)


def pronoun(of: Phrase) -> Phrase:
    english = tree("NP", tree("PRP", "they" if of.plural else of.noun.pronoun))
    german = "sie" if of.plural else {"m": "er", "f": "sie", "n": "es"}[of.noun.de_gender]
    french = french_form("il" if of.noun.fr_gender == "m" else "elle", of.plural)
    return of._replace(en=english, de={"nom": german}, fr=french)


def trace(of: Phrase) -> Phrase:
    """The silent place in a relative clause that its pronoun stands for."""
    return of._replace(en="", de=dict.fromkeys(STRONG, ""), fr="")


def located(phrase: Phrase, at: Part) -> Phrase:
    german = {case: f"{text} {at.de}" for case, text in phrase.de.items()}
    return phrase._replace(en=tree("NP", phrase.en, at.en), de=german, fr=f"{phrase.fr} {at.fr}")


def related(phrase: Phrase, of: Clause, verb: Row | None = None) -> Phrase:
    """A noun phrase with a relative clause, of which it is the subject or, if that is given, the object of `verb`."""
    person = tree("WP", "whom" if verb else "who")
    english = tree("WHNP", person if phrase.noun.kind == "p" else tree("WDT", "that"))
    relative = f"{german_relative(phrase, verb)} {german_order(of.de, 'last')}"
    german = {case: f"{text} , {relative} ," for case, text in phrase.de.items()}
    french = f"{phrase.fr} {'que' if verb else 'qui'} {of.fr}"
    return phrase._replace(en=tree("NP", phrase.en, tree("SBAR", english, statement(of).en)), de=german, fr=french)


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
    """The clause with its finite verb first, second or last; only there does the verb rejoin its prefix."""
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
    """The determiner, and the ending of the adjectives after it: strong only where the determiner has none."""
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
            stem = german_possessive(owner) if determiner == "own" else GERMAN["a"]
            return (stem, strong) if f"{case} {form}" in ("nom m", "nom n", "acc n") else (stem + strong, weak)
    return GERMAN[determiner], strong


def german_possessive(owner: Phrase) -> str:
    return "ihr" if owner.plural or owner.noun.de_gender == "f" else "sein"


def german_noun(case: str, form: str, noun: Row) -> str:
    if form == "p":
        return noun.de_plural + ("n" if case == "dat" and noun.de_plural[-1] not in "ns" else "")
    is_weak = form == "m" and noun.de_genitive.endswith("n")  # der Junge, but den Jungen, dem Jungen
    return noun.de_genitive if case == "gen" or (is_weak and case != "nom") else noun.de


def german_relative(phrase: Phrase, verb: Row | None) -> str:
    """The relative pronoun, in the case that its own clause's verb asks for."""
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
    """Elision ("le homme" to "l'homme", "que il" to "qu'il"), then contraction ("de le" to "du")."""
    text = re.sub(rf"\b(l|d|qu|s)[ea] (?={VOWEL})", r"\1'", text, flags=re.IGNORECASE)
    return re.sub(r"\b(de|à) les?\b", lambda match: CONTRACTIONS[match[0]], text)


# Trees and strings ----------------------------------------------------------------------------------------------------

LEAF = re.compile(r"\((\S+) ([^() ]+)\)")  # tag and word


def tree(label: str, *children: str) -> str:
    return f"({label} {join(*children)})"


def join(*words: str) -> str:
    """Those words that are there; a comma is a word, too."""
    return " ".join(filter(None, words))


def finished(sentence: Part) -> Item:
    """The sentence with its capital and its full stop."""
    bracketed = re.sub(r" [^(]", lambda match: match[0].upper(), f"{sentence.en[:-1]} (. .))", count=1)
    english = re.sub(r" (?=[.,'])", "", " ".join(word for _, word in LEAF.findall(bracketed)))
    return Item(english, punctuated(sentence.de), punctuated(french_contracted(sentence.fr)), bracketed)


def punctuated(text: str) -> str:
    """Commas come doubled where two clauses meet, and are not wanted at either end."""
    text = re.sub("( ,)+", ",", text).strip(" ,")
    return f"{text[0].upper()}{text[1:]}."
