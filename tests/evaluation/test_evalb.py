"""The evalb stage: what it prints and writes, and what it says of bad input."""

import json

import pytest
import torch
from support.page import about_run
from support.toy import make_experiment, make_run

from transformer import __main__
from transformer.config.experiment import Decoding, save
from transformer.evaluation.significance import RESAMPLES
from transformer.files import sha256
from transformer.model import weights as checkpoints

GOLD = ["(S (NP (NN a)) (VP (VB b) (, ,)))", "(NP (NN c))", "(S (NP (NN d)) (. .))", "(X (NN e))"]
TEST = ["(S (NP (NN a)) (VP (VB b) (CD ,)))", "(NP (NN c))", "(S (VP (NN d)) (. .))", ""]
DECODING = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}


@pytest.fixture
def evalb(tmp_path, capsys):
    """Run the stage on GOLD and TEST, and return what it prints."""

    def evalb(*options, gold: list[str] = GOLD, test: list[str] = TEST) -> str:
        for name, lines in (("gold", gold), ("test", test)):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        files = ["--gold", str(tmp_path / "gold"), "--test", str(tmp_path / "test")]
        __main__.main(["evalb", *files, *map(str, options)])
        return capsys.readouterr().out

    return evalb


@pytest.fixture
def parses(tmp_path):
    """Write a --parses file, and return its name."""

    def parses(content) -> str:
        (tmp_path / "parses.json").write_text(json.dumps(content))
        return str(tmp_path / "parses.json")

    return parses


def test_table(evalb):
    """Two sentences count: NP is right, of S and NP, S: 2 of 3 brackets each, one sentence wholly, and both words."""
    lines = evalb().splitlines()
    assert lines[0].split() == ["all", "<=", "40", "words"]
    rows = {line[:36].strip(): line[36:].split() for line in lines[1:-1]}
    assert rows == {
        "sentences": ["4", "4"],
        "left out: other words than in gold": ["1", "1"],
        "left out: no tree": ["1", "1"],
        "scored": ["2", "2"],
        "recall": ["66.67", "66.67"],
        "precision": ["66.67", "66.67"],
        "F1": ["66.67", "66.67"],
        "complete match": ["50.00", "50.00"],
        "crossing brackets a sentence": ["0.00", "0.00"],
        "no crossing": ["100.00", "100.00"],
        "2 or less crossing": ["100.00", "100.00"],
        "tagging accuracy": ["100.00", "100.00"],
    }
    assert lines[-1].endswith("/test, line 1: 2 words in gold, 3 in test")


def test_columns_of_long_sentences_and_of_nothing(evalb):
    long = f"(S {'(NN a) ' * 41})"
    rows = {line[:36].strip(): line[36:].split() for line in evalb(gold=[long], test=[long]).splitlines()}
    assert rows["F1"] == ["100.00", "-"]
    assert rows["sentences"] == ["1", "0"]


def test_json_is_printed(evalb, tmp_path):
    score = json.loads(evalb("--json"))
    assert list(score) == ["gold", "gold_sha256", "test", "test_sha256", "by", "scores", "errors", "run"]
    assert score["gold_sha256"] == sha256(tmp_path / "gold")
    assert score["test_sha256"] == sha256(tmp_path / "test")
    assert (score["by"], score["run"]) == ("evalb", None)
    assert score["scores"]["all"]["f1"] == pytest.approx(200 / 3)
    assert score["scores"]["len40"] == score["scores"]["all"]
    assert score["errors"] == [{"line": 1, "why": "2 words in gold, 3 in test"}]


def test_json_is_written_beside_the_table(evalb, tmp_path):
    printed = evalb("--json", tmp_path / "score.json")
    assert printed == evalb()
    assert (tmp_path / "score.json").read_text() == evalb("--json")


