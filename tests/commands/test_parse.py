"""The command `parse` (§6.3)."""

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
from transformer.parsing.trees import bracketed, encode_tree, words
from transformer.storage.files import read_lines


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "1"
    symbols = sorted({symbol for tree in TREES for symbol in encode_tree(read(tree))[1]})
    sizes = {"embedding_rows": 127, "output_rows": SPECIAL + len(symbols)}
    make_run(run, make_experiment(model=sizes))
    save(replace(DECODING, extra_length=9), run / "decoding.yaml")
    text = write_text(run / "text", [" ".join(penn_words(line)) for line in PLAIN] * 20)
    learn([text], sizes["embedding_rows"], 1000, run / "vocabulary.model", symbols)
    model = random_model(7, **sizes)
    weights.save_tensors(run / "average.safetensors", model.state_dict(), {"digest": "ab", "steps": [1]})
    return run


@pytest.fixture
def parse(run, tmp_path):
    """Run the command on files with these lines. Return its trees, line by line, and its JSON."""

    def parse(*texts: list[str], options: tuple = ()) -> tuple[list[str], dict]:
        files = [write_text(tmp_path / f"{number}.txt", lines) for number, lines in enumerate(texts)]
        outputs = ["--output", tmp_path / "trees", "--json", tmp_path / "parses.json"]
        do("parse", "--run", run, "--input", *files, *outputs, "--threads", 1, *options)
        return list(read_lines(tmp_path / "trees")), json.loads((tmp_path / "parses.json").read_text())

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
    assert drawn == trees[1::2]  # every second line of twelve
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
