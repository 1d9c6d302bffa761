"""§5.1: raw text to clean tokenised text, by Moses' normaliser and tokeniser in sacremoses, and back to plain text.

Moses knows the languages of WMT. With `preparation.whole_words` the text of others comes back, too.
"""

import itertools
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from transformer.config.experiment import Preparation
from transformer.data.corpus import blank, parallel
from transformer.storage.files import InputError, read_pairs, write_columns

RULES = frozenset(NonbreakingPrefixes().available_langs.values())  # the languages whose abbreviations Moses knows
# Codes of three letters, as FLORES has them, of languages that a tokeniser has rules for.
_CODES = "ces:cs deu:de ger:de ell:el eng:en spa:es fin:fi fra:fr gle:ga hun:hu isl:is ita:it lvs:lv lit:lt nld:nl "
_CODES += "pol:pl por:pt ron:ro rus:ru slk:sk slv:sl swe:sv tam:ta cat:ca zho:zh cmn:zh yue:zh jpn:ja kor:ko tha:th "
_SHORT = dict(pair.split(":") for pair in (_CODES + "khm:km mya:my lao:lo bod:bo hin:hi ben:bn guj:gu").split())
composed = partial(unicodedata.normalize, "NFC")  # one character for a letter and its marks, where some write two

# A character that a rule of the normaliser needs to match, and that most words do not have.
MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
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
            mark = "  " if pattern == " +" else MARK.search(literal).group()
            self.rules.append((mark, re.compile(pattern), new))

    def normalize(self, text: str) -> str:
        for mark, pattern, new in self.rules:
            text = pattern.sub(new, text) if mark in text else text
        return text.strip()


class _Tokenizer(MosesTokenizer):
    """sacremoses' tokeniser, made fast: it builds its sets of letters once, not at every abbreviation."""

    def __init__(self, language: str, whole_words: bool = False):
        # For these two sacremoses would compile patterns of all their letters, for seconds; \w has them.
        super().__init__("en" if whole_words and language in ("zh", "ja") else language)
        self.islower, self.letters = frozenset(self.IsLower).issuperset, frozenset(self.IsAlpha)
        if whole_words:
            self.lang = language
            # A sign is cut off with its marks, and with what a joiner joins to it; a flag is two letters. Within words
            # stand apostrophes, Catalan's point and Hebrew's mark of an abbreviation.
            sign = rf"(?:[^\w{_marks()}\s.'`,’·\"\-]|_)(?:\u200d\S|[{_marks()}])*"
            inner = r"(?<!\w)[’·]|[’·](?!\w)|(?<![א-ת])\"|\"(?![א-ת])"
            pattern = rf"((?=[^\w\s.'`,\-]|_)(?:[\U0001F1E6-\U0001F1FF]{{2}}|—+|…+|{sign}|{inner}))"
            self.PAD_NOT_ISALNUM = re.compile(pattern), r" \1 "
            self.NON_SPECIFIC_APOSTROPHE = re.compile(rf"'(?:(?<![\w{_marks()}]')|(?!\w))"), " ' "

    def isanyalpha(self, text: str) -> bool:
        """Return whether any character is a letter of this language."""
        return not self.letters.isdisjoint(text)


@cache
def _marks() -> str:
    """Return marks, joiners and shades of skin, which belong to the character before them, for a pattern's class."""
    joined = (chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in ("Mn", "Mc", "Me", "Cf"))
    return "".join(joined) + "\U0001f3fb-\U0001f3ff"


# No space stands on either side of full-width punctuation, and before these signs of other scripts.
_FULL_WIDTH = re.compile(r" ?([\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]|——+|……+) ?")
_CLOSING = re.compile(" (?=[،؛؟\u06d4।॥။၊។៕\u055c-\u055e\u0589\u05c3\u1361-\u1368”’…](?: |$))")
# A line's only apostrophe that stands alone ends a word, unless it begins one: '68, 's, 'ne, 'em ...
_ALONE, _SHORTENED = "(?:'|&apos;)", r"(?:n?e[mnrs]?|till?|cause|round)\b"
_ELISION = re.compile(rf"^((?!.* {_ALONE} .* {_ALONE}(?: |$)).+?) {_ALONE} (?=[^\W\d]{{2}})(?!{_SHORTENED})")
_APOSTROPHE = "\ue000"  # in its place, so that no rule of sacremoses moves it


