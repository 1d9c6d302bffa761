"""A parallel corpus of any size, drawn at random: words are as frequent as in Zipf's law, lines as long as WMT's.

Its text has what costs a tokeniser time: commas, quotes, abbreviations, numbers, apostrophes, and words by the million.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transformer.files import replacing

TYPES = 2_000_000  # different words; a corpus of 4 million pairs has a third of them
WORDS, SHAPE, LONGEST = 24, 2.0, 100  # a line's: mean; of the gamma distribution; at most
LINES = 10_000  # drawn at once
CONSONANTS = {"en": "tnshrdlcmwfgypbvk", "de": "nsrtdhlgmbwfkzpvj"}
VOWELS = {"en": ("e", "a", "o", "i", "u"), "de": ("e", "i", "a", "u", "ä", "ö")}
AFTER = [" "] * 86 + [", "] * 7 + ["'s ", " (a) ", " – ", ": ", " z.B. ", " U.S. ", " 1,234.5 "]  # a word


def write_corpus(files: dict[str, Path], pairs: int, seed: int) -> None:
    """Write `pairs` lines to each language's file; the same seed gives the same text."""
    for number, (language, path) in enumerate(files.items()):
        lengths, random = np.random.default_rng(seed), np.random.default_rng((seed, number))
        words = spellings(language)
        with replacing(path) as file:
            for start in range(0, pairs, LINES):
                file.writelines(lines(random, words, draw_lengths(lengths, min(LINES, pairs - start))))


def spellings(language: str) -> list[str]:
    """Return TYPES words, of which the frequent ones are short."""
    syllables = [consonant + vowel for consonant in CONSONANTS[language] for vowel in VOWELS[language]]
    words = list(syllables)
    for word in words:  # which grows meanwhile
        words.extend(word + syllable for syllable in syllables)
        if len(words) >= TYPES:
            return words[:TYPES]


def draw_lengths(random: np.random.Generator, count: int) -> np.ndarray:
    """Draw the lengths of `count` lines, in words; both languages have the same lengths."""
    return random.gamma(SHAPE, WORDS / SHAPE, count).clip(1, LONGEST).astype(int)


def lines(random: np.random.Generator, words: list[str], lengths: np.ndarray) -> Iterator[str]:
    """Yield lines of these lengths, each with its line end."""
    total = lengths.sum()
    # Zipf's law for a continuous rank: the logarithm of the rank is uniform.
    ranks = (len(words) ** random.random(total)).astype(int) - 1
    text = [words[rank] + AFTER[kind] for rank, kind in zip(ranks, random.integers(0, len(AFTER), total), strict=True)]
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        line = "".join(text[end - length : end])
        yield f"{line[0].upper()}{line[1:].rstrip(' ,:–')}.\n"
