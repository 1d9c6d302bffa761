"""Treebanks: a corpus's trees in order, or one line with the missing file, and a parser's training data."""

import gzip
import json
import re
import tarfile
from pathlib import Path

import pytest
from nltk.tree import Tree as NltkTree
from support.archives import packed
from support.mirror import mirrored
from support.toy import write_text
from support.trees import PLAIN, TREES, read

from transformer.layout import Data
from transformer.parsing.parser import penn_words
from transformer.parsing.treebanks import _LICENCE, _read_gum, extract_trees, linearize_split, select_silver
from transformer.parsing.trees import bracketed, decode, encode_tree, words
from transformer.storage.files import InputError, read_lines

# The format of the treebank's combined files: no header, a blank line, trees over many lines in an unlabelled bracket.
COMBINED = """
( (S
    (NP-SBJ
      (NP (NNP {name}) )
      (, ,)
      (PRN (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-) ))
    (VP (MD will)
      (VP (VB rise)
        (PP-TMP (-NONE- *T*-1) )))
    (. .) ))
( (NP (NN End) ))

"""

SUBJECT = "(NP (NP (NNP {name})) (, ,) (PRN (-LRB- -LRB-) (CD 1/2) (-RRB- -RRB-)))"
EXPECTED = (f"(TOP (S {SUBJECT} (VP (MD will) (VP (VB rise))) (. .)))", "(TOP (NP (NN End)))")

SPLITS = """# Splits

## dev

  * GUM_bio_a
  * GUM_reddit_b

## test2

  * GENTLE_poem_c

## train

  * GUM_news_e
  * GUM_news_d
"""
GUM = {
    "const/GENTLE_poem_c.ptb": "(ROOT\n  (NP (NN c)))\n\n(ROOT\n  (NP (NN cc)))\n",
    "const/GUM_bio_a.ptb": "(ROOT\n  (NP-SBJ (NN a)))\n",
    "const/GUM_reddit_b.ptb": "(ROOT\n  (NP (NN _)))\n",
    "const/GUM_news_d.ptb": "(ROOT\n  (NP (NN d)))\n",
    "const/GUM_news_e.ptb": "(ROOT\n  (NP (NN e)))\n",
    "dep/GUM_bio_a.conllu": "other",
    "splits.md": SPLITS,
}


@pytest.fixture
def output(tmp_path):
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora" / "a.trees"


def extract(path, output, **options) -> list[str]:
    extract_trees(path, output, **options)
    return output.read_text(encoding="utf-8").splitlines()


def failure(path, output, **options) -> str:
    with pytest.raises(InputError) as caught:
        extract_trees(path, output, **options)
    assert not list(output.parent.iterdir())
    return str(caught.value)


def make_penn(folder, numbers, place="{0:.2}/wsj_{0}.mrg") -> Path:
    """Write files of the Wall Street Journal by number with two trees each. The first tree contains the file's name."""
    for number in numbers:
        path = folder / place.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(COMBINED.format(name=f"N{number}"))
    return folder


def expected(*numbers) -> list[str]:
    return [line.format(name=f"N{number}") for number in numbers for line in EXPECTED]


def make_gum(path, members) -> Path:
    path.write_bytes(packed(path.name, {f"gum-0123abc/{name}": text.encode() for name, text in members.items()}))
    return path


@pytest.mark.parametrize("place", ["{0:.2}/wsj_{0}.mrg", "WSJ_{0}.MRG"])
def test_penn_sections(tmp_path, output, place):
    path = make_penn(tmp_path / "wsj", ["0302", "0199", "0201", "0299", "0301", "0401", "2301"], place)
    (path / "wsj_0202.mrg~").write_text(COMBINED)
    assert extract(path, output, sections=(2, 3), lines=8) == expected("0201", "0299", "0301", "0302")
    assert extract(path, output, sections=(23, 23)) == expected("2301")
    output.unlink()
    message = failure(path, output, sections=(23, 23), lines=5)
    assert message == f"{path}: expected 5 trees in sections 23 to 23 ({_LICENCE}), found 2"
    assert "with SHA-256 00, found " in failure(path, output, sections=(2, 3), sha256="00")


def test_missing_sections(tmp_path, output):
    path = make_penn(tmp_path / "wsj", ["0201", "0401"])
    (path / "02" / "wsj_0201.mrg").write_text("(")  # reading this file first would cause an error
    (path / "03").mkdir()
    message = failure(path, output, sections=(2, 5))
    assert message.startswith(f"{path}: expected files like 03/wsj_0301.mrg or wsj_0301.mrg")
    assert message.endswith(f"found none for 03, 05; {_LICENCE}")


