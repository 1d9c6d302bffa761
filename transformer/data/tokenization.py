"""§5.1: Moses punctuation normalisation and tokenisation, by sacremoses, and the way back to plain text."""

import re

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from transformer.config.experiment import Preparation

# A character that a rule of the normaliser needs to match, and that most words do not have.
MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # a pattern's character classes and the brackets of its groups


class Normalizer(MosesPunctNormalizer):
    """sacremoses' punctuation normaliser, made fast: it tries a rule only on text with a character that it needs."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = [(mark_of(pattern), re.compile(pattern), new) for pattern, new in self.substitutions]

    def normalize(self, text: str) -> str:
        """Normalise the punctuation of a line."""
        for mark, pattern, new in self.rules:
            text = pattern.sub(new, text) if mark in text else text
        return text.strip()


def mark_of(pattern: str) -> str:
    """Return the character that text must have for this pattern of the normaliser to match."""
    literal = SYNTAX.sub("", pattern).replace(r"\r", "\r")
    return "  " if pattern == " +" else MARK.search(literal).group()


class Tokenizer(MosesTokenizer):
    """sacremoses' tokeniser, made fast: it builds its sets of letters once, not at every abbreviation."""

    def __init__(self, language: str):
        super().__init__(language)
        self.alpha, self.lower = frozenset(self.IsAlpha), frozenset(self.IsLower)  # of this language

    def islower(self, text: str) -> bool:
        """Return whether all characters are lower-case letters of this language."""
        return self.lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        """Return whether any character is a letter of this language."""
        return not self.alpha.isdisjoint(text)


class Moses:
    """A language's tokeniser and detokeniser: text to words with single spaces between them, and back."""

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
        if self.preparation.decapitalize and not words[1:2].isupper():  # but not in words such as USA
            words = words[:1].lower() + words[1:]  # a word is one word wherever it stands
        return words

    def detokenize(self, line: str) -> str:
        """Turn a tokenised sentence into plain text; undoes the escapes and the small first letter, nothing else."""
        text = self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
        return text[:1].upper() + text[1:] if self.preparation.decapitalize else text
