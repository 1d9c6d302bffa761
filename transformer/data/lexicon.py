"""The words of the demo corpus in three languages, from the tables in lexicon.txt.

A letter there is a kind of noun: person, animal, food, text, object, vessel, location, surface, x (abstract). Kinds
decide which words may be combined.
"""

import re
from collections import namedtuple
from pathlib import Path

Row = tuple  # a row of a table: a noun, a verb, an adjective, a preposition


def read_tables(path: Path) -> dict[str, list[Row]]:
    """Return the tables of a file by name, their rows as named tuples with the columns' names; `#` begins a comment."""
    tables = {}
    for text in re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE).strip().split("\n\n"):
        name, header, *lines = text.split("\n")
        row = namedtuple("Row", header.split())
        cells = ([word.removeprefix("-").replace("_", " ") for word in line.split()] for line in lines)
        tables[name] = [row(*words) for words in cells]
    return tables


def is_name(noun: Row) -> bool:
    """Return whether a noun is a proper name, which has no plural."""
    return not noun.en_plural


TABLES = read_tables(Path(__file__).with_name("lexicon.txt"))
NOUNS, ADJECTIVES, VERBS, PREPOSITIONS = map(TABLES.get, ("nouns", "adjectives", "verbs", "prepositions"))
BE = VERBS[0]
GERMAN = {word.en: word.de for word in TABLES["determiners"] + TABLES["particles"]}
FRENCH = {word.en: word.fr for word in TABLES["particles"]}
FRENCH_DETERMINERS = {word.en: word[2:] for word in TABLES["determiners"]}
