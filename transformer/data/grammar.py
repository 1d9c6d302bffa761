"""The demo corpus: English sentences, their German and French translations, and the English constituency trees.

A small synchronous grammar: every rule builds a phrase in the three languages at once, and `Author` draws the rules.
It has the difficulties of real translation in miniature: agreement in case, gender and number, also across a relative
clause; verbs that end a German clause, and prefixes that leave their verb; pronouns that take the gender of what they
stand for; "make ... more difficult". The rules are in syntax.py, the forms of words in inflection.py, the words in
lexicon.py.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from transformer.data.inflection import LEAF, NOTHING, Clause, Part, Phrase
from transformer.data.lexicon import ADJECTIVES, BE, NOUNS, PREPOSITIONS, VERBS, Row, is_name
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

TRIES = 10_000  # after this many drafts in a row without a new sentence, the grammar is taken to have no more
LENGTHS = range(4, 26)  # English tokens before the full stop


def take(seed: int, skip: int, count: int) -> list[Item]:
    """Return items `skip` to `skip + count` of `sentences(seed)`: slices that do not overlap share no sentence.

    Raises InputError if `skip` or `count` is negative, or the grammar has fewer sentences.
    """
    if skip < 0 or count < 0:
        raise InputError(f"grammar: skip and take must be at least 0, found {skip} and {count}")
    return list(islice(sentences(seed), skip, skip + count))


def sentences(seed: int) -> Iterator[Item]:
    """Yield items, the same on every machine; no English, German or French sentence comes twice."""
    return distinct(drafts(Author(seed)))


def distinct(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items whose three sentences are all new. Raises InputError after `TRIES` in a row that are not."""
    seen, count, failures = set(), 0, 0
    for item in items:
        sides = {("en", item.en), ("de", item.de), ("fr", item.fr)}
        if seen.isdisjoint(sides):
            seen |= sides
            count, failures = count + 1, 0
            yield item
        elif (failures := failures + 1) == TRIES:
            raise InputError(f"grammar: only {count} distinct sentences found, then {TRIES} tries gave nothing new")


def drafts(author: "Author") -> Iterator[Item]:
    """Yield sentences of a proper length in which no content word repeats (no "the king sees the old king")."""
    while True:
        sentence = author.sentence()
        tokens = LEAF.findall(sentence.en)
        words = (word for tag, word in tokens if tag[:2] in ("NN", "JJ", "VB") and word not in ("is", "are"))
        content = [word.removesuffix("s") for word in words]
        if len(tokens) in LENGTHS and len(content) == len(set(content)):
            yield finished(sentence)


# A letter is a kind of noun (see the lexicon); everything is drawn as often as it is listed.

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
    """A random generator of sentences; `depth` is how many more clauses may be nested.

    All choices come from `random()`, the one method whose stream Python promises not to change.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items):
        """Return one of `items`, each with the same probability."""
        return items[int(self.random() * len(items))]

    def sentence(self) -> Part:
        """Draw a sentence, without its capital and full stop."""
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

    def subordinate(self) -> Part:
        """Draw a subordinate clause of reason, condition or time."""
        return subordinate(self.pick(("because", "if", "while")), self.clause(0))

    def reasoned(self) -> Part:
        """Draw "... because it is too heavy", where only the adjective tells whether "it" is subject or object."""
        subject, kind = self.phrase(self.pick("pa"), 1), self.pick("paftov")
        verb, thing = self.verb("do", subject, kind), self.phrase(kind, 1, subject)
        it, other = (subject, thing) if self.chance(0.5) else (thing, subject)
        apt = [a for a in ADJECTIVES if it.noun.kind in a.kinds and other.noun.kind not in a.kinds]
        if not apt:
            return statement(clause(subject, verb, governed(verb, thing)))
        reason = clause(pronoun(it), BE, quality(self.pick(apt), it, "too"))
        return statement(clause(subject, verb, governed(verb, thing)), closing=subordinate("because", reason))

    def clause(self, depth: int, subject: Phrase | None = None) -> Clause:
        """Draw a clause, of the given subject if there is one."""
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

    def verb(self, frame: str, subject: Phrase, thing: str = "") -> Row:
        """Draw a verb that fits the frame, the subject and an object of the kind `thing`."""
        return self.pick([v for v in VERBS if v.frame == frame and subject.noun.kind in v.by and thing in v.of])

    def place(self, binder: Phrase | None = None) -> Part:
        preposition = self.pick(PREPOSITIONS)
        return place(preposition, self.nominal(self.pick(preposition.kinds), binder))

    def phrase(self, kind: str, depth: int, binder: Phrase | None = None) -> Phrase:
        """Draw a noun phrase. A possessive pronoun in it refers to the `binder`, the subject of its clause."""
        phrase = self.nominal(kind, binder)
        if self.chance(0.08) and (other := self.nominal(kind, binder)).noun is not phrase.noun:
            return pair(phrase, other)
        if not depth or is_name(phrase.noun):
            return phrase
        if kind not in "lx" and self.chance(0.1):
            return located(phrase, self.place())
        return self.related(phrase, depth - 1) if self.chance(0.17) else phrase

    def related(self, phrase: Phrase, depth: int) -> Phrase:
        """Give a noun phrase a relative clause."""
        gap, kind = trace(phrase), phrase.noun.kind
        if kind in "pa" and self.chance(0.6):
            return related(phrase, self.clause(depth, gap))
        subject = self.nominal("p" if kind == "x" else self.pick("ppa"))
        verb = self.verb("do", subject, kind)
        return related(phrase, clause(subject, verb, governed(verb, gap)), verb)

    def nominal(self, kind: str, binder: Phrase | None = None) -> Phrase:
        """Draw a noun with its determiner and adjectives."""
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
        """Draw up to two adjectives; of two, French puts one before and one after the noun."""
        if self.chance(0.65):
            return ()
        if self.chance(0.8):
            return (self.adjective(kind),)
        return (self.adjective(kind, "before"), self.adjective(kind, "after"))

    def adjective(self, kind: str, side: str = "") -> Row:
        """Draw an adjective that fits the kind of noun, and stands on this side of it in French."""
        return self.pick([a for a in ADJECTIVES if kind in a.kinds and side in a.fr_side])
