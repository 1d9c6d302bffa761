"""§6.3: treebanks as cleaned trees, in order, without trees of traces alone.

The Penn Treebank, on whose Wall Street Journal part the paper trains and tests, needs a licence. GUM (the Georgetown
University Multilayer corpus, with GENTLE as its second test set) is free.
"""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from transformer.data.archive import open_bytes, read_members
from transformer.files import InputError, decode_lines, read_lines, split_lines
from transformer.parsing.trees import Tree, clean, one_a_line, parse_trees

LICENCE = (
    "the Linguistic Data Consortium licenses the Penn Treebank as LDC99T42 and is where to get it: "
    "https://catalog.ldc.upenn.edu/LDC99T42"
)
_GUM_MEMBER = re.compile(r"[^/]+/(splits\.md|const/[^/]+\.ptb)")
_GUM_WITHOUT_WORDS = "_reddit_"  # in the names of documents whose words are withheld
_SPLIT_HEADING = re.compile(r"## +(\S+)")
DOCUMENT = re.compile(r" *\* +(\S+)")


def read_penn(path: str | Path, first: int, last: int) -> Iterator[Tree]:
    """Yield the trees of the Wall Street Journal's sections `first` to `last`, as LDC99T42 has it in parsed/mrg/wsj.

    path: a folder with a folder for each section (02/wsj_0201.mrg), or with the files of all sections side by side.
    Raises InputError like `parse_trees` and, before anything is read, if a section has no files. A missing file is not
    noticed, as the treebank's own numbering has gaps: count the trees.
    """
    files = {f"{number:02}": _section_files(Path(path), f"{number:02}") for number in range(first, last + 1)}
    missing = [section for section in files if not files[section]]
    if missing:
        example = f"{missing[0]}/wsj_{missing[0]}01.mrg or wsj_{missing[0]}01.mrg"
        raise InputError(
            f"{path}: expected files like {example} for each of the Penn Treebank's sections {first:02} to {last:02}, "
            f"found none for {', '.join(missing)}; {LICENCE}"
        )
    return chain.from_iterable(_cleaned(read_lines(file), file) for file in chain(*files.values()))


def _section_files(path: Path, section: str) -> list[Path]:
    """List the files of a section, in its own folder or else in `path`. A CD may have their names in capitals."""
    name = re.compile(rf"wsj_{section}\d\d\.mrg", re.IGNORECASE)
    for folder in (path / section, path):
        files = [file for file in folder.glob("*") if name.fullmatch(file.name)]
        if files:
            return sorted(files)
    return []


def read_gum(path: str | Path, split: str) -> tuple[Iterator[Tree], list[str]]:
    """Return the trees of a split of GUM (train, dev, test or test2) and the names of its documents without words.

    path: the archive of the repository amir-zeldes/gum as GitHub packs it, with the trees in const/ and the documents
    of each split in splits.md. Raises InputError on other archives, naming what is missing.
    """
    contents = {name.partition("/")[2]: content for name, content in read_members(path, _GUM_MEMBER.fullmatch)}
    documents = _split_documents(path, contents.get("splits.md"), split)
    without = [document for document in documents if _GUM_WITHOUT_WORDS in document]
    files = {document: f"const/{document}.ptb" for document in documents if document not in without}
    missing = [document for document, file in files.items() if file not in contents]
    if missing:
        raise InputError(f"{path}: expected trees of every document of {split}, found none of {', '.join(missing)}")
    texts = {f"{path}: {file}": split_lines(io.BytesIO(contents[file])) for file in files.values()}
    return chain.from_iterable(_cleaned(decode_lines(texts[name], name), name) for name in texts), without


def _split_documents(path: str | Path, table: bytes | None, split: str) -> list[str]:
    """List the documents that GUM's splits.md has under `## SPLIT`."""
    if table is None:
        raise InputError(f"{path}: expected the repository of GUM, found no splits.md in its outermost folder")
    documents: dict[str, list[str]] = {}
    listed: list[str] = []
    for line in decode_lines(split_lines(io.BytesIO(table)), f"{path}: splits.md"):
        if heading := _SPLIT_HEADING.match(line):
            listed = documents.setdefault(heading[1], [])
        elif item := DOCUMENT.match(line):
            listed.append(item[1])
    if split not in documents:
        raise InputError(f"{path}: splits.md: expected a split {split}, found {', '.join(documents) or 'none'}")
    return documents[split]


def read_plain(path: str | Path) -> Iterator[Tree]:
    """Yield the trees of a text, plain or .gz, one a line. Raises InputError like `open_bytes` and `one_a_line`."""
    with open_bytes(path) as stream:
        yield from filter(None, map(clean, one_a_line(decode_lines(split_lines(stream), path), path)))


def _cleaned(lines: Iterable[str], name: str | Path) -> Iterator[Tree]:
    return filter(None, (clean(tree) for _, tree in parse_trees(lines, name)))
