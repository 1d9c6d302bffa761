"""The demo corpus: English sentences with their German and French translations and their constituency trees.

A synchronous grammar, small and bounded. `Author` draws an abstract sentence, which belongs to no language: nested
tuples of words and grammatical roles. `english`, `german` and `french` each put it into words. What a translator has to
get right is there in miniature: agreement in case, gender and number, also across a relative clause; verbs that end a
German clause and prefixes that leave their verb; pronouns that take the gender of what they stand for; "make ... more
difficult". The lexicon, at the end, is five tables.
"""

import random
import re
from collections import namedtuple
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from transformer.files import InputError

TRIES = 10_000  # so many drafts in a row without a new sentence mean that the grammar has no more
WORDS = range(4, 26)  # English words in a sentence


class Item(NamedTuple):
    """One sentence in three languages; `tree` is the English one's, in brackets, its leaves the Moses tokens."""

    en: str
    de: str
    fr: str
    tree: str


def take(seed: int, skip: int, count: int) -> list[Item]:
    """Items `skip` to `skip + count` of `sentences(seed)`: slices that do not overlap share no sentence.

    Raises InputError if `skip` or `count` is negative or the grammar has fewer sentences.
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
            raise InputError(f"grammar: no more than {found} distinct sentences found, {TRIES} tries gave nothing new")


def drafts(author: "Author") -> Iterator[Item]:
    """Sentences of a proper length in which no content word repeats (not "the king sees the old king")."""
    while True:
        sentence = author.sentence()
        tree = english(sentence)
        content = [word for tag, word in leaves(tree) if tag[:2] in ("NN", "JJ", "VB") and word not in ("is", "are")]
        if len(content) == len(set(content)) and len(english_text(tree).split()) in WORDS:
            yield Item(english_text(tree), german(sentence), french(sentence), bracketed(tree))


# Abstract syntax. Lexical items are rows of the tables at the end. -----------------------------------------------------


class Nominal(NamedTuple):
    """A noun phrase. Its `owner` is named ("the king's"), or a pronoun if the determiner is "own" ("his")."""

    noun: tuple
    plural: bool = False
    determiner: str = ""  # none: a name
    adjectives: tuple = ()
    owner: "NounPhrase | None" = None
    place: "Place | None" = None
    relative: "Clause | None" = None  # its subject or its object is a Trace of this noun phrase


class Pair(NamedTuple):
    """Two noun phrases of one kind, coordinated."""

    first: Nominal
    second: Nominal


class Pronoun(NamedTuple):
    antecedent: Nominal | Pair


class Trace(NamedTuple):
    """The silent place in a relative clause that the relative pronoun stands for."""

    antecedent: Nominal


NounPhrase = Nominal | Pair | Pronoun | Trace


class Place(NamedTuple):
    preposition: tuple
    ground: Nominal


class Predicate(NamedTuple):
    """A verb and what it governs; `degree` grades the adjective: too, very or more."""

    verb: tuple
    object: NounPhrase | None = None
    recipient: Nominal | None = None
    adjective: tuple | None = None
    degree: str = ""
    place: Place | None = None
    clause: "Subordinate | None" = None
    modal: tuple | None = None
    adverb: str = ""


class Clause(NamedTuple):
    """`opening` (an adverb or a subordinate clause) comes first, which turns the German word order around."""

    subject: NounPhrase
    predicate: Predicate
    opening: "str | Subordinate" = ""
    closing: "Subordinate | None" = None


class Subordinate(NamedTuple):
    conjunction: str
    clause: Clause


class Compound(NamedTuple):
    first: Clause
    conjunction: str
    second: Clause


def head(phrase: NounPhrase) -> tuple:
    """The noun that gives kind and gender; a pair is feminine only if both are (only French has a plural gender)."""
    if isinstance(phrase, Pair):
        return phrase.first.noun if phrase.first.noun.fr_gender == "m" else phrase.second.noun
    return phrase.noun if isinstance(phrase, Nominal) else head(phrase.antecedent)


def is_plural(phrase: NounPhrase) -> bool:
    if isinstance(phrase, Pair):
        return True
    return phrase.plural if isinstance(phrase, Nominal) else is_plural(phrase.antecedent)


# Drawing ---------------------------------------------------------------------------------------------------------------


class Author:
    """Draws abstract sentences; `depth` is how many clauses may still nest.

    All choices come from `random()`, the one method whose stream Python promises not to change.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items):
        return items[int(self.random() * len(items))]

    def sentence(self) -> Clause | Compound:
        shape = self.pick(SHAPES)
        if shape == "compound":
            return Compound(self.clause(0), self.pick(("and", "but")), self.clause(0))
        clause = self.clause(2 if shape == "plain" else 1)
        match shape:
            case "adverb":
                return clause._replace(opening=self.pick(("now", "sometimes")))
            case "opening":
                return clause._replace(opening=self.subordinate())
            case "closing":
                return clause._replace(closing=self.subordinate())
            case "reason":
                return clause._replace(closing=self.reason(clause))
        return clause

    def clause(self, depth: int) -> Clause:
        subject = self.subject(depth)
        return Clause(subject, self.predicate(subject, depth))

    def subject(self, depth: int) -> NounPhrase:
        kind = self.pick(SUBJECTS)
        first = self.nominal(kind, depth)
        return Pair(first, self.nominal(kind, 0)) if kind in "pa" and self.chance(0.1) else first

    def subordinate(self) -> Subordinate:
        return Subordinate(self.pick(("because", "if", "while")), self.clause(0))

    def reason(self, clause: Clause) -> Subordinate | None:
        """ "because it is too heavy": what "it" is, the subject or the object, only the adjective tells."""
        candidates = [clause.subject, clause.predicate.object or clause.subject]
        it = self.pick(candidates)
        others = [head(other).kind for other in candidates if other is not it]
        apt = [a for a in ADJECTIVES if head(it).kind in a.kinds and not any(other in a.kinds for other in others)]
        if not apt:
            return None
        quality = Predicate(BE, adjective=self.pick(apt), degree=self.pick(("too", "very")))
        return Subordinate("because", Clause(Pronoun(it), quality))

    def predicate(self, subject: NounPhrase, depth: int) -> Predicate:
        kind = head(subject).kind
        frame = self.pick(FRAMES.get(kind, ("be",)))
        if frame == "that" and not depth:
            frame = "do"
        verb = self.pick([verb for verb in VERBS if verb.frame == frame and kind in verb.subjects])
        predicate = self.complements(verb, subject, depth)
        if kind in "pa" and frame not in ("be", "that") and self.chance(0.2):
            predicate = predicate._replace(modal=self.pick(MODALS))
        if kind in "pa" and self.chance(0.1):
            predicate = predicate._replace(adverb=self.pick(("often", "always")))
        return predicate

    def complements(self, verb: tuple, subject: NounPhrase, depth: int) -> Predicate:
        if verb.frame == "be":
            return Predicate(verb, adjective=self.adjective(head(subject).kind), degree=self.pick(("", "very", "too")))
        if verb.frame == "that":
            return Predicate(verb, clause=Subordinate("that", self.clause(depth - 1)))
        thing = self.nominal(self.pick(verb.objects), depth, subject) if verb.objects else None
        predicate = Predicate(verb, object=thing)
        match verb.frame:
            case "give":
                return predicate._replace(recipient=self.nominal("p", 0, subject))
            case "put":
                return predicate._replace(place=Place(self.pick(GOALS), self.nominal("s", 0, subject)))
            case "make":
                return predicate._replace(adjective=self.adjective("x"), degree="more")
        return predicate._replace(place=self.place(subject)) if self.chance(0.25) else predicate

    def place(self, binder: NounPhrase | None) -> Place:
        preposition = self.pick(PREPOSITIONS)
        return Place(preposition, self.nominal(self.pick(preposition.kinds), 0, binder))

    def nominal(self, kind: str, depth: int, binder: NounPhrase | None = None) -> Nominal:
        """A noun phrase. A possessive pronoun in it refers to the `binder`, the subject of its clause."""
        noun = self.pick([noun for noun in NOUNS if noun.kind == kind])
        if not noun.en_plural:
            return Nominal(noun)
        plural = self.chance(0.3)
        phrase = Nominal(noun, plural, self.pick(PLURAL if plural else SINGULAR), self.adjectives(kind))
        if binder and self.chance(0.3):
            phrase = phrase._replace(determiner="own", owner=binder)
        elif self.chance(0.07):
            phrase = phrase._replace(determiner="the", owner=self.owner())
        if depth and kind in "paftovs" and self.chance(0.1):
            return phrase._replace(place=self.place(None))
        if depth and kind in "paftovs" and self.chance(0.15):
            return phrase._replace(relative=self.relative(phrase, depth - 1))
        return phrase

    def owner(self) -> Nominal:
        noun = self.pick([noun for noun in NOUNS if noun.kind == "p"])
        return Nominal(noun, self.chance(0.3), "the") if noun.en_plural else Nominal(noun)

    def adjectives(self, kind: str) -> tuple:
        if self.chance(0.65):
            return ()
        if self.chance(0.8) or kind == "x":
            return (self.adjective(kind),)
        return (self.adjective(kind, "before"), self.adjective(kind, "after"))

    def adjective(self, kind: str, side: str = "") -> tuple:
        return self.pick([a for a in ADJECTIVES if kind in a.kinds and a.fr_side.startswith(side)])

    def relative(self, phrase: Nominal, depth: int) -> Clause:
        trace, kind = Trace(phrase), phrase.noun.kind
        if kind in "pa" and self.chance(0.6):
            return Clause(trace, self.predicate(trace, depth))
        subject = self.nominal(self.pick("ppa"), 0)
        verbs = [v for v in VERBS if v.frame == "do" and subject.noun.kind in v.subjects and kind in v.objects]
        return Clause(subject, Predicate(self.pick(verbs), object=trace))


