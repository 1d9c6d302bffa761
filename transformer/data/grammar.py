"""The demo's corpus: artificial English sentences of 4 to 12 words with German and French translations and trees.

    The small cat must hide a red key for its queen.
    Die kleine Katze muss einen roten Schlüssel für ihre Königin verstecken.
    Le petit chat doit cacher une clé rouge pour sa reine.

Articles and adjectives agree, a German infinitive comes last, and most French adjectives follow their noun. A
possessive has an antecedent. All words have regular forms: there is no dative, no noun that changes with its case, and
no elision.
"""

import random
import re
import tomllib
from collections import namedtuple
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

_Pick = Callable[[Any], Any]  # draws one of several choices with equal probability


def _rows(table: str) -> list:
    """Return the rows of a table of grammar.toml as named tuples."""
    columns, *lines = _WORDS[table].strip().split("\n")
    row = namedtuple("Row", columns.split())
    return [row(*(cell.strip("-") for cell in line.split())) for line in lines]


_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_NOUNS, _ADJECTIVES, _DETERMINERS = _rows("nouns"), _rows("adjectives"), _rows("determiners")
*_VERBS, _MUST, _CAN, _BE, _MAKE = _rows("verbs")
_FORMS = "mafnp"  # German forms: masculine, masculine accusative, feminine, neuter, plural
_DEGREES = ("", "", ""), ("very", "sehr", "très"), ("too", "zu", "trop")
_PREPOSITIONS = ("for", "für", "pour"), ("without", "ohne", "sans")  # both govern the accusative
_MOST_WORDS = 12  # English words


class Item(NamedTuple):
    """A sentence in three languages. The leaves of `tree` are the tokens of the English sentence."""

    en: str
    de: str
    fr: str
    tree: str


def take(seed: int, skip: int, count: int) -> list[Item]:
    """Return items `skip` to `skip + count` of a seed. They are equal on every machine, and no sentence repeats."""
    return list(islice(_items(seed), skip, skip + count))


def _items(seed: int) -> Iterator[Item]:
    uniform = random.Random(seed).random  # Python guarantees a stable sequence only for this method
    seen: set[tuple[int, str]] = set()
    while True:
        item = _draw_sentence(lambda choices: choices[int(uniform() * len(choices))])
        content = re.findall(r"(?:NN|JJ)S? (\w+?)s?\)", item.tree)
        apt = len(content) == len(set(content)) and item.en.count(" ") < _MOST_WORDS  # no "the king sees two kings"
        if apt and seen.isdisjoint(sides := set(enumerate(item[:3]))):
            seen |= sides
            yield item


class _Phrase(NamedTuple):
    """A noun phrase in three languages. `en` is the tree of the English phrase."""

    en: str
    de: str
    fr: str
    noun: Any  # a row of _NOUNS
    plural: bool


