"""§6.3 from trees to a parser and back: what it learns from, what it writes, and what it labels for another."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from support.commands import do, error
from support.toy import DECODING, make_experiment, make_run, make_vocabulary, random_model, write_text

from transformer import cli
from transformer.commands import linearize, parse, silver
from transformer.config.experiment import EOS, PAD, UNK, Decoding, load, save
from transformer.data.corpus import TokenArray
from transformer.data.subwords import SPECIAL, Subwords
from transformer.layout import SIDES
from transformer.model.packed import POSITIONS, pack
from transformer.model.weights import load_model
from transformer.parsing.linearization import decode, encode
from transformer.parsing.parser import TOO_LONG, Parser, penn_words
from transformer.parsing.trees import bracketed, words
from transformer.parsing.trees import parse as parse_trees
from transformer.records import read_json
from transformer.translation.translator import search

# Plain sentences and their trees, under TOP and written as ours are.
TREEBANK = {
    "The cat sleeps.": "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))",
    "The dog doesn't sleep.": "(S (NP (DT The) (NN dog)) (VP (VBZ does) (RB n't) (VP (VB sleep))) (. .))",
    "Mary sees a cat.": "(S (NP (NNP Mary)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
    "Mary's cat runs (fast).": "(S (NP (NP (NNP Mary) (POS 's)) (NN cat)) (VP (VBZ runs)"
    " (PRN (-LRB- -LRB-) (ADVP (RB fast)) (-RRB- -RRB-))) (. .))",
    '"No!" says Mary.': "(SINV (`` ``) (INTJ (UH No)) (. !) ('' '') (VP (VBZ says)) (NP (NNP Mary)) (. .))",
    "Sleep!": "(S (VP (VB Sleep)) (. !))",
    "He runs and she sings.": "(S (S (NP (PRP He)) (VP (VBZ runs))) (CC and)"
    " (S (NP (PRP she)) (VP (VBZ sings))) (. .))",
    "Dogs, cats and birds sleep.": "(S (NP (NNS Dogs) (, ,) (NNS cats) (CC and) (NNS birds)) (VP (VBP sleep)) (. .))",
    "Who sees the dog?": "(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ sees) (NP (DT the) (NN dog)))) (. ?))",
    "The cat on the mat sings.": "(S (NP (NP (DT The) (NN cat)) (PP (IN on) (NP (DT the) (NN mat)))) (VP (VBZ sings))"
    " (. .))",
    "It costs $5.": "(S (NP (PRP It)) (VP (VBZ costs) (NP ($ $) (CD 5))) (. .))",
    "Yes.": "(INTJ (UH Yes) (. .))",
}
PLAIN = list(TREEBANK)
TREES = [f"(TOP {tree})" for tree in TREEBANK.values()]
WORDS = [penn_words(line) for line in PLAIN]
ROWS, SIZE = 59, 127  # of the softmax, of the embedding: some symbols are without a use

pytestmark = pytest.mark.usefixtures("on_the_processor")


def read_tree(line: str):
    ((_, tree),) = parse_trees([line], "a test")
    return tree


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def run_linearize(output: Path, *trees_and_options) -> dict:
    """Run the stage; return its counts."""
    linearize.main(["--output", str(output), "--trees", *map(str, trees_and_options)])
    return read_json(f"{output}.json")


def run_vocabulary(data: Path, rows: int = ROWS, size: int = SIZE, output: str = "vocabulary.model") -> Path:
    text, symbols = ["--text", str(data / "train.source.tok")], ["--symbols", str(data / "train.target.tok")]
    sizes = ["--rows", str(rows), "--size", str(size), "--sentences", "1000"]
    cli.run(["vocabulary", *text, *symbols, *sizes, "--output", str(data / output)])
    return data / output


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A task's folder after encoding; TREES are what is trained on, and the first of them dev."""
    data = tmp_path_factory.mktemp("task") / "supervised"
    trees = write_text(data.with_suffix(".trees"), TREES)
    run_linearize(data / "train", trees, "--repeat", 20)
    run_linearize(data / "dev", write_text(data.with_suffix(".dev.trees"), TREES[:3]))
    run_vocabulary(data)
    cli.run(["encode", "--data", str(data), "--splits", "train", "dev", "--processes", "1"])
    return data