@pytest.mark.parametrize(("split", "words"), [("train", ["e", "d"]), ("dev", ["a"]), ("test2", ["c", "cc"])])
def test_gum(tmp_path, output, caplog, split, words):
    caplog.set_level("INFO", "transformer")
    path = make_gum(tmp_path / "gum.tar.gz", GUM)
    assert extract(path, output, split=split) == [f"(TOP (NP (NN {word})))" for word in words]
    assert ("without words: GUM_reddit_b" in caplog.text) == (split == "dev")


WRONG_GUM = {  # members of the archive that differ or are not there (None), and the error for its dev
    "documents": ({"const/GUM_bio_a.ptb": None}, "expected trees for each document of dev, found none for GUM_bio_a"),
    "split": ({"splits.md": SPLITS.replace("dev", "d")}, "expected a split dev in GUM's splits.md, found d, test2, tr"),
    "splits": ({"splits.md": None, "docs/splits.md": SPLITS}, "expected a split dev in GUM's splits.md, found none"),
    "tree": ({"const/GUM_bio_a.ptb": "(ROOT\n  (NP (NN a))))\n"}, "const/GUM_bio_a.ptb, line 2: expected (label"),
}


@pytest.mark.parametrize(("changes", "problem"), WRONG_GUM.values(), ids=WRONG_GUM)
def test_wrong_gum(tmp_path, output, changes, problem):
    members = {name: text for name, text in (GUM | changes).items() if text is not None}
    path = make_gum(tmp_path / "gum.tar.gz", members)
    assert failure(path, output, split="dev").startswith(f"{path}: {problem}")


def test_lines(tmp_path, output):
    text = b"( (S (NP-SBJ (NN a))))\n(S (NP (-NONE- *)))\n(NP (NN \xc3\xa9))\n"  # the second tree is only a trace
    path = tmp_path / "a.trees.gz"
    path.write_bytes(gzip.compress(text))
    assert extract(path, output, lines=2) == ["(TOP (S (NP (NN a))))", "(TOP (NP (NN é)))"]


def as_nltk_has_it(text: str) -> str:
    """Clean a tree of GUM (without traces) with NLTK, and return it on one line."""
    tree = NltkTree.fromstring(text)
    for part in tree.subtrees():
        if not part.label().startswith("-"):
            part.set_label(part.label().split("-")[0])
    tree.set_label("TOP")
    return tree.pformat(margin=1_000_000)


def test_all_of_gum():
    """Nothing is lost: the trees of all splits equal NLTK's trees, and each is restored from its symbols."""
    archive, everything = mirrored("gum.tar.gz"), []
    for split, count, left_out in (("train", 10224, 14), ("dev", 1575, 2), ("test", 1464, 2), ("test2", 1334, 0)):
        trees, without = _read_gum(archive, split)
        trees = list(trees)
        assert (len(trees), len(without)) == (count, left_out)
        everything += trees
    assert all(decode(*reversed(encode_tree(tree))) == (tree, None) for tree in everything)
    with tarfile.open(archive) as members:
        files = [members.extractfile(entry).read().decode() for entry in members if entry.name.endswith(".ptb")]
    texts = [text for file in files for text in file.split("\n\n") if text.strip()]
    assert sorted(map(bracketed, everything)) == sorted(map(as_nltk_has_it, texts))


# Input and output of a parser

RAW = [
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ sleeps) (S (NP (-NONE- *-1)))) (. .)))",
    "(ROOT (NP=2 (CD 1\\/2) (-LRB- -LRB-)))",
]
SOURCE = ["The cat sleeps .", "1/2 ("]
TARGET = ["(S (NP DT NN )NP (VP VBZ )VP . )S", "(NP CD -LRB- )NP"]
PHRASES = [  # "and she sings ." is also a sentence; "a mile race" and "and so ." are too short
    "(S (S (NP (PRP He)) (VP (VBZ runs) (NP (DT a) (NN mile) (NN race)))) (FRAG (CC and) (RB so) (. .)))",
    "(S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .))",
    "(SINV (NP (DT a) (NN mile) (NN race) (CD 1)) (S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .)))",
]


def test_linearize_repeats_gold_and_writes_silver_once(tmp_path):
    trees, more = (write_text(tmp_path / f"{n}.trees", [tree]) for n, tree in enumerate(RAW))
    last = write_text(tmp_path / "silver.trees", ["(TOP (INTJ (UH Yes)))"] * 2)
    linearize_split(Data(tmp_path / "data"), "train", [trees, more], repeat=3, silver=last)
    counts = json.loads((tmp_path / "data/train.json").read_text())
    assert counts.pop("files").keys() == {"train.source.tok", "train.target.tok"}
    assert counts == {"kept": 8, "trees": 2, "phrases": 0, "repeat": 3, "silver": 2}
    assert list(read_lines(tmp_path / "data/train.source.tok")) == SOURCE * 3 + ["Yes"] * 2
    assert list(read_lines(tmp_path / "data/train.target.tok")) == TARGET * 3 + ["(INTJ UH )INTJ"] * 2