# English, as a tree: a node is (label, child, ...), a leaf (tag, word). ------------------------------------------------


def english(sentence: Clause | Compound) -> tuple:
    if isinstance(sentence, Clause):
        return capitalized((*english_clause(sentence), (".", ".")))
    first, conjunction, second = sentence
    comma = (",", ",") if conjunction == "but" else None
    clauses = node("S", english_clause(first), comma, ("CC", conjunction), english_clause(second), (".", "."))
    return capitalized(clauses)


def english_clause(clause: Clause) -> tuple:
    opening = clause.opening
    if isinstance(opening, str):
        opening = opening and ("ADVP", ("RB", opening))
    else:
        opening = english_subordinate(opening)
    predicate = english_predicate(clause.predicate, is_plural(clause.subject))
    closing = clause.closing and english_subordinate(clause.closing)
    return node("S", opening, opening and (",", ","), english_phrase(clause.subject), node(*predicate, closing))


def english_subordinate(subordinate: Subordinate) -> tuple:
    return ("SBAR", ("IN", subordinate.conjunction), english_clause(subordinate.clause))


def english_predicate(predicate: Predicate, plural: bool | None) -> tuple:
    """A verb phrase; its verb is an infinitive where `plural` is None."""
    verb, modal = predicate.verb, predicate.modal
    adverb = predicate.adverb and ("ADVP", ("RB", predicate.adverb))
    if not modal:
        order = (adverb, english_verb(verb, plural)) if verb is not BE else (english_verb(verb, plural), adverb)
        return node("VP", *order, *english_complements(predicate))
    infinitive = english_predicate(predicate._replace(modal=None, adverb=""), None)
    if modal.en == modal.en_singular:
        return node("VP", ("MD", modal.en), adverb, infinitive)
    return node("VP", adverb, english_verb(modal, plural), ("S", ("VP", ("TO", "to"), infinitive)))


