"""§6.3, command by command: trees to text, text to trees, and to trees that another parser learns from."""

import io
import json

import pytest
from msgspec.structs import replace
from support.commands import do, error
from support.toy import DECODING, make_experiment, make_run, random_model, write_text
from support.trees import PLAIN, TREES, read

from transformer.config.experiment import save
from transformer.data.corpus import SPECIAL, learn
from transformer.model import weights
from transformer.parsing import parser as module
from transformer.parsing.parser import TOO_LONG, open_parser, penn_words
from transformer.parsing.trees import bracketed, decode, encode_tree, words

RAW = [
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ sleeps) (S (NP (-NONE- *-1)))) (. .)))",
    "(ROOT (NP=2 (CD 1\\/2) (-LRB- -LRB-)))",
]
SOURCE = ["The cat sleeps .", "1/2 ("]
TARGET = ["(S (NP DT NN )NP (VP VBZ )VP . )S", "(NP CD -LRB- )NP"]
PHRASES = [  # in which "and she sings ." is a sentence, too, and "a mile race" and "and so ." are too short
    "(S (S (NP (PRP He)) (VP (VBZ runs) (NP (DT a) (NN mile) (NN race)))) (FRAG (CC and) (RB so) (. .)))",
    "(S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .))",
    "(SINV (NP (DT a) (NN mile) (NN race) (CD 1)) (S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .)))",
]