def _draw_sentence(pick: _Pick) -> Item:
    form = pick(("action", "action", "modal", "modal", "comparison", "description"))
    subject = _draw_phrase(pick, {"comparison": "px", "description": "patx"}.get(form, "pa"))
    match form:
        case "action":  # "hides a key"
            verb, rest = pick(_VERBS), _draw_object(pick, "pat", subject)[:3]
        case "modal":  # "must hide a key"; the German infinitive comes last
            verb, infinitive, thing = pick((_MUST, _CAN)), pick(_VERBS), _draw_object(pick, "pat", subject)
            english = _tree("VP", _tree("VB", infinitive.en), thing.en)
            rest = english, _join(thing.de, infinitive.de), _join(infinitive.fr, thing.fr)
        case "comparison":  # "makes the task more difficult"
            verb, thing, adjective = _MAKE, _draw_object(pick, "x", subject), _draw_adjective(pick, "x")
            english = _tree("S", thing.en, _tree("ADJP", _tree("RBR", "more"), _tree("JJ", adjective.en)))
            french = _join(thing.fr, "plus", _french_adjective(adjective, thing.noun, thing.plural))
            rest = english, f"{thing.de} {adjective.de}er", french
        case "description":  # "is too hungry"
            verb, (en, de, fr), adjective = _BE, pick(_DEGREES), _draw_adjective(pick, subject.noun.kind)
            english = _tree("ADJP", en and _tree("RB", en), _tree("JJ", adjective.en))
            french = _join(fr, _french_adjective(adjective, subject.noun, subject.plural))
            rest = english, _join(de, adjective.de), french
    tag = "MD" if form == "modal" else "VBP" if subject.plural else "VBZ"
    singular, plural = (verb.en_singular, verb.de_singular, verb.fr_singular), (verb.en, verb.de, verb.fr_plural)
    english, german, french = plural if subject.plural else singular
    bracketed = _tree("S", subject.en, _tree("VP", _tree(tag, english), rest[0]), "(. .)")
    bracketed = re.sub(r" [^(]", lambda match: match[0].upper(), bracketed, count=1)
    plain = _join(*re.findall(r" (\w+)\)", bracketed))
    texts = plain, _join(subject.de, german, rest[1]), _join(subject.fr, french, rest[2])
    return Item(*(f"{text[0].upper()}{text[1:]}." for text in texts), bracketed)


def _draw_object(pick: _Pick, kinds: str, subject: _Phrase) -> _Phrase:
    """Draw "a red key" or "a red key for its queen"."""
    phrase = _draw_phrase(pick, kinds, subject)
    if pick((False, True)):
        return phrase
    (en, de, fr), other = pick(_PREPOSITIONS), _draw_phrase(pick, "pa", subject)
    english = _tree("NP", phrase.en, _tree("PP", _tree("IN", en), other.en))
    return phrase._replace(en=english, de=_join(phrase.de, de, other.de), fr=_join(phrase.fr, fr, other.fr))


def _draw_phrase(pick: _Pick, kinds: str, subject: _Phrase | None = None) -> _Phrase:
    """Draw a subject, or an object of `subject`: in the accusative, possibly with a possessive of the subject."""
    noun, plural = pick([noun for noun in _NOUNS if noun.kind in kinds]), pick((False, False, True))
    owner = subject and ("plural" if subject.plural else subject.noun.kind + subject.noun.de_gender)
    choices = [row for row in _DETERMINERS if row.owner in ("", owner) and (row.en_plural if plural else row.en)]
    determiner, adjective = pick(choices), _draw_adjective(pick, noun.kind) if pick((False, True)) else None
    form = _FORMS.index("p" if plural else "a" if subject and noun.de_gender == "m" else noun.de_gender)
    english = _tree("NNS", f"{noun.en}s") if plural else _tree("NN", noun.en)
    german, french = noun.de_plural if plural else noun.de, noun.fr + "s" * plural
    if adjective:
        english = _join(_tree("JJ", adjective.en), english)
        german = _join(adjective.de + determiner.ending.split("/")[form], german)
        agreed = _french_adjective(adjective, noun, plural)
        french = _join(agreed, french) if adjective.fr_side == "before" else _join(french, agreed)
    english = _tree("NP", _tree(determiner.tag, determiner.en_plural if plural else determiner.en), english)
    german = _join(determiner.de.split("/")[form], german)
    french = _join(determiner.fr.split("/")["mfp".index("p" if plural else noun.fr_gender)], french)
    return _Phrase(english, german, french, noun, plural)


def _draw_adjective(pick: _Pick, kind: str) -> Any:
    return pick([adjective for adjective in _ADJECTIVES if kind in adjective.kinds])


def _french_adjective(adjective: Any, noun: Any, plural: bool) -> str:
    return (adjective.fr if noun.fr_gender == "m" else adjective.fr_feminine) + "s" * plural


def _tree(label: str, *children: str) -> str:
    return f"({label} {_join(*children)})"


def _join(*words: str) -> str:
    return " ".join(filter(None, words))