@pytest.fixture(scope="module")
def subwords(data):
    return Subwords(data / "vocabulary.model")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    """The folder of a run that knows TREES by heart, averaged."""
    model = {"N": 1, "d_model": 64, "d_ff": 128, "d_k": 16, "d_v": 16, "P_drop": 0.0}
    rows = {"embedding_rows": SIZE, "output_rows": ROWS}
    training = {"steps": 300, "rate": 0.12, "warmup_steps": 100, "checkpoint_every": 5, "epsilon_ls": 0.0}
    tokens = {"source_tokens": 1200, "target_tokens": 1200}
    running = {"log_every": 300, "evaluate_every": 300, "save_every": 300}
    resolved = make_experiment(model=model | rows, running=running, **training, **tokens)
    run = make_run(tmp_path_factory.mktemp("run") / "1", resolved)
    save(structs.replace(DECODING, extra_length=60), run / "decoding.yaml")
    do("train", run, "--data", data, "--threads", 1)
    do("average", "--run", run)
    return run


@pytest.fixture(scope="module")
def parser(trained):
    """The trained parser."""
    return parse.open_parser(trained, None, {}, constrained=False)


def untrained(subwords: Subwords, seed: int) -> Parser:
    model = random_model(seed, embedding_rows=SIZE, output_rows=ROWS)
    return Parser(model, subwords, structs.replace(DECODING, beam=2, extra_length=20))


# From plain text to words.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The cat can't, or won't.", "The cat ca n't , or wo n't ."),
        ('"No," he said, "not I."', "`` No , '' he said , `` not I . ''"),
        ("Cats (and dogs) sleep", "Cats ( and dogs ) sleep"),
        (" \t", ""),
    ],
)
def test_the_words_of_plain_text(line, expected):
    assert penn_words(line) == expected.split()


# linearize

RAW = [
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ sleeps) (S (NP (-NONE- *-1)))) (. .)))",
    "(ROOT (NP=2 (CD 1\\/2) (-LRB- -LRB-)))",
]
SOURCE = ["The cat sleeps .", "1/2 ("]
TARGET = ["(S (NP DT NN )NP (VP VBZ )VP . )S", "(NP CD -LRB- )NP"]


def test_linearize_repeats_gold_and_writes_silver_once(tmp_path):
    trees, more = (write_text(tmp_path / f"{n}.trees", [tree]) for n, tree in enumerate(RAW))
    last = write_text(tmp_path / "silver.trees", ["(TOP (INTJ (UH Yes)))"] * 2)
    output = tmp_path / "data" / "train"
    counts = run_linearize(output, trees, more, "--repeat", 3, "--silver", last)
    assert counts == {"kept": 8, "trees": 2, "phrases": 0, "repeat": 3, "silver": 2}
    assert lines_of(output.with_suffix(".source.tok")) == SOURCE * 3 + ["Yes"] * 2
    assert lines_of(output.with_suffix(".target.tok")) == TARGET * 3 + ["(INTJ UH )INTJ"] * 2