def english_verb(verb: tuple, plural: bool | None) -> tuple:
    if plural is None:
        return ("VB", verb.en)
    return ("VBP", verb.en) if plural else ("VBZ", verb.en_singular)


def english_complements(predicate: Predicate) -> tuple:
    verb, thing = predicate.verb, predicate.object and english_phrase(predicate.object)
    if predicate.clause:
        return (english_subordinate(predicate.clause),)
    if predicate.adjective:
        quality = english_quality(predicate.adjective, predicate.degree)
        return (("S", thing, quality),) if verb.frame == "make" else (quality,)
    recipient = predicate.recipient and ("PP", ("TO", "to"), english_phrase(predicate.recipient))
    place = predicate.place and english_place(predicate.place)
    if verb.en_preposition:
        thing = node("PP", ("IN", verb.en_preposition), thing)
    particle = verb.en_particle and ("PRT", ("RP", verb.en_particle))
    is_long = thing and thing[1][0] == "NP"  # a particle does not follow a noun phrase with a modifier
    return (particle, thing, recipient, place) if is_long else (thing, particle, recipient, place)


def english_quality(adjective: tuple, degree: str) -> tuple:
    if degree == "more" and adjective.en_comparative:
        return ("ADJP", ("JJR", adjective.en_comparative))
    return node("ADJP", degree and ("RBR" if degree == "more" else "RB", degree), ("JJ", adjective.en))


