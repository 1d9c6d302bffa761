"""Treebanks: the trees of the sections or the split asked for, in order, or one line that says what is missing."""

import gzip
import tarfile
from pathlib import Path

import pytest
from nltk.tree import Tree as NltkTree
from support.archives import packed
from support.commands import do, error
from support.mirror import mirrored

from transformer.commands.parse import LICENCE, read_gum
from transformer.parsing.trees import bracketed, decode, encode_tree

# As the treebank's combined files look: no header, a blank line, trees of many lines in a bracket that says nothing.
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


def run(format, path, output, *options) -> list[str]:
    """Run the stage; return the lines that it wrote."""
    do("treebank", "--format", format, "--input", path, "--output", output, *options)
    return output.read_text(encoding="utf-8").splitlines()


def failure(format, path, output, *options) -> str:
    """Return the error message, after checking that nothing was written."""
    message = error("treebank", "--format", format, "--input", path, "--output", output, *options)
    assert not list(output.parent.iterdir())
    return message


def make_penn(folder, numbers, place="{0:.2}/wsj_{0}.mrg") -> Path:
    """Write files of the Wall Street Journal by number, with two trees in each, the first of which names the file."""
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
    assert run("ptb", path, output, "--sections", 2, 3, "--lines", 8) == expected("0201", "0299", "0301", "0302")
    assert run("ptb", path, output, "--sections", 23, 23) == expected("2301")
    output.unlink()
    message = failure("ptb", path, output, "--sections", 23, 23, "--lines", 5)
    assert message == f"{path}: expected 5 trees in sections 23 to 23 ({LICENCE}), found 2"
    assert "with SHA-256 00, found " in failure("ptb", path, output, "--sections", 2, 3, "--sha256", "00")


def test_missing_sections(tmp_path, output):
    path = make_penn(tmp_path / "wsj", ["0201", "0401"])
    (path / "02" / "wsj_0201.mrg").write_text("(")  # would be an error if it were read first
    (path / "03").mkdir()
    message = failure("ptb", path, output, "--sections", 2, 5)
    assert message.startswith(f"{path}: expected files like 03/wsj_0301.mrg or wsj_0301.mrg")
    assert message.endswith(f"found none for 03, 05; {LICENCE}")


@pytest.mark.parametrize(("split", "words"), [("train", ["e", "d"]), ("dev", ["a"]), ("test2", ["c", "cc"])])
def test_gum(tmp_path, output, capsys, split, words):
    path = make_gum(tmp_path / "gum.tar.gz", GUM)
    assert run("gum", path, output, "--split", split) == [f"(TOP (NP (NN {word})))" for word in words]
    assert ("without words: GUM_reddit_b" in capsys.readouterr().out) == (split == "dev")


WRONG_GUM = {  # members of the archive that differ or are not there (None), and the error for its dev
    "documents": ({"const/GUM_bio_a.ptb": None}, "expected trees of every document of dev, found none of GUM_bio_a"),
    "split": ({"splits.md": SPLITS.replace("dev", "d")}, "expected a split dev in GUM's splits.md, found d, test2, tr"),
    "splits": ({"splits.md": None, "docs/splits.md": SPLITS}, "expected a split dev in GUM's splits.md, found none"),
    "tree": ({"const/GUM_bio_a.ptb": "(ROOT\n  (NP (NN a))))\n"}, "const/GUM_bio_a.ptb, line 2: expected (label"),
}


@pytest.mark.parametrize(("changes", "problem"), WRONG_GUM.values(), ids=WRONG_GUM)
def test_wrong_gum(tmp_path, output, changes, problem):
    members = {name: text for name, text in (GUM | changes).items() if text is not None}
    path = make_gum(tmp_path / "gum.tar.gz", members)
    assert failure("gum", path, output, "--split", "dev").startswith(f"{path}: {problem}")


def test_lines(tmp_path, output):
    text = b"( (S (NP-SBJ (NN a))))\n(S (NP (-NONE- *)))\n(NP (NN \xc3\xa9))\n"  # the second holds a trace alone
    path = tmp_path / "a.trees.gz"
    path.write_bytes(gzip.compress(text))
    assert run("lines", path, output, "--lines", 2) == ["(TOP (S (NP (NN a))))", "(TOP (NP (NN é)))"]


@pytest.mark.parametrize("options", ["ptb", "gum", "lines --split dev", "ptb --sections 3 2", "ptb --sections 24 25"])
def test_options_that_do_not_go_together(tmp_path, output, options):
    assert failure(*options.split()[:1], tmp_path, output, *options.split()[1:]).startswith("expected --sections ")


def as_nltk_has_it(text: str) -> str:
    """Clean a tree of GUM's, which has no traces, with NLTK and return it on one line."""
    tree = NltkTree.fromstring(text)
    for part in tree.subtrees():
        if not part.label().startswith("-"):
            part.set_label(part.label().split("-")[0])
    tree.set_label("TOP")
    return tree.pformat(margin=1_000_000)


def test_all_of_gum():
    """Nothing is lost: the trees of all splits are those that NLTK reads, and each comes back from its symbols."""
    archive, everything = mirrored("gum.tar.gz"), []
    for split, count, left_out in (("train", 10224, 14), ("dev", 1575, 2), ("test", 1464, 2), ("test2", 1334, 0)):
        trees, without = read_gum(archive, split)
        trees = list(trees)
        assert (len(trees), len(without)) == (count, left_out)
        everything += trees
    assert all(decode(*reversed(encode_tree(tree))) == (tree, None) for tree in everything)
    with tarfile.open(archive) as members:
        files = [members.extractfile(entry).read().decode() for entry in members if entry.name.endswith(".ptb")]
    texts = [text for file in files for text in file.split("\n\n") if text.strip()]
    assert sorted(map(bracketed, everything)) == sorted(map(as_nltk_has_it, texts))