PHRASES = [  # in which "and she sings ." is a sentence, too, and "a mile race" and "and so ." are too short
    "(S (S (NP (PRP He)) (VP (VBZ runs) (NP (DT a) (NN mile) (NN race)))) (FRAG (CC and) (RB so) (. .)))",
    "(S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .))",
    "(SINV (NP (DT a) (NN mile) (NN race) (CD 1)) (S (CC and) (NP (PRP she)) (VP (VBZ sings)) (. .)))",
]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(9, 3), (2, 2), (0, 0)],
)
def test_phrases_are_examples_too(tmp_path, most, expected):
    """They come between gold and silver; the same words count once, and not as a phrase if they are a sentence."""
    trees, more = (write_text(tmp_path / f"{name}.trees", lines) for name, lines in (("t", PHRASES), ("s", RAW[1:])))
    counts = run_linearize(tmp_path / "train", trees, "--phrases", most, "--repeat", 2, "--silver", more)
    once = lines_of(tmp_path / "train.source.tok")[: len(PHRASES) + counts["phrases"]]
    assert lines_of(tmp_path / "train.source.tok") == [*once, *once, SOURCE[1]]
    sentences, drawn = once[: len(PHRASES)], once[len(PHRASES) :]
    assert sentences == [" ".join(words(read_tree(tree))) for tree in PHRASES]
    assert len(drawn) == len(set(drawn)) == expected
    assert set(drawn) <= {"He runs a mile race", "runs a mile race", "a mile race 1"}
    assert counts == {"kept": 2 * len(once) + 1, "trees": 3, "phrases": len(drawn), "repeat": 2, "silver": 1}
    for line, written in zip(once, lines_of(tmp_path / "train.target.tok"), strict=False):
        tree, fault = decode(written.split(), line.split())
        assert fault is None
        assert bracketed(tree).removeprefix("(TOP ").removesuffix(")") in " ".join(PHRASES)


@pytest.mark.parametrize(
    ("which", "lines", "expected"),
    [
        ("--silver", [], ": expected trees, found none"),
        ("--trees", [RAW[0], "( (S (NP (-NONE- *))))"], ", line 2: expected a tree with words, found traces alone"),
        ("--trees", [RAW[0], ""], ", line 2: expected one tree, found 0"),
        ("--silver", [RAW[0] * 2], ", line 1: expected one tree, found 2"),
    ],
)
def test_linearize_names_what_holds_no_trees_and_writes_nothing(tmp_path, which, lines, expected):
    good, bad = write_text(tmp_path / "good.trees", RAW), write_text(tmp_path / "bad.trees", lines)
    files = ["--trees", bad] if which == "--trees" else ["--trees", good, "--silver", bad]
    assert error("linearize", *files, "--output", tmp_path / "out" / "train") == f"{bad}{expected}"
    assert list((tmp_path / "out").glob("*")) == []  # the folder may be there


# vocabulary


def test_symbols_come_first_and_what_they_leave_of_the_rows_is_unused(data, subwords):
    symbols = sorted({symbol for tree in TREES for symbol in encode(read_tree(tree))[1]})
    assert SPECIAL + len(symbols) < ROWS
    assert len(subwords) == SIZE
    assert subwords.symbols == {symbol: 3 + number for number, symbol in enumerate(symbols)}
    pieces = [subwords.processor.id_to_piece(token) for token in range(SIZE)]
    assert pieces[3 + len(symbols) : ROWS] == [f"symbol unused {n}" for n in range(ROWS - 3 - len(symbols))]
    assert all(subwords.processor.is_control(token) for token in range(3, ROWS))
    assert not any(" " in piece or subwords.processor.is_control(ROWS + n) for n, piece in enumerate(pieces[ROWS:]))


def test_words_come_back_and_so_do_symbols(data, subwords):
    text, symbols = (lines_of(data / f"train.{side}.tok") for side in SIDES)
    assert subwords.decode(subwords.encode(text)) == text
    ids = subwords.encode_symbols(symbols)
    assert {token for line in ids for token in line} == {EOS, *subwords.symbols.values()}
    assert [" ".join(subwords.decode_symbols(line[:-1])) for line in ids] == symbols


def test_a_symbol_that_was_not_learned_is_unknown(subwords):
    ids = subwords.encode_symbols(["(S WORD unused 0 )S"])
    assert ids == [[subwords.symbols["(S"], UNK, UNK, UNK, subwords.symbols[")S"], EOS]]
    assert subwords.decode_symbols([UNK]) == [""]  # no symbol


tricky = ["(NP", ")NP", "NN", "symbol (NP", "symbol NN", "symbol unused 0", "unused 0", "<pad>", "</s>", "cat"]


@given(st.lists(st.sampled_from(tricky) | st.text(st.characters(exclude_categories=["Cs"]))).map(" ".join))
@example("symbol (NP symbol NN")
@example("symbol\u2581(NP")
def test_text_never_has_the_id_of_a_symbol(subwords, line):
    (ids,) = subwords.encode([line])
    assert ids.pop() == EOS
    assert all(token == UNK or ROWS <= token < SIZE for token in ids)