@pytest.mark.parametrize(("most", "expected"), [(9, 3), (2, 2), (0, 0)])
def test_phrases_are_examples_too(tmp_path, most, expected):
    """They come between gold and silver trees. Equal words count once. A sentence has priority over a phrase."""
    trees, more = (write_text(tmp_path / f"{name}.trees", lines) for name, lines in (("t", PHRASES), ("s", RAW[1:])))
    linearize_split(Data(tmp_path), "train", [trees], drawn=most, repeat=2, silver=more)
    sources, targets = (list(read_lines(tmp_path / f"train.{side}.tok")) for side in ("source", "target"))
    once = sources[: len(PHRASES) + expected]
    assert sources == [*once, *once, SOURCE[1]]
    sentences, drawn = once[: len(PHRASES)], once[len(PHRASES) :]
    assert sentences == [" ".join(words(read(tree))) for tree in PHRASES]
    assert len(set(drawn)) == expected
    assert set(drawn) <= {"He runs a mile race", "runs a mile race", "a mile race 1"}
    for line, written in zip(once, targets, strict=False):
        tree, fault = decode(written.split(), line.split())
        assert fault is None
        assert bracketed(tree).removeprefix("(TOP ").removesuffix(")") in " ".join(PHRASES)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ": expected trees, found none"),
        ([RAW[0], "( (S (NP (-NONE- *))))"], ", line 2: expected a tree with words, found only traces"),
        ([RAW[0], ""], ", line 2: expected one tree, found 0"),
    ],
)
def test_linearize_reports_a_file_without_trees_and_writes_nothing(tmp_path, lines, expected):
    bad = write_text(tmp_path / "bad.trees", lines)
    with pytest.raises(InputError, match=f"^{re.escape(str(bad))}{re.escape(expected)}$"):
        linearize_split(Data(tmp_path / "out"), "train", [bad])
    assert list((tmp_path / "out").glob("*")) == []  # the folder may exist


@pytest.fixture
def silver(tmp_path):
    """Select among parses of TREES with these scores. Return the numbers of the lines that stay."""

    def silver(scores: list, keep: float, repaired=(), lines=TREES, max_words: int = 80):
        lines = lines[: len(scores)]
        trees, summary = write_text(tmp_path / "parsed.trees", lines), tmp_path / "parsed.json"
        faults = dict.fromkeys(map(str, repaired), "brackets left open")
        summary.write_text(json.dumps({"sentences": len(lines), "repaired": faults, "scores": scores}))
        select_silver(trees, summary, keep, max_words, tmp_path / "silver.trees")
        return [lines.index(line) + 1 for line in read_lines(tmp_path / "silver.trees")]

    return silver


@pytest.mark.parametrize(("keep", "stay"), [(0.5, [2, 3, 5]), (0.51, [2, 3, 5, 6]), (0.1, [3])])
def test_silver_keeps_the_surest_share_in_order(silver, keep, stay):
    """Half of six trees are 3. A fraction of a tree counts as a whole tree."""
    assert silver([-5.0, -2.0, -0.5, -9.0, -1.0, -3.0], keep) == stay


def test_silver_leaves_out_blank_repaired_and_long_lines(silver):
    """Line 2 is blank, 3 is repaired because it is long, 4 has the most words. The share applies to the other three."""
    scores = [-4.0, None, None, -0.2, -3.0, -1.0]
    longest = len(penn_words(PLAIN[3]))
    options = {"repaired": [3], "lines": [TREES[0], "", *TREES[2:6]]}
    assert silver(scores, 1.0, max_words=longest - 1, **options) == [1, 5, 6]
    assert silver(scores, 0.6, max_words=longest - 1, **options) == [5, 6]


def test_silver_names_the_line_that_is_no_tree(silver):
    """The number counts the file's lines, including blank and repaired lines."""
    with pytest.raises(InputError, match=r"parsed\.trees, line 3: expected one tree, found 2"):
        silver([-1.0, -2.0, -3.0], 0.5, repaired=[2], lines=["", TREES[1], TREES[2] * 2])


def test_silver_of_repaired_trees_alone_is_refused(silver, tmp_path):
    with pytest.raises(InputError, match=r"parsed\.trees: expected trees .* without repair, found none in 3 lines"):
        silver([-1.0, -2.0, -3.0], 0.5, repaired=[1, 2, 3])
    assert not (tmp_path / "silver.trees").exists()
