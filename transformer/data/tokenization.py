"""§5.1: conversion of raw text for the vocabulary, and back to plain text.

Moses' normaliser and tokeniser (from sacremoses) split words as in the paper's data. In many languages they split
words wrongly, at marks, joiners or apostrophes. Text in these languages is not tokenised, because SentencePiece finds
subwords in any script.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from transformer.config.experiment import Preprocessing
from transformer.data.corpus import blank, parallel
from transformer.storage.files import InputError, read_pairs, write_columns

_RULES = frozenset(NonbreakingPrefixes().available_langs.values())  # languages with a list of abbreviations in Moses
# Languages for which Moses has rules, and whose text detokenisation restores. In most other languages Moses splits
# words at apostrophes or marks. It also does so in German, but the recorded runs need Moses for German.
_MOSES = {"cs", "de", "en", "es", "fr", "hu", "is", "lt", "sk", "sl"}
# Other codes of languages with a tokeniser: codes of three letters, which FLORES uses, and codes of countries.
_CODES = "ces:cs deu:de ger:de ell:el eng:en spa:es fin:fi fra:fr gle:ga hun:hu isl:is ita:it lvs:lv lit:lt nld:nl "
_CODES += "pol:pl por:pt ron:ro rus:ru slk:sk slv:sl swe:sv tam:ta cat:ca zho:zh cmn:zh yue:zh chi:zh cn:zh "
_CODES += "jpn:ja jp:ja kor:ko kr:ko tha:th khm:km mya:my lao:lo bod:bo hin:hi ben:bn guj:gu"
_SHORT = dict(pair.split(":") for pair in _CODES.split())
composed = partial(unicodedata.normalize, "NFC")  # one character for a letter with its marks

# The dotted and the dotless i. They form other pairs of cases in Turkish and Azerbaijani.
_TURKISH = {str.lower: {"I": "\u0131", "\u0130": "i"}, str.upper: {"i": "\u0130", "\u0131": "I"}}

# Each rule of the normaliser needs a character that is rare in words. This pattern finds it in the rule.
_MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
_SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # character classes and group brackets of a pattern
# A rule that searches for a quote after every dot of a sequence, and an equivalent rule that reads the sequence once.
_LINEAR = {r'(\.+)"(\s*[^<])': (r'(\.+)((")(\s*[^<]))?', r"\3\1\4")}


class Normalizer(MosesPunctNormalizer):
    """A fast version of sacremoses' punctuation normaliser. It skips a rule if the text lacks a necessary character."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = []  # each rule with the character that it needs
        for pattern, new in (_LINEAR.get(pattern, (pattern, new)) for pattern, new in self.substitutions):
            literal = _SYNTAX.sub("", pattern).replace(r"\r", "\r")
            mark = "  " if pattern == " +" else _MARK.search(literal).group()
            self.rules.append((mark, re.compile(pattern), new))

    def normalize(self, text: str) -> str:
        for mark, pattern, new in self.rules:
            text = pattern.sub(new, text) if mark in text else text
        return text.strip()


def uses_moses(code: str, preprocessing: Preprocessing) -> bool:
    """Return whether Moses splits the words of a language. The key `tokenizer` decides if it is set."""
    if preprocessing.tokenizer:
        return preprocessing.tokenizer == "moses"
    return language_of(code) in _MOSES


