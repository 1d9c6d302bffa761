"""§6.3: from treebanks to a parser's trees, and from these to trees that another parser learns from.

The Penn Treebank, on whose Wall Street Journal part the paper trains and tests, needs a licence. GUM (the Georgetown
University Multilayer corpus, with GENTLE as its second test set) is free.
"""

import hashlib
import io
import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import File, NonNegativeInt, PositiveInt
from cyclopts.validators import Number

from transformer.data.archive import read_members, read_text
from transformer.layout import SIDES
from transformer.parsing.trees import Tree, bracketed, clean, encode_tree, one_a_line, parse_trees, split_words, words
from transformer.parsing.trees import phrases as constituents
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
from transformer.storage.records import Parses, parse_json, read_parses, write_json

LICENCE = (
    "the Linguistic Data Consortium licenses the Penn Treebank as LDC99T42 and is where to get it: "
    "https://catalog.ldc.upenn.edu/LDC99T42"
)
_PENN_FILE = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)  # a CD may have the names in capitals
_GUM_MEMBER = re.compile(r"[^/]+/(splits\.md|const/[^/]+\.ptb)")
_GUM_SPLIT = re.compile(r"^## +(\S+)\s*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_GUM_DOCUMENT = re.compile(r"^ *\* +(\S+)", re.MULTILINE)


def treebank(
    *,
    format: Literal["ptb", "gum", "lines"],
    input: str,
    output: str,
    sections: tuple[int, int] | None = None,
    split: str | None = None,
    lines: PositiveInt | None = None,
    sha256: str | None = None,
) -> None:
    """Write a treebank's trees as a parser should find them, one a line: under TOP, without traces, function tags.

        python -m transformer treebank --format ptb --input wsj --sections 2 21 --output wsj-train.trees

    Args:
        format: ptb, the Penn Treebank's folder wsj; gum, the archive of GUM's repository; lines, one tree a line
        input: the treebank
        output: the trees to write; only if they are as --lines and --sha256 say
        sections: of ptb: the first and the last, between 0 and 24
        split: of gum: train, dev, test or test2
        lines: the number of trees that there must be
        sha256: the SHA-256 that the output must have, in hexadecimal
    """
    if (sections is None) == (format == "ptb") or (split is None) == (format == "gum"):
        raise InputError("expected --sections with --format ptb, --split with --format gum, and neither otherwise")
    if sections and not 0 <= sections[0] <= sections[1] <= 24:
        raise InputError(f"expected --sections between 0 and 24, the first one first, found {sections}")
    part = f" in {split}" if split else ""
    if format == "ptb":
        part = f" in sections {sections[0]:02} to {sections[1]:02} ({LICENCE})"
        trees = read_penn(input, *sections)
    elif format == "lines":
        trees = filter(None, map(clean, one_a_line(read_text(input), input)))
    else:
        trees, without = read_gum(input, split)
        if without:
            print(f"{input}: left out {len(without)} documents without words: {', '.join(without)}")
    text = "".join(f"{bracketed(tree)}\n" for tree in trees)
    count, digest = text.count("\n"), hashlib.sha256(text.encode()).hexdigest()
    if count == 0:
        raise InputError(f"{input}: expected trees, found none")
    if lines not in (None, count):
        raise InputError(f"{input}: expected {lines} trees{part}, found {count}")
    if sha256 not in (None, digest):
        raise InputError(f"{input}: expected trees{part} with SHA-256 {sha256}, found {digest}")
    write(output, text)
    print(f"{output}: {count} trees")


def read_penn(path: str | Path, first: int, last: int) -> Iterator[Tree]:
    """Yield the trees of the Wall Street Journal's sections `first` to `last`, as LDC99T42 has it in parsed/mrg/wsj.

    path: a folder with a folder for each section (02/wsj_0201.mrg), or with the files of all sections side by side.
    Raises InputError like `parse_trees`, and if a section has no files; as the numbering has gaps, count the trees.
    """
    named = [(_PENN_FILE.fullmatch(file.name), file) for file in Path(path).rglob("*")]
    files = sorted((name[0], int(name[1]), file) for name, file in named if name and first <= int(name[1]) <= last)
    missing = [f"{section:02}" for section in sorted({*range(first, last + 1)} - {section for _, section, _ in files})]
    if missing:
        example = f"{missing[0]}/wsj_{missing[0]}01.mrg or wsj_{missing[0]}01.mrg"
        raise InputError(
            f"{path}: expected files like {example} for each of the Penn Treebank's sections {first:02} to {last:02}, "
            f"found none for {', '.join(missing)}; {LICENCE}"
        )
    for (name, _, file), (another, _, other) in pairwise(files):
        if name == another:
            raise InputError(f"{path}: expected each file once, found {file} and {other}")
    return chain.from_iterable(_cleaned(read_lines(file), file) for _, _, file in files)


def read_gum(path: str | Path, split: str) -> tuple[Iterator[Tree], list[str]]:
    """Return the trees of a split of GUM (train, dev, test or test2) and the names of its documents without words.

    path: the archive of the repository amir-zeldes/gum as GitHub packs it, with the trees in const/ and the documents
    of each split in splits.md. Raises InputError on other archives, naming what is missing.
    """
    contents = {name.partition("/")[2]: content for name, content in read_members(path, _GUM_MEMBER.fullmatch)}
    splits = dict(_GUM_SPLIT.findall(contents.get("splits.md", b"").decode("utf-8", "replace")))
    if split not in splits:
        raise InputError(f"{path}: expected a split {split} in GUM's splits.md, found {', '.join(splits) or 'none'}")
    documents = _GUM_DOCUMENT.findall(splits[split])
    without = [document for document in documents if "_reddit_" in document]  # whose words are withheld
    files = {document: f"const/{document}.ptb" for document in documents if document not in without}
    missing = [document for document, file in files.items() if file not in contents]
    if missing:
        raise InputError(f"{path}: expected trees of every document of {split}, found none of {', '.join(missing)}")
    texts = {f"{path}: {file}": split_lines(io.BytesIO(contents[file])) for file in files.values()}
    return chain.from_iterable(_cleaned(decode_lines(texts[name], name), name) for name in texts), without


def _cleaned(lines: Iterable[str], name: str | Path) -> Iterator[Tree]:
    return filter(None, (clean(tree) for _, tree in parse_trees(lines, name)))


def linearize(
    *, trees: list[Path], output: str, phrases: NonNegativeInt = 0, repeat: PositiveInt = 1, silver: Path | None = None
) -> None:
    """Turn trees into what a parser reads and writes: words, and brackets with tags (transformer/parsing/trees.py).

        python -m transformer linearize --trees wsj-train.trees --output results/paper/data/wsj-only/train

    Args:
        trees: treebanks, a tree on each line
        output: path without ending; gets .source.tok, .target.tok, and .json with counts
        phrases: at most so many constituents of the trees are added as if they were sentences, none twice
        repeat: the times that all these are written
        silver: trees that a parser made, which are written once
    """
    sentences = [tree for path in trees for tree in _read_clean(path)]
    drawn = []
    if phrases:
        known = {tuple(words(tree)) for tree in sentences}
        # Phrases of fewer than four words have little to parse.
        by_words = {tuple(words(part)): part for tree in sentences for part in constituents(tree, least=4)}
        new = [part for text, part in by_words.items() if text not in known]
        drawn = list(draw(new, len(new), phrases))
    gold = (sentences + drawn) * repeat
    made = _read_clean(silver) if silver else iter(())  # may be millions: not held in memory
    lines = (map(" ".join, encode_tree(tree)) for tree in chain(gold, made))
    texts = [Path(f"{output}.{side}.tok") for side in SIDES]
    kept = write_columns(lines, texts)
    counts = {"trees": len(sentences), "phrases": len(drawn), "repeat": repeat, "silver": kept - len(gold)}
    write_json(f"{output}.json", {"kept": kept} | counts | {"files": sums_of(texts)})
    print(f"{output}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def _read_clean(path: Path) -> Iterator[Tree]:
    """Yield the trees of a file. Raises InputError if one holds no word, or there is none."""
    number = 0
    for number, tree in enumerate(one_a_line(read_lines(path), path), start=1):
        if not (cleaned := clean(tree)):
            raise InputError(f"{path}, line {number}: expected a tree with words, found traces alone")
        yield cleaned
    if number == 0:
        raise InputError(f"{path}: expected trees, found none")


def parse(
    *,
    run: Path,
    weights: Path | None = None,
    decoding: str = "{}",
    constrained: bool = False,
    input: list[Path] | None = None,
    most: PositiveInt | None = None,
    tokenized: bool = False,
    output: File | None = None,
    json: File | None = None,
    threads: PositiveInt | None = None,
) -> None:
    """Parse English sentences: a tree over exactly the words of each line, and a blank line for a blank one.

    If the model's output is no tree, it is repaired (transformer/parsing/trees.py).

        echo "The small king sees a dog." | python -m transformer parse --run results/demo/runs/supervised/parser/1

    Args:
        run: folder of a trained parser
        weights: RUN/average.safetensors if not given
        decoding: JSON: differences from RUN/decoding.yaml
        constrained: search for trees over the words only
        input: text; standard input if not given
        most: parse only so many lines of --input, drawn evenly
        tokenized: the text is words with spaces between them
        output: the trees; standard output if not given
        json: a file for the repairs, by line, and the score of each line
        threads: processor threads; all if not given
    """
    from transformer.data.corpus import evenly
    from transformer.device import use_threads
    from transformer.parsing.parser import open_parser, penn_words

    if most and not input:
        raise InputError(f"--most: expected with --input, found {most} without")
    use_threads(threads)
    if most:
        lines = evenly(input, most)
    elif input:
        lines = chain.from_iterable(map(read_lines, input))
    else:
        lines = decode_lines(split_lines(sys.stdin.buffer), "standard input")
    sentences = (split_words(line) if tokenized else penn_words(line) for line in lines)
    parser = open_parser(run, weights, parse_json(decoding, dict, "--decoding"), constrained)
    summary = Parses(sentences=0, repaired={}, scores=[])
    if output is None:
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the terminal's locale
    with replacing(output) if output else nullcontext(sys.stdout) as file:
        for number, parsed in enumerate(parser.parse_all(sentences), start=1):
            file.write((bracketed(parsed.tree) if parsed else "") + "\n")
            summary["scores"].append(parsed.score if parsed else None)
            if parsed and parsed.fault:
                summary["repaired"][str(number)] = parsed.fault
        if json:
            write_json(json, summary | {"sentences": len(summary["scores"])})


def silver(
    *,
    trees: Path,
    parses: Path,
    keep: Annotated[float, Parameter(validator=Number(gt=0, lte=1))],
    most_words: PositiveInt,
    output: File,
) -> None:
    """Keep the trees that a parser is most certain of: in place of the paper's corpora, which are not public.

        python -m transformer silver --trees parsed.trees --parses parsed.json --keep 0.5 --most-words 80
            --output silver.trees

    Args:
        trees: the parses, a tree on each line
        parses: their repairs, which are left out, and scores
        keep: the share of the others that stays, over 0 and at most 1
        most_words: longer sentences are left out
        output: the trees that stay, in their order
    """
    lines = list(read_lines(trees))
    about = read_parses(parses, trees, len(lines))
    whole = [index for index, line in enumerate(lines) if line and str(index + 1) not in about["repaired"]]
    parsed = ((index, tree) for index in whole for tree in one_a_line([lines[index]], trees, index + 1))
    short = [index for index, tree in parsed if len(words(tree)) <= most_words]
    if not short:
        raise InputError(f"{trees}: none of {len(lines):,} is a tree without repair of {most_words} words at most")
    best = sorted(short, key=lambda index: -about["scores"][index])
    kept = sorted(best[: math.ceil(keep * len(short))])
    with replacing(output) as file:
        file.writelines(lines[index] + "\n" for index in kept)
    print(f"{output}: {len(kept):,} of {len(lines):,} trees; {len(lines) - len(whole):,} were blank or repaired")
