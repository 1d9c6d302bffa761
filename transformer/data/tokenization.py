"""§5.1: raw text to text for the vocabulary, and back to plain text.

Moses' normaliser and tokeniser, in sacremoses, cut words as for the paper's data. They break words of many languages
(marks, joiners, apostrophes). The text of these languages is left as it is: SentencePiece finds subwords in any script.
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

_RULES = frozenset(NonbreakingPrefixes().available_langs.values())  # the languages whose abbreviations Moses knows
# Languages for which Moses has rules, and whose text comes back from its words. In most others it cuts words at
# apostrophes or marks, as it does in German, whose recorded runs need it.
_MOSES = {"cs", "de", "en", "es", "fr", "hu", "is", "lt", "sk", "sl"}
# Other codes of languages that a tokeniser has rules for: of three letters, as FLORES has them, and of countries.
_CODES = "ces:cs deu:de ger:de ell:el eng:en spa:es fin:fi fra:fr gle:ga hun:hu isl:is ita:it lvs:lv lit:lt nld:nl "
_CODES += "pol:pl por:pt ron:ro rus:ru slk:sk slv:sl swe:sv tam:ta cat:ca zho:zh cmn:zh yue:zh chi:zh cn:zh "
_CODES += "jpn:ja jp:ja kor:ko kr:ko tha:th khm:km mya:my lao:lo bod:bo hin:hi ben:bn guj:gu"
_SHORT = dict(pair.split(":") for pair in _CODES.split())
composed = partial(unicodedata.normalize, "NFC")  # one character for a letter and its marks, where some write two

# The letters i with and without a dot, whose cases are other pairs in Turkish and Azerbaijani.
_TURKISH = {str.lower: {"I": "\u0131", "\u0130": "i"}, str.upper: {"i": "\u0130", "\u0131": "I"}}

# A character that a rule of the normaliser needs to match, and that most words do not have.
_MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
_SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # a pattern's character classes and the brackets of its groups
# A rule that looks for a quote behind every dot of a row, and its equal that reads the row once.
_LINEAR = {r'(\.+)"(\s*[^<])': (r'(\.+)((")(\s*[^<]))?', r"\3\1\4")}


class Normalizer(MosesPunctNormalizer):
    """sacremoses' punctuation normaliser, made fast: it tries a rule only on text with a character that it needs."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = []  # each with a character that text must have for it to match
        for pattern, new in (_LINEAR.get(pattern, (pattern, new)) for pattern, new in self.substitutions):
            literal = _SYNTAX.sub("", pattern).replace(r"\r", "\r")
            mark = "  " if pattern == " +" else _MARK.search(literal).group()
            self.rules.append((mark, re.compile(pattern), new))

    def normalize(self, text: str) -> str:
        for mark, pattern, new in self.rules:
            text = pattern.sub(new, text) if mark in text else text
        return text.strip()


def uses_moses(code: str, preprocessing: Preprocessing) -> bool:
    """Return whether Moses cuts the words of a language: the key `tokenizer` decides, or else the language."""
    if preprocessing.tokenizer:
        return preprocessing.tokenizer == "moses"
    return language_of(code) in _MOSES


class Tokenizer:
    """Turns a language's text into what the vocabulary encodes, words with single spaces between them, and back."""

    def __init__(self, code: str, preprocessing: Preprocessing):
        self.preprocessing, self.moses = preprocessing, uses_moses(code, preprocessing)
        self.turkish = language_of(code) in ("tr", "az")
        if self.moses:
            language = language_of(code)
            self.normalizer, self.tokenizer = Normalizer(language), MosesTokenizer(language)
            # sacremoses' rules of Czech fail at `a' - mail` and join a number to the word before it.
            self.detokenizer = MosesDetokenizer("sk" if language == "cs" else language)

    def tokenize(self, line: str) -> str:
        """Turn a raw sentence into a tokenised one; without Moses, into one in NFC."""
        if self.moses:
            if self.preprocessing.normalize_punctuation:
                line = self.normalizer.normalize(line)
            words = self.tokenizer.tokenize(line, escape=self.preprocessing.escape, return_str=True).strip()
        else:
            words = " ".join(composed(line).split())
        if self.preprocessing.decapitalize and not words[1:2].isupper():  # but not in words such as USA
            words = self._recased(words, str.lower)  # a word is one word wherever it stands
        return words.lower() if self.preprocessing.lowercase else words

    def detokenize(self, line: str) -> str:
        """Turn a tokenised sentence into plain text; undoes Moses' escapes and the small first letter, nothing else."""
        if self.moses:
            text = self.detokenizer.detokenize(line.split(), unescape=self.preprocessing.escape)
        else:
            text = " ".join(line.split())
        if self.preprocessing.decapitalize and not self.preprocessing.lowercase:
            text = self._recased(text, str.upper)
        return text if self.moses else composed(text)  # a large letter or the model may need several characters

    def _recased(self, text: str, change: Callable[[str], str]) -> str:
        """Change the first letter if that can be undone, which it cannot in a ligature."""
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
    """Return the language of a code such as de, DE, pt_BR, zh-Hant or deu_Latn, as Moses and sacreBLEU name it."""
    language = re.split("[-_]", code.lower())[0]
    return _SHORT.get(language, language)


def no_rules(code: str) -> str | None:
    """Return a line on a language of which Moses has no rules, or None."""
    if (language := language_of(code)) in _RULES:
        return None
    return f"{code}: Moses has no rules of a language '{language}', and takes those of English abbreviations"


# Why a training pair is left out.
_FAULTS = {"blank": "with a blank side", "long": "too long (max_words)", "unequal": "too unequal (max_ratio)"}
# A word of raw text: in scripts without spaces, as many characters as words have there.
_EAST = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SOUTH_EAST = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_EAST}]{{1,2}}|[{_SOUTH_EAST}]{{1,5}}|[^\s{_EAST}{_SOUTH_EAST}]+")


def _flaw(source: int, target: int, preprocessing: Preprocessing) -> str | None:
    """Return the rule by which a training pair with so many words is left out, or None if it is clean."""
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
    """Tokenise the (source, target) files of `corpora` into `outputs`; `clean` drops the pairs that have a fault.

    Returns how many pairs were "read" and "kept", and how many had each fault. Raises InputError if none is left.
    """
    counts = Counter(dict.fromkeys(("read", "kept", *(_FAULTS if clean else ())), 0))
    task = partial(_tokenize, [Tokenizer(language, preprocessing) for language in languages], clean)
    pairs = itertools.chain.from_iterable(read_pairs(*paths) for paths in corpora)

    def tokenized() -> Iterator[tuple[str, str]]:
        for kept, faults in parallel(task, pairs, processes, lambda pair: sum(map(len, pair))):
            counts.update(faults, read=len(kept) + faults.total(), kept=len(kept))
            yield from kept
        if not counts["kept"]:
            raise InputError(f"{corpora[0][0]}: no pair of {counts['read']} is left after cleaning: {left_out(counts)}")

    write_columns(tokenized(), outputs)
    return dict(counts)


def left_out(counts: dict[str, int]) -> str:
    """Describe how many pairs were left out by which rule."""
    return ", ".join(f"{counts[name]:,} {rule}" for name, rule in _FAULTS.items() if name in counts)


def _tokenize(
    tokenizers: list[Tokenizer], clean: bool, pairs: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], Counter]:
    """Return the pairs that are kept, and the number of others by their fault."""
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
