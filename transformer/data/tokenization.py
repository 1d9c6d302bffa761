"""§5.1: raw text to clean tokenised text, by Moses' normaliser and tokeniser in sacremoses, and back to plain text."""

import itertools
import re
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from transformer.config.experiment import Preparation
from transformer.data.corpus import parallel
from transformer.files import InputError, read_pairs, replacing

# A character that a rule of the normaliser needs to match, and that most words do not have.
MARK = re.compile("[^\\w\\s\\\\.,+?!]|[\r\u00a0]")
_SYNTAX = re.compile(r"(?<!\\)(\[[^]]*\]|[()])")  # a pattern's character classes and the brackets of its groups


class _Normalizer(MosesPunctNormalizer):
    """sacremoses' punctuation normaliser, made fast: it tries a rule only on text with a character that it needs."""

    def __init__(self, language: str):
        super().__init__(language)
        self.rules = []  # each with a character that text must have for it to match
        for pattern, new in self.substitutions:
            literal = _SYNTAX.sub("", pattern).replace(r"\r", "\r")
            mark = "  " if pattern == " +" else MARK.search(literal).group()
            self.rules.append((mark, re.compile(pattern), new))

    def normalize(self, text: str) -> str:
        for mark, pattern, new in self.rules:
            text = pattern.sub(new, text) if mark in text else text
        return text.strip()


class _Tokenizer(MosesTokenizer):
    """sacremoses' tokeniser, made fast: it builds its sets of letters once, not at every abbreviation."""

    def __init__(self, language: str):
        super().__init__(language)
        self.islower, self.letters = frozenset(self.IsLower).issuperset, frozenset(self.IsAlpha)

    def isanyalpha(self, text: str) -> bool:
        """Return whether any character is a letter of this language."""
        return not self.letters.isdisjoint(text)


class Moses:
    """A language's tokeniser and detokeniser: text to words with single spaces between them, and back."""

    def __init__(self, language: str, preparation: Preparation):
        self.preparation = preparation
        self.normalizer = _Normalizer(language)
        self.tokenizer = _Tokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def tokenize(self, line: str) -> str:
        """Turn a raw sentence into a tokenised one."""
        if self.preparation.normalize_punctuation:
            line = self.normalizer.normalize(line)
        words = self.tokenizer.tokenize(line, escape=self.preparation.escape, return_str=True)
        if self.preparation.decapitalize and not words[1:2].isupper():  # but not in words such as USA
            words = words[:1].lower() + words[1:]  # a word is one word wherever it stands
        return words.lower() if self.preparation.lowercase else words

    def detokenize(self, line: str) -> str:
        """Turn a tokenised sentence into plain text; undoes the escapes and the small first letter, nothing else."""
        text = self.detokenizer.detokenize(line.split(), unescape=self.preparation.escape)
        return text[:1].upper() + text[1:] if self.preparation.decapitalize else text


def keep(source: str, target: str, preparation: Preparation) -> bool:
    """Return whether a tokenised training pair is clean: no side empty or too long, and their lengths similar."""
    short, long = sorted((len(source.split()), len(target.split())))
    return short > 0 and long <= preparation.max_words and long <= short * preparation.max_ratio


def write_tokenized(
    corpora: list[tuple[Path, Path]],
    outputs: list[Path],
    languages: tuple[str, str],
    preparation: Preparation,
    clean: bool,
    processes: int,
) -> dict[str, int]:
    """Tokenise the (source, target) files of `corpora` into `outputs`; `clean` drops the pairs that `keep` refuses.

    Returns how many pairs were "read" and "kept". Raises InputError if none is left.
    """
    counts = {"read": 0, "kept": 0}
    task = partial(_tokenize, [Moses(language, preparation) for language in languages], clean)
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in outputs]
        pairs = itertools.chain.from_iterable(read_pairs(*paths) for paths in corpora)
        for read, kept in parallel(task, pairs, processes, lambda pair: sum(map(len, pair))):
            counts["read"] += read
            counts["kept"] += len(kept)
            for side, file in enumerate(files):
                file.writelines(pair[side] + "\n" for pair in kept)
        if not counts["kept"]:
            raise InputError(f"{corpora[0][0]}: no pair of {counts['read']} is left after cleaning")
    return counts


def _tokenize(moses: list[Moses], clean: bool, pairs: list[tuple[str, str]]) -> tuple[int, list[tuple[str, str]]]:
    source, target = moses
    tokenized = [(source.tokenize(left), target.tokenize(right)) for left, right in pairs]
    return len(pairs), [pair for pair in tokenized if not clean or keep(*pair, source.preparation)]