def lines_of(path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_linearize_repeats_gold_and_writes_silver_once(tmp_path):
    trees, more = (write_text(tmp_path / f"{n}.trees", [tree]) for n, tree in enumerate(RAW))
    last = write_text(tmp_path / "silver.trees", ["(TOP (INTJ (UH Yes)))"] * 2)
    do("linearize", "--trees", trees, more, "--repeat", 3, "--silver", last, "--output", tmp_path / "data/train")
    counts = json.loads((tmp_path / "data/train.json").read_text())
    assert counts.pop("files").keys() == {"train.source.tok", "train.target.tok"}
    assert counts == {"kept": 8, "trees": 2, "phrases": 0, "repeat": 3, "silver": 2}
    assert lines_of(tmp_path / "data/train.source.tok") == SOURCE * 3 + ["Yes"] * 2
    assert lines_of(tmp_path / "data/train.target.tok") == TARGET * 3 + ["(INTJ UH )INTJ"] * 2


@pytest.mark.parametrize(("most", "expected"), [(9, 3), (2, 2), (0, 0)])
def test_phrases_are_examples_too(tmp_path, most, expected):
    """They come between gold and silver; the same words count once, and not as a phrase if they are a sentence."""
    trees, more = (write_text(tmp_path / f"{name}.trees", lines) for name, lines in (("t", PHRASES), ("s", RAW[1:])))
    options = ["--phrases", most, "--repeat", 2, "--silver", more, "--output", tmp_path / "train"]
    do("linearize", "--trees", trees, *options)
    sources, targets = (lines_of(tmp_path / f"train.{side}.tok") for side in ("source", "target"))
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
        ([RAW[0], "( (S (NP (-NONE- *))))"], ", line 2: expected a tree with words, found traces alone"),
        ([RAW[0], ""], ", line 2: expected one tree, found 0"),
    ],
)
def test_linearize_names_what_holds_no_trees_and_writes_nothing(tmp_path, lines, expected):
    bad = write_text(tmp_path / "bad.trees", lines)
    assert error("linearize", "--trees", bad, "--output", tmp_path / "out" / "train") == f"{bad}{expected}"
    assert list((tmp_path / "out").glob("*")) == []  # the folder may be there


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make the folder of an untrained parser."""
    run = tmp_path_factory.mktemp("run") / "1"
    symbols = sorted({symbol for tree in TREES for symbol in encode_tree(read(tree))[1]})
    sizes = {"embedding_rows": 127, "output_rows": SPECIAL + len(symbols)}
    make_run(run, make_experiment(model=sizes))
    save(replace(DECODING, extra_length=9), run / "decoding.yaml")
    text = write_text(run / "text", [" ".join(penn_words(line)) for line in PLAIN] * 20)
    learn([text], sizes["embedding_rows"], 1000, run / "vocabulary.model", symbols)
    model = random_model(7, **sizes)
    weights.save(run / "average.safetensors", model.state_dict(), {"digest": "ab", "steps": [1]})
    return run


@pytest.fixture
def parse(run, tmp_path):
    """Run the command on files with these lines; return its trees, line by line, and its JSON."""

    def parse(*texts: list[str], options: tuple = ()) -> tuple[list[str], dict]:
        files = [write_text(tmp_path / f"{number}.txt", lines) for number, lines in enumerate(texts)]
        outputs = ["--output", tmp_path / "trees", "--json", tmp_path / "parses.json"]
        do("parse", "--run", run, "--input", *files, *outputs, "--threads", 1, *options)
        return lines_of(tmp_path / "trees"), json.loads((tmp_path / "parses.json").read_text())

    return parse


def test_parse_reads_plain_text_or_words(run, parse):
    parses = open_parser(run, None, {}, False).parse(list(map(penn_words, PLAIN)))
    trees, summary = parse(PLAIN)
    assert trees == [bracketed(each.tree) for each in parses]
    assert summary["sentences"] == len(trees)
    assert summary["scores"] == [pytest.approx(each.score, abs=1e-4) for each in parses]
    assert parse([" ".join(penn_words(line)) for line in PLAIN], options=("--tokenized",))[0] == trees
    assert words(read(parse(["cat. -LRB-dog)"], options=("--tokenized",))[0][0])) == ["cat.", "(dog)"]
    assert words(read(parse(["cat. (dog)"])[0][0])) == ["cat.", "(", "dog", ")"]
    assert parse([]) == ([], {"sentences": 0, "repaired": {}, "scores": []})


def test_inputs_follow_each_other_up_to_the_most(parse):
    trees, _ = parse(PLAIN)
    assert parse(PLAIN[:4], PLAIN[4:5], PLAIN[5:])[0] == trees
    drawn, summary = parse(PLAIN[:4], PLAIN[4:5], PLAIN[5:], options=("--most", "6"))
    assert drawn == trees[1::2]  # of twelve, at equal distances
    assert summary["sentences"] == len(summary["scores"]) == 6


def test_sentences_of_many_chunks_keep_their_order_and_blank_lines_stay_blank(parse, monkeypatch):
    whole, _ = parse(PLAIN)
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", 3)
    lines = [*PLAIN[:4], "", " \t", "", "", *PLAIN[4:], "cat " * module.POSITIONS, ""]
    trees, summary = parse(lines)
    flat = f"(TOP{' (XX cat)' * module.POSITIONS})"
    assert trees == [*whole[:4], "", "", "", "", *whole[4:], flat, ""]
    assert summary["repaired"][str(len(lines) - 1)] == TOO_LONG
    assert [score is None for score in summary["scores"]] == [not line.strip() or len(line) > 99 for line in lines]


def test_parse_reads_standard_input_and_writes_standard_output(run, parse, monkeypatch, capsys):
    trees, _ = parse([*PLAIN[:2], "", "Yes."])
    text = "".join(f"{line}\r\n" for line in [*PLAIN[:2], "", "Yes."])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    do("parse", "--run", run, "--threads", 1)
    assert capsys.readouterr().out == "".join(f"{tree}\n" for tree in trees)


def test_parse_names_bad_input_and_leaves_the_old_output(run, tmp_path):
    bad, output = tmp_path / "bad", write_text(tmp_path / "trees", ["old"])
    bad.write_bytes(b"Yes.\nNo. \xff\n")
    line = ["--run", run, "--input", bad, "--output", output, "--json", tmp_path / "json", "--threads", 1]
    assert error("parse", *line).startswith(f"{bad}, line 2: expected UTF-8, found an invalid byte 5")
    assert output.read_text() == "old\n"
    assert not (tmp_path / "json").exists()


@pytest.fixture
def silver(tmp_path):
    """Run the command on parses with these scores, of TREES in order; return the numbers of the lines that stay."""

    def silver(scores: list, keep: float, repaired=(), lines=TREES, most_words: int = 80):
        lines = lines[: len(scores)]
        trees, summary = write_text(tmp_path / "parsed.trees", lines), tmp_path / "parsed.json"
        faults = dict.fromkeys(map(str, repaired), "brackets left open")
        summary.write_text(json.dumps({"sentences": len(lines), "repaired": faults, "scores": scores}))
        files = ["--trees", trees, "--parses", summary, "--output", tmp_path / "silver.trees"]
        do("silver", *files, "--keep", keep, "--most-words", most_words)
        return [lines.index(line) + 1 for line in lines_of(tmp_path / "silver.trees")]

    return silver


@pytest.mark.parametrize(("keep", "stay"), [(0.5, [2, 3, 5]), (0.51, [2, 3, 5, 6]), (0.1, [3])])
def test_silver_keeps_the_surest_share_in_order(silver, keep, stay):
    """Half of six trees are 3; a fraction of a tree counts as a whole one."""
    assert silver([-5.0, -2.0, -0.5, -9.0, -1.0, -3.0], keep) == stay


def test_silver_leaves_out_what_is_blank_repaired_or_long(silver):
    """Line 2 is blank, 3 repaired as too long, 4 has the most words; the share is of the other three."""
    scores = [-4.0, None, None, -0.2, -3.0, -1.0]
    longest = len(penn_words(PLAIN[3]))
    options = {"repaired": [3], "lines": [TREES[0], "", *TREES[2:6]]}
    assert silver(scores, 1.0, most_words=longest - 1, **options) == [1, 5, 6]
    assert silver(scores, 0.6, most_words=longest - 1, **options) == [5, 6]


def test_silver_names_the_line_that_is_no_tree(silver):
    """Of the file: blank lines and repaired ones count."""
    with pytest.raises(SystemExit, match=r"parsed\.trees, line 3: expected one tree, found 2"):
        silver([-1.0, -2.0, -3.0], 0.5, repaired=[2], lines=["", TREES[1], TREES[2] * 2])


def test_silver_of_repaired_trees_alone_is_refused(silver, tmp_path):
    with pytest.raises(SystemExit, match=r"parsed\.trees: none of 3 is a tree "):
        silver([-1.0, -2.0, -3.0], 0.5, repaired=[1, 2, 3])
    assert not (tmp_path / "silver.trees").exists()
