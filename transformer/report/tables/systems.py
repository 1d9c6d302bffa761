"""Translations that systems of others made of a test set, its references, and the score that their makers published."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from transformer.evaluation.bleu import detokenize, paper_tokens
from transformer.files import InputError, sha256
from transformer.records import Positive, typed
from transformer.text import read_lines, read_pairs

# A line of sacreBLEU, of which some publish nothing but the score.
PUBLISHED = re.compile(
    r"(?:(?P<signature>BLEU\S*) = )?(?P<score>\d+(?:\.\d+)?)"
    r"(?: (?P<precisions>\d+\.\d+(?:/\d+\.\d+){3}) \(BP = (?P<penalty>\d\.\d+) ratio = \d\.\d+"
    r" hyp_len = (?P<tokens>\d+) ref_len = (?P<reference_tokens>\d+)\))?"
)


class Files(TypedDict):
    """The files of a system: the test set's two sides, what the system read and wrote, and its published score."""

    source: str
    target: str
    input: str
    output: str
    published: NotRequired[str]


class Entry(TypedDict):
    """A system as one --system describes it; `System` says what its words mean."""

    name: str
    label: str
    language: str
    test: str
    sentences: Positive
    form: Literal["text", "tokens"]
    note: str | None
    files: Files


@dataclass(frozen=True)
class System:
    """Translations that one system made of a test set, or of a part of it."""

    name: str
    label: str
    language: str  # of its translations
    test: str  # the corpus
    form: str  # of the output: text, or tokens of Moses with compounds split
    note: str | None  # for readers
    output: list[str]  # as its makers published it
    hypotheses: list[str]  # the same as people write it
    references: list[str]
    ambiguous: int  # sentences that the test set has with another reference, too
    published: dict | None  # score, signature, precisions, penalty, tokens, reference_tokens: text, or None
    sums: dict[str, str]  # SHA-256 of each file


def read_system(entry: Any) -> System:
    """Return what one --system describes. Raises InputError naming the file where files do not fit each other."""
    values = dict(typed(entry, Entry, "--system"))
    paths, count = values.pop("files"), values.pop("sentences")
    output, inputs = list(read_lines(paths["output"])), list(read_lines(paths["input"]))
    if len(output) != count:
        raise InputError(f"{paths['output']}: expected {count} sentences, found {len(output)}")
    if len(inputs) < count:
        raise InputError(f"{paths['input']}: expected {count} sentences or more, found {len(inputs)}")
    references, ambiguous = find_references(inputs[:count], paths)
    return System(
        **values,
        output=output,
        hypotheses=detokenize(output, values["language"]) if values["form"] == "tokens" else output,
        references=references,
        ambiguous=ambiguous,
        published=read_published(paths["published"]) if "published" in paths else None,
        sums={name: sha256(path) for name, path in paths.items()},
    )


def find_references(inputs: list[str], paths: dict[str, str]) -> tuple[list[str], int]:
    """Return the reference of each input by its text, and of how many the test set has further, different ones.

    Of a sentence that the test set has several times, the first occurrence in `inputs` takes its first reference, and
    so on. Raises InputError naming the line of an input that the test set does not have, or not as often.
    """
    known: dict[str, list[str]] = defaultdict(list)
    for source, reference in read_pairs(paths["source"], paths["target"]):
        known[source].append(reference)
    seen, references = defaultdict(int), []
    for number, sentence in enumerate(inputs, start=1):
        if seen[sentence] == len(known[sentence]):
            where = f"{paths['input']}, line {number}"
            raise InputError(f"{where}: expected a sentence of {paths['source']}, found {sentence!r}")
        references.append(known[sentence][seen[sentence]])
        seen[sentence] += 1
    further = (count for source, count in seen.items() if count < len(known[source]) and len(set(known[source])) > 1)
    return references, sum(further)


def read_published(path: str) -> dict:
    """Return the parts of a published score. Raises InputError naming the file where it is none."""
    text = "\n".join(read_lines(path)).strip()
    match = PUBLISHED.fullmatch(text)
    if not match:
        raise InputError(f"{path}: expected a BLEU score or a line of sacreBLEU, found {text[:80]!r}")
    return match.groupdict()


def as_published(system: System) -> tuple[BLEUScore, str]:
    """Return sacreBLEU, and its signature, computed as the makers did.

    That is on text; or where the output is tokens, on these, against the reference tokenised and split in the same way.
    """
    bleu, references = BLEU(force=True), system.references  # force: no warning of tokens
    if system.form == "tokens":
        references = paper_tokens(references, system.language)
    score = bleu.corpus_score(system.output, [references])
    return score, bleu.get_signature().format()
