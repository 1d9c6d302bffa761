"""§5.1: Moses punctuation normalisation and tokenisation, by sacremoses, and the way back to plain text."""

import re
from typing import NamedTuple

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from transformer.config.experiment import Preparation

# A character that a rule of the normaliser needs to match, and that most words do not have.
MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # a pattern's character classes and the brackets of its groups


class Rule(NamedTuple):
    """A pattern that is tried only on text with `needed`, without which it cannot match."""

    needed: str
    pattern: re.Pattern

    def sub(self, replacement: str, text: str) -> str:
        """Replace the matches of the pattern, as `re.Pattern.sub` does; the tokeniser calls it."""
        return self.pattern.sub(replacement, text) if self.needed in text else text


class Normalizer(MosesPunctNormalizer):
    """sacremoses' punctuation normaliser, made fast: it tries a rule only where it can match."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = [
            (Rule(mark_of(pattern), re.compile(pattern)), replacement) for pattern, replacement in self.substitutions
        ]

    def normalize(self, text: str) -> str:
        """Normalise the punctuation of a line."""
        for rule, replacement in self.rules:
            text = rule.sub(replacement, text)
        return text.strip()


def mark_of(pattern: str) -> str:
    """Return the character that text must have for this pattern of the normaliser to match."""
    literal = SYNTAX.sub("", pattern).replace(r"\r", "\r")
    return "  " if pattern == " +" else MARK.search(literal).group()


class Tokenizer(MosesTokenizer):
    """sacremoses' tokeniser, made fast: as above, and it builds its sets of letters once, not at every abbreviation."""

    def __init__(self, language: str):
        super().__init__(language)
        self.alpha, self.lower = frozenset(self.IsAlpha), frozenset(self.IsLower)  # of this language
        for name in ("COMMA_SEPARATE_1", "COMMA_SEPARATE_2", "COMMA_SEPARATE_3"):
            setattr(self, name, only_with(",", getattr(self, name)))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            setattr(self, name, [only_with("'", rule) for rule in getattr(self, name)])

    def islower(self, text: str) -> bool:
        """Return whether all characters are lower-case letters of this language."""
        return self.lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        """Return whether any character is a letter of this language."""
        return not self.alpha.isdisjoint(text)


def only_with(needed: str, rule: tuple[re.Pattern, str]) -> tuple[Rule, str]:
    """Return a rule of the tokeniser (a pattern and its replacement) that is tried only on text with `needed`."""
    pattern, replacement = rule
    return Rule(needed, pattern), replacement


class Moses:
    """A language's tokeniser and detokeniser: text to words separated by single spaces, and back."""

    def __init__(self, language: str, preparation: Preparation):
        self.preparation = preparation
        self.normalizer = Normalizer(language)
        self.tokenizer = Tokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def tokenize(self, line: str) -> str:
        """Turn a raw sentence into a tokenised one."""
        if self.preparation.normalize_punctuation:
            line = self.normalizer.normalize(line)
        words = self.tokenizer.tokenize(line, escape=self.preparation.escape, return_str=True)
        return decapitalized(words) if self.preparation.decapitalize else words

    def detokenize(self, line: str) -> str:
        """Turn a tokenised sentence into plain text; undoes the escapes and the small first letter, nothing else."""
        text = self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
        return text[:1].upper() + text[1:] if self.preparation.decapitalize else text


def decapitalized(words: str) -> str:
    """Write the first letter small, so that a word is one word wherever it stands; but not in words such as USA."""
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]
