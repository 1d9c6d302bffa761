"""§6.3: from treebanks to a parser's training trees, and from its parses to silver trees for another parser.

The paper trains and tests on the Wall Street Journal part of the Penn Treebank, which needs a licence. GUM (the
Georgetown University Multilayer corpus, with GENTLE as its second test set) is free.
"""

import hashlib
import io
import logging
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from transformer.data.archive import read_members, read_text
from transformer.layout import SIDES, Data
from transformer.parsing.trees import Tree, bracketed, clean, encode_tree, one_a_line, parse_trees, phrases, words
from transformer.storage.checksums import sums_of
from transformer.storage.files import (
    InputError,
    decode_lines,
    draw,
    read_lines,
    replacing,
    split_lines,
    write,
    write_columns,
)
from transformer.storage.records import read_parses, write_json

logger = logging.getLogger(__name__)
_LICENCE = (
    "the Linguistic Data Consortium licenses and provides the Penn Treebank as LDC99T42: "
    "https://catalog.ldc.upenn.edu/LDC99T42"
)
_PENN_FILE = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)  # names on a CD may be in capitals
_GUM_MEMBER = re.compile(r"[^/]+/(splits\.md|const/[^/]+\.ptb)")
_GUM_SPLIT = re.compile(r"^## +(\S+)\s*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_GUM_DOCUMENT = re.compile(r"^ *\* +(\S+)", re.MULTILINE)


def extract_trees(
    path: str | Path,
    output: str | Path,
    sections: tuple[int, int] | None = None,
    split: str | None = None,
    lines: int | None = None,
    sha256: str | None = None,
) -> None:
    """Write a treebank's cleaned trees, one per line: with the root TOP, without traces and function tags.

    path: with `sections` (first and last), the Penn Treebank's folder wsj; with `split`, the archive of GUM's
    repository; else a file with one tree per line. lines: expected number of trees. sha256: expected for the output.
    Raises InputError on a bad treebank, and, before it writes anything, on unexpected trees.
    """
    part = f" in {split}" if split else ""
    if sections:
        part = f" in sections {sections[0]:02} to {sections[1]:02} ({_LICENCE})"
        trees = _read_penn(path, *sections)
    elif split:
        trees, without = _read_gum(path, split)
        if without:
            logger.info("%s: skipped %s documents without words: %s", path, len(without), ", ".join(without))
    else:
        trees = filter(None, map(clean, one_a_line(read_text(path), path)))
    text = "".join(f"{bracketed(tree)}\n" for tree in trees)
    count, digest = text.count("\n"), hashlib.sha256(text.encode()).hexdigest()
    if count == 0:
        raise InputError(f"{path}: expected trees, found none")
    if lines not in (None, count):
        raise InputError(f"{path}: expected {lines} trees{part}, found {count}")
    if sha256 not in (None, digest):
        raise InputError(f"{path}: expected trees{part} with SHA-256 {sha256}, found {digest}")
    write(output, text)
    logger.info("%s: %s trees", output, count)


def _read_penn(path: str | Path, first: int, last: int) -> Iterator[Tree]:
    """Yield the trees of the Wall Street Journal's sections `first` to `last` (LDC99T42, parsed/mrg/wsj).

    path: a folder with one folder per section (02/wsj_0201.mrg), or with the files of all sections.
    Raises InputError like `parse_trees`, and if a section has no files.
    """
    named = [(_PENN_FILE.fullmatch(file.name), file) for file in Path(path).rglob("*")]
    files = sorted((name[0], int(name[1]), file) for name, file in named if name and first <= int(name[1]) <= last)
    missing = [f"{section:02}" for section in sorted({*range(first, last + 1)} - {section for _, section, _ in files})]
    if missing:
        example = f"{missing[0]}/wsj_{missing[0]}01.mrg or wsj_{missing[0]}01.mrg"
        raise InputError(
            f"{path}: expected files like {example} for each of the Penn Treebank's sections {first:02} to {last:02}, "
            f"found none for {', '.join(missing)}; {_LICENCE}"
        )
    for (name, _, file), (another, _, other) in pairwise(files):
        if name == another:
            raise InputError(f"{path}: expected one file per name, found {file} and {other}")
    return chain.from_iterable(_cleaned(read_lines(file), file) for _, _, file in files)


def _read_gum(path: str | Path, split: str) -> tuple[Iterator[Tree], list[str]]:
    """Return the trees of a split of GUM (train, dev, test or test2) and the names of its documents without words.

    path: GitHub's archive of the repository amir-zeldes/gum, with trees in const/ and splits.md.
    Raises InputError on other archives.
    """
    contents = {name.partition("/")[2]: content for name, content in read_members(path, _GUM_MEMBER.fullmatch)}
    splits = dict(_GUM_SPLIT.findall(contents.get("splits.md", b"").decode("utf-8", "replace")))
    if split not in splits:
        raise InputError(f"{path}: expected a split {split} in GUM's splits.md, found {', '.join(splits) or 'none'}")
    documents = _GUM_DOCUMENT.findall(splits[split])
    without = [document for document in documents if "_reddit_" in document]  # words withheld
    files = {document: f"const/{document}.ptb" for document in documents if document not in without}
    missing = [document for document, file in files.items() if file not in contents]
    if missing:
        raise InputError(f"{path}: expected trees for each document of {split}, found none for {', '.join(missing)}")
    texts = {f"{path}: {file}": split_lines(io.BytesIO(contents[file])) for file in files.values()}
    return chain.from_iterable(_cleaned(decode_lines(text, name), name) for name, text in texts.items()), without


def _cleaned(lines: Iterable[str], name: str | Path) -> Iterator[Tree]:
    return filter(None, map(clean, parse_trees(lines, name)))


def linearize_split(
    data: Data,
    split: str,
    treebanks: list[str | Path],
    drawn: int = 0,
    repeat: int = 1,
    silver: str | Path | None = None,
) -> None:
    """Write a parser's source (words) and target (brackets with tags, see trees.py), and their counts.

    treebanks: files with one tree per line. drawn: maximum number of distinct constituents that are added to the
    sentences. repeat: copies of sentences and constituents. silver: a file with another parser's trees, written once.
    Raises InputError if a file has no trees, or a tree has no words.
    """
    sentences = [tree for path in treebanks for tree in _read_clean(path)]
    parts = _draw_phrases(sentences, drawn) if drawn else []
    gold = (sentences + parts) * repeat
    parsed = _read_clean(silver) if silver else iter(())  # an iterator, because memory cannot hold millions of trees
    lines = (map(" ".join, encode_tree(tree)) for tree in chain(gold, parsed))
    texts = [data.tokens(split, side) for side in SIDES]
    kept = write_columns(lines, texts)
    counts = {"trees": len(sentences), "phrases": len(parts), "repeat": repeat, "silver": kept - len(gold)}
    write_json(data.counts(split), {"kept": kept} | counts | {"files": sums_of(texts)})
    logger.info("%s: %s", data.folder / split, ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def _draw_phrases(sentences: list[Tree], most: int) -> list[Tree]:
    """Return up to `most` distinct, evenly spaced constituents whose words are not a whole sentence."""
    known = {tuple(words(tree)) for tree in sentences}
    # Phrases with fewer than four words have almost no structure.
    by_words = {tuple(words(part)): part for tree in sentences for part in phrases(tree, least=4)}
    new = [part for text, part in by_words.items() if text not in known]
    return list(draw(new, len(new), most))


def _read_clean(path: str | Path) -> Iterator[Tree]:
    """Yield the trees of a file. Raises InputError if a tree has no words, or the file has no trees."""
    number = 0
    for number, tree in enumerate(one_a_line(read_lines(path), path), start=1):
        if not (cleaned := clean(tree)):
            raise InputError(f"{path}, line {number}: expected a tree with words, found only traces")
        yield cleaned
    if number == 0:
        raise InputError(f"{path}: expected trees, found none")


def select_silver(trees: str | Path, parses: str | Path, keep: float, max_words: int, output: str | Path) -> None:
    """Write a parser's trees with the best scores. They replace the paper's corpora, which are not public.

    trees: a file with one tree per line. parses: their scores and repairs; repaired trees are dropped. keep: the share
    of the other trees of up to `max_words` to write, in their order. Raises InputError if no tree is left.
    """
    lines = list(read_lines(trees))
    about = read_parses(parses, trees, len(lines))
    whole = [index for index, line in enumerate(lines) if line and str(index + 1) not in about["repaired"]]
    parsed = ((index, tree) for index in whole for tree in one_a_line([lines[index]], trees, index + 1))
    short = [index for index, tree in parsed if len(words(tree)) <= max_words]
    if not short:
        expected = f"expected trees of up to {max_words} words without repair"
        raise InputError(f"{trees}: {expected}, found none in {len(lines):,} lines")
    best = sorted(short, key=lambda index: -about["scores"][index])
    kept = sorted(best[: math.ceil(keep * len(short))])
    with replacing(output) as file:
        file.writelines(lines[index] + "\n" for index in kept)
    removed = len(lines) - len(whole)
    logger.info("%s: %s of %s trees; %s were blank or repaired", output, f"{len(kept):,}", f"{len(lines):,}", removed)