def english_place(place: Place) -> tuple:
    return ("PP", ("IN", place.preposition.en), english_phrase(place.ground))


def english_phrase(phrase: NounPhrase) -> tuple | None:
    match phrase:
        case Trace():
            return None
        case Pronoun():
            return ("NP", ("PRP", "they" if is_plural(phrase) else head(phrase).pronoun))
        case Pair(first, second):
            return ("NP", english_phrase(first), ("CC", "and"), english_phrase(second))
    words = [*(("JJ", adjective.en) for adjective in phrase.adjectives), english_noun(phrase)]
    tree = node("NP", english_determiner(phrase, words[0][1]), *words)
    if phrase.place:
        return ("NP", tree, english_place(phrase.place))
    return ("NP", tree, english_relative(phrase)) if phrase.relative else tree


def english_noun(phrase: Nominal) -> tuple:
    if not phrase.determiner:
        return ("NNP", phrase.noun.en)
    return ("NNS", phrase.noun.en_plural) if phrase.plural else ("NN", phrase.noun.en)


def english_determiner(phrase: Nominal, following: str) -> tuple | None:
    if phrase.determiner == "own":
        return ("PRP$", "their" if is_plural(phrase.owner) else ENGLISH_POSSESSIVE[head(phrase.owner).pronoun])
    if phrase.owner:
        owner = english_phrase(phrase.owner)
        return (*owner, ("POS", "'" if owner[-1][1].endswith("s") else "'s"))
    if phrase.determiner == "a" and following[0] in "aeiou":
        return ("DT", "an")
    if phrase.determiner == "this" and phrase.plural:
        return ("DT", "these")
    return phrase.determiner and ("CD" if phrase.determiner == "two" else "DT", phrase.determiner)


def english_relative(phrase: Nominal) -> tuple:
    of_subject = isinstance(phrase.relative.subject, Trace)
    person = ("WP", "who" if of_subject else "whom")
    pronoun = person if phrase.noun.kind == "p" else ("WDT", "that")
    return ("SBAR", ("WHNP", pronoun), english_clause(phrase.relative))


def english_text(tree: tuple) -> str:
    return re.sub(r" (?=[.,'])", "", " ".join(word for _, word in leaves(tree)))


def node(label: str, *children: tuple | str | None) -> tuple:
    """A tree of those children that are there."""
    return (label, *filter(None, children))


def leaves(tree: tuple) -> list[tuple]:
    return [tree] if isinstance(tree[1], str) else [leaf for child in tree[1:] for leaf in leaves(child)]


def bracketed(tree: tuple) -> str:
    label, *children = tree
    return f"({label} {' '.join(child if isinstance(child, str) else bracketed(child) for child in children)})"


def capitalized(tree: tuple) -> tuple:
    label, first, *others = tree
    return (label, first[0].upper() + first[1:] if isinstance(first, str) else capitalized(first), *others)


# German ----------------------------------------------------------------------------------------------------------------