def test_more_symbols_than_rows_are_refused(data):
    count = len({symbol for line in lines_of(data / "train.target.tok") for symbol in line.split()})
    expected = f"{data}/train.target.tok: expected {count - 1} different symbols at most, found {count}$"
    with pytest.raises(SystemExit, match=expected):
        run_vocabulary(data, rows=3 + count - 1, output="small.model")
    assert not (data / "small.model").exists()
    run_vocabulary(data, rows=3 + count, output="exact.model")
    assert len(Subwords(data / "exact.model").symbols) == count


def test_symbols_and_rows_go_together(tmp_path):
    line = ["--text", "train.source.tok", "--size", "99", "--sentences", "1", "--output", tmp_path / "model"]
    assert error("vocabulary", *line, "--rows", "59") == "--symbols and --rows: expected both or none"


# encode


def test_encode_makes_subwords_of_the_source_and_symbols_of_the_target(data, subwords):
    text, symbols = (lines_of(data / f"dev.{side}.tok") for side in SIDES)
    source, target = (
        [ids.tolist() for ids in TokenArray.open(data / f"dev.{side}.ids", data / f"dev.{side}.offsets")]
        for side in SIDES
    )
    assert source == subwords.encode(text)
    assert target == [[*map(subwords.symbols.get, line.split()), EOS] for line in symbols]
    assert max(map(max, target)) < ROWS <= min(token for ids in source for token in ids if token != EOS)
    counts = read_json(data / "data.json")["splits"]
    assert counts["dev"]["target_tokens"] == sum(len(line.split()) + 1 for line in symbols)
    assert (counts["train"]["kept"], counts["train"]["repeat"]) == (20 * len(TREES), 20)


# Parser


@pytest.mark.parametrize("constrained", [False, True])
def test_a_parser_knows_what_it_has_learned_by_heart(parser, constrained):
    """Each tree is the one that its sentence has alone; a constrained search finds it, too."""
    parses = replace(parser, constrained=constrained).parse(WORDS)
    assert [bracketed(parsed.tree) for parsed in parses] == TREES
    assert [parsed.fault for parsed in parses] == [None] * len(TREES)
    for sentence, parsed in zip(WORDS, parses, strict=True):
        assert parser.parse([sentence])[0].score == pytest.approx(parsed.score, abs=1e-4)


def log_probability(parser: Parser, sentence: list[str], symbols: list[str]) -> float:
    """Return the log-probability of these symbols and EOS, by the whole model at once, over all that can be written."""
    (ids,) = parser.vocabulary.encode_symbols([" ".join(symbols)])
    source, target = (pack([line], torch.device("cpu")) for line in (source_ids(parser, sentence), [PAD, *ids[:-1]]))
    with torch.inference_mode():
        logits = parser.model(source, target) @ parser.model.embedding.weight[:ROWS].T
    return logits.double().log_softmax(dim=1)[range(len(ids)), ids].sum().item()


def source_ids(parser: Parser, sentence: list[str]) -> list[int]:
    return parser.vocabulary.encode([" ".join(sentence)])[0]


NEW = ["Mary", "runs", "and", "the", "dog", "sings", "."]  # not in the treebank


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_score_is_the_log_probability_over_the_penalty(parser, alpha):
    """§6.1: ((5 + length) / 6)^alpha, and EOS counts."""
    parser = replace(parser, decoding=structs.replace(parser.decoding, alpha=alpha))
    for sentence, parsed in zip(WORDS, parser.parse(WORDS), strict=True):
        symbols = encode(parsed.tree)[1]
        penalty = ((5 + len(symbols) + 1) / 6) ** alpha
        expected = log_probability(parser, sentence, symbols) / penalty
        assert parsed.score == pytest.approx(expected, abs=1e-4)
        assert parsed.score < 0