def test_golds_tags(evalb):
    """Sentence 1 counts too, S, NP and VP right: 5 of 6. Its mis-tagged comma is no word: all tags are right."""
    score = json.loads(evalb("--gold-tags", "--json"))
    assert (score["by"], score["errors"]) == ("gold tags", [])
    assert score["scores"]["all"]["f1"] == pytest.approx(500 / 6)
    assert score["scores"]["all"]["tagging"] == 100
    assert score["strict"] == json.loads(evalb("--json"))["scores"]
    lines = evalb("--gold-tags").splitlines()
    assert lines[-2].split()[-2:] == ["66.67", "66.67"]
    assert lines[-1].split()[-2:] == ["1", "1"]


def test_without_repair(evalb, parses):
    """Sentence 2 as if it had no bracket: S of S and NP, 1 of 3 in gold, 1 of 2 in test."""
    content = {"sentences": 4, "repaired": {"2": "brackets left open"}, "scores": [0, 0, 0, 0]}
    score = json.loads(evalb("--parses", parses(content), "--json"))
    assert score["repaired"] == [2]
    scores = score["without_repair"]["all"]
    assert (scores["recall"], scores["precision"]) == (pytest.approx(100 / 3), 50)
    assert score["scores"] == json.loads(evalb("--json"))["scores"]
    assert "F1 if the 1 repaired had no bracket" in evalb("--parses", parses(content))


@pytest.mark.parametrize(("option", "step"), [((), [2, 4]), (("--weights",), [5])])
def test_run(evalb, tmp_path, option, step):
    """The record of the run is that of BLEU scores."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(about_run(task="parsing", digest="ab")))
    save(Decoding(**DECODING), run / "decoding.yaml")
    checkpoints.save(run / "average.safetensors", {"x": torch.zeros(1)}, {"digest": "ab", "steps": [2, 4]})
    checkpoints.save(run / "one.safetensors", {"x": torch.zeros(1)}, {"digest": "ab", "step": 5})
    weights = [*option, run / "one.safetensors"] if option else []
    score = json.loads(evalb("--run", run, *weights, "--json"))
    origin = {"averaged_steps": step, "weights_sha256": sha256(weights[1] if option else run / "average.safetensors")}
    assert score["run"] == about_run(task="parsing", digest="ab") | {"decoding": DECODING} | origin
    assert len(score["draws"]) == RESAMPLES


def test_weights_that_were_not_taken_with_the_run(evalb, tmp_path):
    """Nothing is said of other weights that lie there."""
    run = make_run(tmp_path, make_experiment())
    (run / "run.json").write_text(json.dumps(about_run(digest="ab")))
    checkpoints.save(run / "average.safetensors", {"x": torch.zeros(1)}, {"digest": "other", "steps": [1]})
    score = json.loads(evalb("--run", run, "--untaken", "--json"))
    assert (score["run"]["weights_sha256"], score["run"]["averaged_steps"]) == (None, [4, 6, 8])


def complaint(call, *options, **lines) -> str:
    """Return what the stage says when it stops."""
    with pytest.raises(SystemExit) as stopped:
        call(*options, **lines)
    message = stopped.value.code  # a text: it is printed, and the exit code is 1
    assert message.startswith("transformer evalb: error: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({"test": TEST[:2]}, "test has 2; "),
        ({"gold": [*GOLD[:3], ""]}, "gold, line 4: expected a tree, found an empty line"),
        ({"test": [*TEST[:2], "(S (NN d)", ""]}, "test, line 3: unbalanced brackets"),
        ({"test": [*TEST[:2], "the cat", ""]}, "test, line 3: "),
        ({"gold": [], "test": []}, "expected trees, found none"),
    ],
)
def test_bad_lines(evalb, lines, expected):
    assert expected in complaint(evalb, **lines)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"repaired": [1]}, "repaired: expected object, found [1]"),
        ({"repaired": {"5": "x"}}, "repaired: expected lines from 1 to 4, found '5'"),
        ({"repaired": {"one": "x"}}, "found 'one'"),
    ],
)
def test_bad_parses(evalb, parses, content, expected):
    path = parses({"sentences": 4, "scores": [0, 0, 0, 0]} | content)
    message = complaint(evalb, "--parses", path)
    assert path in message
    assert expected in message