class Moses:
    """A language's tokeniser and detokeniser: text to words with single spaces between them, and back."""

    def __init__(self, code: str, preparation: Preparation):
        self.preparation, language = preparation, language_of(code)
        self.normalizer = Normalizer(language)
        self.tokenizer = _Tokenizer(language, bool(preparation.whole_words))
        # sacremoses' rules of Czech fail at `a' - mail` and join a number to the word before it.
        self.detokenizer = MosesDetokenizer("sk" if language == "cs" else language)

    def tokenize(self, line: str) -> str:
        """Turn a raw sentence into a tokenised one."""
        if self.preparation.whole_words:
            line = composed(line)
        if self.preparation.normalize_punctuation:
            line = self.normalizer.normalize(line)
        words = self.tokenizer.tokenize(line, escape=self.preparation.escape, return_str=True).strip()
        if self.preparation.decapitalize and not words[1:2].isupper():  # but not in words such as USA
            words = words[:1].lower() + words[1:]  # a word is one word wherever it stands
        return words.lower() if self.preparation.lowercase else words

    def detokenize(self, line: str) -> str:
        """Turn a tokenised sentence into plain text; undoes the escapes and the small first letter, nothing else."""
        if self.preparation.whole_words:
            line = _ELISION.sub(rf"\1{_APOSTROPHE} ", line)
        text = self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
        if self.preparation.whole_words:
            text = text.replace(_APOSTROPHE, "'")
            text = _CLOSING.sub("", _FULL_WIDTH.sub(r"\1", text))
            text = text if self.detokenizer.lang == "fr" else text.replace("« ", "«").replace(" »", "»")
        capital = self.preparation.decapitalize and not self.preparation.lowercase
        return text[:1].upper() + text[1:] if capital else text


def language_of(code: str) -> str:
    """Return the language of a code such as de, DE, pt_BR, zh-Hant or deu_Latn, as Moses and sacreBLEU name it."""
    language = re.split("[-_]", code.lower())[0]
    return _SHORT.get(language, language)


def no_rules(code: str) -> str | None:
    """Return a line on a language of which Moses has no rules, or None."""
    if (language := language_of(code)) in RULES:
        return None
    return f"{code}: Moses has no rules of a language '{language}', and takes those of English abbreviations"


# Why a training pair is left out, and how that is said.
FAULTS = {"blank": "with a blank side", "long": "too long (max_words)", "unequal": "too unequal (max_ratio)"}
# A word, for `count_words`: of scripts that write no spaces, as many characters as words have there.
_EAST = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SOUTH_EAST = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_EAST}]{{1,2}}|[{_SOUTH_EAST}]{{1,5}}|[^\s{_EAST}{_SOUTH_EAST}]+")


def count_words(text: str, preparation: Preparation) -> int:
    """Count the words of tokenised text."""
    if text.isascii() or not preparation.whole_words:
        return len(text.split())
    return 0 if blank(text) else len(_WORD.findall(text))


def fault(source: str, target: str, preparation: Preparation) -> str | None:
    """Return the rule by which a tokenised training pair is left out, or None if it is clean."""
    short, long = sorted(count_words(side, preparation) for side in (source, target))
    if not short:
        return "blank"
    return "long" if long > preparation.max_words else "unequal" if long > short * preparation.max_ratio else None


def write_tokenized(
    corpora: list[tuple[Path, Path]],
    outputs: list[Path],
    languages: tuple[str, str],
    preparation: Preparation,
    clean: bool,
    processes: int,
) -> dict[str, int]:
    """Tokenise the (source, target) files of `corpora` into `outputs`; `clean` drops the pairs that have a `fault`.

    Returns how many pairs were "read" and "kept", and how many had each fault. Raises InputError if none is left.
    """
    counts = Counter(dict.fromkeys(("read", "kept", *(FAULTS if clean else ())), 0))
    task = partial(_tokenize, [Moses(language, preparation) for language in languages], clean)
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
    """Say how many pairs were left out by which rule."""
    return ", ".join(f"{counts[name]:,} {rule}" for name, rule in FAULTS.items() if name in counts)


def _tokenize(moses: list[Moses], clean: bool, pairs: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], Counter]:
    """Return the pairs that are kept, and the number of others by their fault."""
    source, target = moses
    tokenized = [(source.tokenize(left), target.tokenize(right)) for left, right in pairs]
    faults = [fault(*pair, source.preparation) if clean else None for pair in tokenized]
    kept = [pair for pair, found in zip(tokenized, faults, strict=True) if not found]
    return kept, Counter(filter(None, faults))