@pytest.mark.parametrize("seed", range(2))
def test_whatever_an_untrained_parser_says_becomes_a_tree(subwords, seed):
    """The tree has exactly the words, even ones that are not in the vocabulary; the faults are those of `decode`."""
    parser = untrained(subwords, seed)
    sentences = [*WORDS, NEW, ["cat"], ["(", ")"], ["naïve", "(S", "字", "<unk>"], ["symbol", "unused"]]
    parses = parser.parse(sentences)
    assert [words(parsed.tree) for parsed in parses] == sentences
    symbols = SPECIAL + len(subwords.symbols)
    outputs = search(parser.model, symbols, [source_ids(parser, line) for line in sentences], parser.decoding)
    for sentence, (ids, score), parsed in zip(sentences, outputs, parses, strict=True):
        assert all(token < symbols for token in ids)
        assert decode(subwords.decode_symbols(ids), sentence) == (parsed.tree, parsed.fault)
        assert parsed.score == pytest.approx(score, abs=1e-4)
    assert any(parsed.fault for parsed in parses)


def test_a_sentence_that_is_too_long_has_a_flat_tree_and_the_others_their_own(parser):
    """It has one subword more than there are positions, counting EOS."""
    long = ["cat"] * POSITIONS
    assert len(source_ids(parser, long)) == POSITIONS + 1
    first, flat, last = parser.parse([WORDS[0], long, WORDS[1]])
    assert bracketed(flat.tree) == f"(TOP{' (XX cat)' * POSITIONS})"
    assert (flat.fault, flat.score) == (TOO_LONG, None)
    assert [bracketed(parsed.tree) for parsed in (first, last)] == TREES[:2]
    assert None not in (first.score, last.score)


def test_the_longest_sentence_is_read(parser):
    parser = replace(parser, decoding=structs.replace(parser.decoding, beam=1))
    long = ["cat"] * (POSITIONS - 1)
    (parsed,) = parser.parse([long])
    assert words(parsed.tree) == long
    assert math.isfinite(parsed.score)
    assert parsed.fault != TOO_LONG


# parse


@pytest.fixture
def run_parse(trained, tmp_path):
    """Run the stage on files with these lines; return its trees, line by line, and its JSON."""

    def run_parse(*texts: list[str], options: tuple = (), run: Path = trained) -> tuple[list[str], dict]:
        files = [str(write_text(tmp_path / f"{number}.txt", lines)) for number, lines in enumerate(texts)]
        trees, summary = tmp_path / "out" / "trees", tmp_path / "out" / "parses.json"
        line = ["--input", *files, "--output", str(trees), "--json", str(summary), "--threads", "1"]
        parse.main(["--run", str(run), *line, *options])
        content = trees.read_text(encoding="utf-8")
        assert content == "" or content.endswith("\n")
        return content.split("\n")[:-1], read_json(summary)

    return run_parse


@pytest.mark.parametrize("lines", [PLAIN, [" ".join(line) for line in WORDS]], ids=["plain", "tokenized"])
def test_parse_reads_plain_text_or_words(run_parse, lines):
    trees, summary = run_parse(lines, options=() if lines is PLAIN else ("--tokenized",))
    assert trees == TREES
    assert summary["sentences"] == len(summary["scores"]) == len(TREES)
    assert summary["repaired"] == {}


def test_words_are_taken_as_they_are(run_parse):
    """Plain text would be cut at its full stop."""
    (tree,), _ = run_parse(["cat. (dog)"], options=("--tokenized",))
    assert words(read_tree(tree)) == ["cat.", "(dog)"]
    (tree,), _ = run_parse(["cat. (dog)"])
    assert words(read_tree(tree)) == ["cat.", "(", "dog", ")"]


def test_nothing_comes_of_nothing(run_parse):
    assert run_parse([]) == ([], {"sentences": 0, "repaired": {}, "scores": []})


def test_inputs_follow_each_other_up_to_the_most(run_parse):
    assert run_parse(PLAIN[:4], PLAIN[4:5], PLAIN[5:])[0] == TREES
    trees, summary = run_parse(PLAIN[:4], PLAIN[4:5], PLAIN[5:], options=("--most", "6"))
    assert trees == TREES[1::2]  # of twelve, at equal distances
    assert summary["sentences"] == len(summary["scores"]) == 6


