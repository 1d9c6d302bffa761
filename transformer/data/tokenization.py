"""§5.1: Moses punctuation normalisation and tokenisation, by sacremoses, and the way back to plain text."""

import re
from typing import NamedTuple

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from transformer.config.experiment import Preparation

# What a rule of the normaliser cannot do without, and most words have none of.
MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # of a pattern: its groups' brackets, and all its classes


class Rule(NamedTuple):
    """A pattern that is only looked for in text that has `needed`, without which it cannot match."""

    needed: str
    pattern: re.Pattern

    def sub(self, replacement: str, text: str) -> str:
        return self.pattern.sub(replacement, text) if self.needed in text else text


class Normalizer(MosesPunctNormalizer):
    """sacremoses' punctuation normaliser, which tries its rules only where they can match."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = [(Rule(mark_of(pattern), re.compile(pattern)), by) for pattern, by in self.substitutions]

    def normalize(self, text: str) -> str:
        for rule, replacement in self.rules:
            text = rule.sub(replacement, text)
        return text.strip()


def mark_of(pattern: str) -> str:
    """What text must have for this pattern of the normaliser to change it."""
    literal = SYNTAX.sub("", pattern).replace(r"\r", "\r")
    return "  " if pattern == " +" else MARK.search(literal).group()


class Tokenizer(MosesTokenizer):
    """sacremoses' tokeniser, likewise; and it does not make a set of all letters anew at every abbreviation."""

    def __init__(self, language: str):
        super().__init__(language)
        self.alpha, self.lower = frozenset(self.IsAlpha), frozenset(self.IsLower)  # of this language
        commas = ("COMMA_SEPARATE_1", "COMMA_SEPARATE_2", "COMMA_SEPARATE_3")
        for name in commas:
            setattr(self, name, only_with(",", getattr(self, name)))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            setattr(self, name, [only_with("'", rule) for rule in getattr(self, name)])

    def islower(self, text: str) -> bool:
        return self.lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self.alpha.isdisjoint(text)


def only_with(needed: str, rule: tuple[re.Pattern, str]) -> tuple[Rule, str]:
    """A rule of the tokeniser, a pattern and what replaces it."""
    pattern, replacement = rule
    return Rule(needed, pattern), replacement


class Moses:
    """Text of one language to words separated by single spaces, and back."""

    def __init__(self, language: str, preparation: Preparation):
        self.preparation = preparation
        self.normalizer = Normalizer(language)
        self.tokenizer = Tokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def tokenize(self, line: str) -> str:
        """Raw sentence to tokenised sentence."""
        if self.preparation.normalize_punctuation:
            line = self.normalizer.normalize(line)
        return self.tokenizer.tokenize(line, escape=self.preparation.escape, return_str=True)

    def detokenize(self, line: str) -> str:
        """Tokenised sentence to plain text; undoes the escapes, not the normalisation."""
        return self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