class Tokenizer:
    """A converter between a language's plain text and tokenised text: words with single spaces between them."""

    def __init__(self, code: str, preprocessing: Preprocessing):
        self.preprocessing, self.moses = preprocessing, uses_moses(code, preprocessing)
        self.turkish = language_of(code) in ("tr", "az")
        if self.moses:
            language = language_of(code)
            self.normalizer, self.tokenizer = Normalizer(language), MosesTokenizer(language)
            # sacremoses' rules for Czech fail on `a' - mail` and join a number to the previous word.
            self.detokenizer = MosesDetokenizer("sk" if language == "cs" else language)

    def tokenize(self, line: str) -> str:
        """Tokenise a raw sentence. Without Moses, only normalise it to NFC and single spaces."""
        if self.moses:
            if self.preprocessing.normalize_punctuation:
                line = self.normalizer.normalize(line)
            words = self.tokenizer.tokenize(line, escape=self.preprocessing.escape, return_str=True).strip()
        else:
            words = " ".join(composed(line).split())
        if self.preprocessing.decapitalize and not words[1:2].isupper():  # words such as USA stay unchanged
            words = self._recased(words, str.lower)  # equal words become equal tokens at any position
        return words.lower() if self.preprocessing.lowercase else words

    def detokenize(self, line: str) -> str:
        """Detokenise a sentence. This undoes Moses' escapes and the lower-case first letter, nothing else."""
        if self.moses:
            text = self.detokenizer.detokenize(line.split(), unescape=self.preprocessing.escape)
        else:
            text = " ".join(line.split())
        if self.preprocessing.decapitalize and not self.preprocessing.lowercase:
            text = self._recased(text, str.upper)
        return text if self.moses else composed(text)  # the model and upper() may write a letter as several characters

    def _recased(self, text: str, change: Callable[[str], str]) -> str:
        """Change the first letter if the change can be undone. In a ligature it cannot be undone."""
        letter, undo = text[:1], str.upper if change is str.lower else str.lower
        first = change(letter)
        if self.turkish and letter in _TURKISH[change]:
            return _TURKISH[change][letter] + text[1:]
        return (first if composed(undo(first)) == letter else letter) + text[1:]

    def count_words(self, text: str) -> int:
        """Count the words of tokenised text."""
        if self.moses or text.isascii():
            return len(text.split())
        return 0 if blank(text) else len(_WORD.findall(text))


def language_of(code: str) -> str:
    """Return Moses' and sacreBLEU's name for the language of a code such as de, DE, pt_BR, zh-Hant or deu_Latn."""
    language = re.split("[-_]", code.lower())[0]
    return _SHORT.get(language, language)


def no_rules(code: str) -> str | None:
    """Return a warning about a language without rules in Moses, or None."""
    if (language := language_of(code)) in _RULES:
        return None
    return f"{code}: Moses has no rules for language '{language}' and uses the rules for English abbreviations"


# Reasons to drop a training pair.
_FAULTS = {"blank": "with a blank side", "long": "too long (max_words)", "unequal": "too unequal (max_ratio)"}
# A word of raw text. In scripts without spaces, a word is a typical number of characters.
_EAST = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SOUTH_EAST = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_EAST}]{{1,2}}|[{_SOUTH_EAST}]{{1,5}}|[^\s{_EAST}{_SOUTH_EAST}]+")


def _flaw(source: int, target: int, preprocessing: Preprocessing) -> str | None:
    """Return the reason to drop a training pair with these word counts, or None if it is clean."""
    short, long = sorted((source, target))
    if not short:
        return "blank"
    return "long" if long > preprocessing.max_words else "unequal" if long > short * preprocessing.max_ratio else None


def write_tokenized(
    corpora: list[tuple[Path, Path]],
    outputs: list[Path],
    languages: tuple[str, str],
    preprocessing: Preprocessing,
    clean: bool,
    processes: int,
) -> dict[str, int]:
    """Tokenise the (source, target) files of `corpora` into `outputs`. If `clean`, drop faulty pairs.

    Returns the number of pairs that were "read" and "kept", and the number of each fault. Raises InputError if no pair
    is left.
    """
    counts = Counter(dict.fromkeys(("read", "kept", *(_FAULTS if clean else ())), 0))
    task = partial(_tokenize, [Tokenizer(language, preprocessing) for language in languages], clean)
    pairs = itertools.chain.from_iterable(read_pairs(*paths) for paths in corpora)

    def tokenized() -> Iterator[tuple[str, str]]:
        for kept, faults in parallel(task, pairs, processes, lambda pair: sum(map(len, pair))):
            counts.update(faults, read=len(kept) + faults.total(), kept=len(kept))
            yield from kept
        if not counts["kept"]:
            raise InputError(f"{corpora[0][0]}: no pair of {counts['read']} is left after cleaning: {dropped(counts)}")

    write_columns(tokenized(), outputs)
    return dict(counts)


def dropped(counts: dict[str, int]) -> str:
    """Describe the number of dropped pairs by reason."""
    return ", ".join(f"{counts[name]:,} {rule}" for name, rule in _FAULTS.items() if name in counts)


def _tokenize(
    tokenizers: list[Tokenizer], clean: bool, pairs: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], Counter]:
    """Return the clean pairs, and the number of other pairs by fault."""
    source, target = tokenizers
    kept, faults = [], Counter()
    for left, right in pairs:
        pair = source.tokenize(left), target.tokenize(right)
        wrong = _flaw(source.count_words(pair[0]), target.count_words(pair[1]), source.preprocessing) if clean else None
        if wrong:
            faults[wrong] += 1
        else:
            kept.append(pair)
    return kept, faults