def test_sentences_of_many_chunks_keep_their_order_and_blank_lines_stay_blank(run_parse, monkeypatch):
    monkeypatch.setattr(parse, "CHUNK", 3)
    lines = [*PLAIN[:4], "", " \t", "", "", *PLAIN[4:], ""]
    trees, summary = run_parse(lines)
    assert trees == [*TREES[:4], "", "", "", "", *TREES[4:], ""]
    assert summary["sentences"] == len(lines)
    assert [score is None for score in summary["scores"]] == [not line.strip() for line in lines]


def test_parse_says_which_lines_were_repaired_and_how_sure_it_is_of_each(run_parse, parser):
    """With extra_length 1, only a tree with no more symbols than the sentence has subwords can be written whole."""
    short = '{"extra_length": 1, "beam": 2}'
    trees, summary = run_parse(["", *PLAIN, "cat " * POSITIONS], options=("--decoding", short))
    expected = replace(parser, decoding=structs.replace(parser.decoding, extra_length=1, beam=2)).parse(WORDS)
    assert trees == ["", *(bracketed(parsed.tree) for parsed in expected), f"(TOP{' (XX cat)' * POSITIONS})"]
    faults = {str(number): parsed.fault for number, parsed in enumerate(expected, start=2) if parsed.fault}
    assert summary["repaired"] == faults | {str(len(PLAIN) + 2): TOO_LONG}
    assert len(faults) > 0
    assert summary["scores"] == [None, *(pytest.approx(parsed.score, abs=1e-4) for parsed in expected), None]


def test_parse_takes_the_weights_that_it_is_given(run_parse, trained):
    (weights, *_) = sorted((trained / "checkpoints").iterdir())
    _, summary = run_parse(PLAIN, options=("--weights", str(weights)))
    parser = Parser(
        load_model(weights, load(trained / "experiment.yaml").model),
        Subwords(trained / "vocabulary.model"),
        load(trained / "decoding.yaml", Decoding),
    )
    assert summary["scores"] == [pytest.approx(parsed.score, abs=1e-4) for parsed in parser.parse(WORDS)]


def test_parse_reads_standard_input_and_writes_standard_output(trained, monkeypatch, capsys):
    text = "".join(f"{line}\r\n" for line in [*PLAIN[:2], "", "Yes."])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    parse.main(["--run", str(trained), "--threads", "1"])
    assert capsys.readouterr().out == "".join(f"{tree}\n" for tree in [*TREES[:2], "", TREES[-1]])


def test_a_translators_run_is_refused(tmp_path):
    run = make_run(tmp_path / "1", make_experiment())
    make_vocabulary(run / "vocabulary.model")
    text = write_text(tmp_path / "text", PLAIN)
    message = error("parse", "--run", run, "--input", text, "--output", tmp_path / "trees", "--threads", 1)
    assert message == f"{run}: expected a parser, found a translator from en to de"
    assert not (tmp_path / "trees").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--decoding", '{"beams": 1}'], "decoding: unknown key 'beams'"),
        (["--weights", "NONE"], "NONE: cannot be read: "),
        (["--input", "NONE"], "NONE: cannot be read: No such file or directory"),
        (["--input", "BAD"], "BAD, line 2: expected UTF-8, found an invalid byte 5"),
    ],
    ids=" ".join,
)
def test_parse_names_bad_input_and_leaves_the_old_output(trained, tmp_path, options, expected):
    (tmp_path / "bad").write_bytes(b"Yes.\nNo. \xff\n")
    output = write_text(tmp_path / "trees", ["old"])
    names = {"NONE": str(tmp_path / "none"), "BAD": str(tmp_path / "bad")}
    text = write_text(tmp_path / "text", PLAIN)
    line = ["--run", trained, "--input", text, "--output", output, "--json", tmp_path / "json", "--threads", 1]
    message = error("parse", *line, *(names.get(option, option) for option in options))
    for name, path in names.items():
        expected = expected.replace(name, path)
    assert message.startswith(expected)
    assert output.read_text() == "old\n"
    assert not (tmp_path / "json").exists()


# silver


