"""§6.3: treebanks as cleaned trees, in order, without trees of traces alone.

The Penn Treebank, on whose Wall Street Journal part the paper trains and tests, needs a licence. GUM (the Georgetown
University Multilayer corpus, with GENTLE as its second test set) is free.
"""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path

from transformer.data.archive import read_members
from transformer.files import InputError, decode_lines, read_lines, split_lines
from transformer.parsing.trees import Tree, clean, parse_trees

LICENCE = (
    "the Linguistic Data Consortium licenses the Penn Treebank as LDC99T42 and is where to get it: "
    "https://catalog.ldc.upenn.edu/LDC99T42"
)
_PENN_FILE = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)  # a CD may have the names in capitals
_GUM_MEMBER = re.compile(r"[^/]+/(splits\.md|const/[^/]+\.ptb)")
_GUM_SPLIT = re.compile(r"^## +(\S+)\s*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_GUM_DOCUMENT = re.compile(r"^ *\* +(\S+)", re.MULTILINE)


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