# By case, in the order masculine, feminine, neuter, plural
ARTICLES = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den", "gen": "des der des der"}
STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en", "gen": "es er es er"}
ENDINGLESS = ("nom m", "nom n", "acc n")  # where "ein", "sein" and "ihr" have no ending, and leave it to the adjective


def german(sentence: Clause | Compound) -> str:
    if isinstance(sentence, Clause):
        return finished(german_clause(sentence))
    first, conjunction, second = sentence
    return finished(join(german_clause(first), GERMAN[conjunction], german_clause(second)))


def german_clause(clause: Clause, final: bool = False) -> str:
    """A clause with its finite verb second, or `final`, where the verb rejoins its prefix and follows the infinitive."""
    predicate, verb, modal = clause.predicate, clause.predicate.verb, clause.predicate.modal
    finite = (modal or verb).de if is_plural(clause.subject) else (modal or verb).de_singular
    middle, right, space, after = german_complements(predicate), verb.de_prefix, "", german_subordinate(predicate.clause)
    if modal and modal.de_zu:
        infinitive = join(middle, f"{right}zu{verb.de}" if right else f"zu {verb.de}")
        middle, right, after = "", "", f", {infinitive} ," if middle else infinitive
    elif modal:
        right, space = verb.de_prefix + verb.de, " "
    subject, middle = german_phrase(clause.subject, "nom"), join(GERMAN[predicate.adverb], middle)
    if final:
        order = (subject, middle, right + space + finite)
    elif clause.opening:
        order = (german_opening(clause.opening), finite, subject, middle, right)
    else:
        order = (subject, finite, middle, right)
    return join(*order, after, german_subordinate(clause.closing))


def german_opening(opening: str | Subordinate) -> str:
    return GERMAN[opening] if isinstance(opening, str) else german_subordinate(opening).removeprefix(", ")


def german_subordinate(subordinate: Subordinate | None) -> str:
    return f", {GERMAN[subordinate.conjunction]} {german_clause(subordinate.clause, final=True)} ," if subordinate else ""


def german_complements(predicate: Predicate) -> str:
    verb, thing, recipient = predicate.verb, predicate.object, predicate.recipient
    objects = [recipient and german_phrase(recipient, "dat"), thing and german_object(verb, thing)]
    if recipient and recipient.determiner in INDEFINITE and thing.determiner not in INDEFINITE:
        objects.reverse()
    place = predicate.place and german_place(predicate.place, "acc" if verb.frame == "put" else "dat")
    return join(*objects, place, predicate.adjective and german_quality(predicate.adjective, predicate.degree))


def german_object(verb: tuple, phrase: NounPhrase) -> str:
    return join(verb.de_preposition, german_phrase(phrase, verb.de_case))


def german_quality(adjective: tuple, degree: str) -> str:
    return adjective.de_comparative if degree == "more" else join(GERMAN[degree], adjective.de)


def german_place(place: Place, case: str) -> str:
    """ "im", "beim", but "in dem Haus, das ...": an article that points to a relative clause stays whole."""
    preposition, phrase = place.preposition.de, german_phrase(place.ground, case)
    contracted = {"in dem": "im", "bei dem": "beim"}
    article = f"{preposition} {phrase.split()[0]}"
    return f"{preposition} {phrase}".replace(article, contracted.get(article, article), 1)


def german_phrase(phrase: NounPhrase, case: str) -> str:
    match phrase:
        case Trace():
            return ""
        case Pronoun():
            return "sie" if is_plural(phrase) else {"m": "er", "f": "sie", "n": "es"}[head(phrase).de_gender]
        case Pair(first, second):
            return join(german_phrase(first, case), GERMAN["and"], german_phrase(second, case))
    determiner, ending = german_determiner(phrase, case)
    adjectives = [adjective.de.removesuffix("e") + ending for adjective in phrase.adjectives]
    words = [determiner, *adjectives, german_noun(phrase, case)]
    if phrase.determiner == "the" and phrase.owner and phrase.owner.determiner:
        words.append(german_phrase(phrase.owner, "gen"))
    return join(*words, phrase.place and german_place(phrase.place, "dat"), german_relative(phrase))