@pytest.fixture
def run_silver(tmp_path):
    """Run the stage on parses with these scores, of TREES in order; return the numbers of the lines that stay."""

    def run_silver(scores: list, keep: float, repaired=(), lines=TREES, most_words: int = 80, sentences=None):
        lines = lines[: len(scores)]
        trees, summary = write_text(tmp_path / "parsed.trees", lines), tmp_path / "parsed.json"
        faults = dict.fromkeys(map(str, repaired), "brackets left open")
        summary.write_text(json.dumps({"sentences": sentences or len(lines), "repaired": faults, "scores": scores}))
        files = ["--trees", trees, "--parses", summary, "--output", tmp_path / "silver.trees"]
        do("silver", *files, "--keep", keep, "--most-words", most_words)
        return [lines.index(line) + 1 for line in lines_of(tmp_path / "silver.trees")]

    return run_silver


@pytest.mark.parametrize(
    ("keep", "expected"),
    [(0.5, [2, 3, 5]), (0.51, [2, 3, 5, 6]), (0.1, [3]), (1.0, [1, 2, 3, 4, 5, 6])],
)
def test_silver_keeps_the_surest_share_in_order(run_silver, keep, expected):
    """Half of six trees are 3; a fraction of a tree counts as a whole one."""
    assert run_silver([-5.0, -2.0, -0.5, -9.0, -1.0, -3.0], keep) == expected


def test_silver_leaves_out_what_is_blank_repaired_or_long(run_silver):
    """Line 2 is blank, 3 repaired as too long, 4 has the most words; the share is of the other three."""
    lines = [TREES[0], "", *TREES[2:6]]
    scores = [-4.0, None, None, -0.2, -3.0, -1.0]
    longest = len(WORDS[3])
    options = {"repaired": [3], "lines": lines}
    assert run_silver(scores, 1.0, most_words=longest - 1, **options) == [1, 5, 6]
    assert run_silver(scores, 0.6, most_words=longest - 1, **options) == [5, 6]
    assert run_silver(scores, 0.1, most_words=longest, **options) == [4]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sentences": 4}, "parsed.json, sentences: expected 3, the lines of .*/parsed.trees, found 4"),
        ({"repaired": [1, 2, 3]}, "parsed.trees: none of 3 parses "),
        ({"most_words": 1}, "parsed.trees: none of 3 parses "),
        ({"lines": [*TREES[:2], "(S (NN"]}, "parsed.trees.*unbalanced brackets"),
    ],
    ids=str,
)
def test_silver_names_what_it_cannot_use_and_writes_nothing(run_silver, tmp_path, options, expected):
    with pytest.raises(SystemExit, match=rf"^transformer silver: error: {tmp_path}/{expected}"):
        run_silver([-1.0, -2.0, -3.0], 0.5, **options)
    assert not (tmp_path / "silver.trees").exists()


@pytest.mark.parametrize("keep", ["0", "1.5", "nan"])
def test_silver_keeps_a_share(run_silver, capsys, keep):
    with pytest.raises(SystemExit, match=r"^2$"):
        run_silver([-1.0, -2.0], keep)
    assert "--keep: expected a share over 0 and at most 1, found " in capsys.readouterr().err


def test_a_parsers_trees_are_what_another_learns_from(run_parse, tmp_path):
    """parse, silver, linearize: each reads what the one before it wrote."""
    trees, summary = run_parse(["", *PLAIN, " ".join(NEW)])
    files = ["--trees", tmp_path / "out" / "trees", "--parses", tmp_path / "out" / "parses.json"]
    kept = tmp_path / "silver.trees"
    silver.main([*map(str, files), "--keep", "0.5", "--most-words", "80", "--output", str(kept)])
    assert set(lines_of(kept)) < set(trees)
    gold = write_text(tmp_path / "gold.trees", TREES)
    count = run_linearize(tmp_path / "train", gold, "--silver", kept)["silver"]
    assert count == math.ceil((len(PLAIN) + 1 - len(summary["repaired"])) / 2)
    sentences = [" ".join(words(read_tree(tree))) for tree in lines_of(kept)]
    assert sentences == lines_of(tmp_path / "train.source.tok")[-count:]
