"""The commands that score: their output, their files, and their errors on bad input."""

import json
import os
import random
import re

import pytest
import torch
from sacrebleu.metrics import BLEU
from support.commands import do, error
from support.page import about_run
from support.scored import HYPOTHESES, REFERENCES
from support.toy import write_text

from transformer.config.experiment import Decoding, save
from transformer.evaluation.bleu import marks, paper_reference, paper_tokens, scores
from transformer.evaluation.significance import RESAMPLES, bleu_draws, limits
from transformer.model import weights as checkpoints
from transformer.storage.files import sha256
from transformer.storage.provenance import commit, model_code
from transformer.storage.reading import structured
from transformer.storage.records import sum_of

GOLD = ["(S (NP (NN a)) (VP (VB b) (, ,)))", "(NP (NN c))", "(S (NP (NN d)) (. .))", "(X (NN e))"]
TEST = ["(S (NP (NN a)) (VP (VB b) (CD ,)))", "(NP (NN c))", "(S (VP (NN d)) (. .))", ""]
DECODING = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}  # the keys of recorded files


@pytest.fixture
def run(tmp_path):
    """Write the files of a run's folder that `score` reads."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(about_run(digest="ab")))
    save(structured(DECODING, Decoding, "decoding"), run / "decoding.yaml")
    checkpoints.save_tensors(run / "average.safetensors", {"x": torch.zeros(1)}, {"digest": "ab", "steps": [2, 4]})
    checkpoints.save_tensors(run / "one.safetensors", {"x": torch.zeros(1)}, {"digest": "ab", "step": 5})
    return run


@pytest.fixture
def score(tmp_path, capsys):

    def score(*options, hypotheses: list[str] = HYPOTHESES, references: list[str] = REFERENCES) -> tuple[str, dict]:
        hyp, ref = write_text(tmp_path / "hyp", hypotheses), write_text(tmp_path / "ref", references)
        do("score", "--hyp", hyp, "--ref", ref, "--lang", "de", "--json", tmp_path / "json", *options)
        return capsys.readouterr().out, json.loads((tmp_path / "json").read_text())

    return score


@pytest.fixture
def evalb(tmp_path, capsys):

    def evalb(*options) -> tuple[str, dict]:
        files = ["--gold", write_text(tmp_path / "gold", GOLD), "--test", write_text(tmp_path / "test", TEST)]
        do("evalb", *files, "--json", tmp_path / "json", *options)
        return capsys.readouterr().out, json.loads((tmp_path / "json").read_text())

    return evalb


def test_text_that_is_tokenised_and_escaped_is_scored_on_its_tokens(score):
    """The score equals that of `sacrebleu --tokenize none`, and sacreBLEU that of plain text.

    Without the option, escapes would be escaped twice.
    """
    references = ["Das ist ja ein &quot; Hund &quot; , oder ?", "A &amp; B &#91; sic &#93; singen im Garten ."] * 3
    hypotheses = ["Das ist ja ein Hund , oder ?", "A &amp; B &#91; sic &#93; sangen im Garten ."] * 3
    printed, written = score("--tokenized", hypotheses=hypotheses, references=references)
    expected = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(hypotheses, [references]).score
    found = written["scores"]["tokenized"]
    assert (written["scores"]["paper"], found["score"]) == ("tokenized", expected)
    assert found["low"] < expected < found["high"]
    assert "|tok:none|" in printed
    assert "!" not in printed
    plain = ['Das ist ja ein "Hund", oder?', "A & B [sic] singen im Garten."] * 3
    translated = ["Das ist ja ein Hund, oder?", "A & B [sic] sangen im Garten."] * 3
    assert written["scores"]["sacrebleu"] == scores(translated, plain, "de")["sacrebleu"]
    _, twice = score(hypotheses=hypotheses, references=references)
    assert twice["scores"]["tokenized"]["score"] != expected


def test_score(score, run, tmp_path):
    printed, written = score("--run", run)
    expected, hyp, ref = scores(HYPOTHESES, REFERENCES, "de"), tmp_path / "hyp", tmp_path / "ref"
    draws = bleu_draws(paper_tokens(HYPOTHESES, "de"), paper_reference(REFERENCES, "de"))
    low, high = limits(draws)
    assert written.pop("sha256") == sum_of(written)
    assert written == {
        "language": "de",
        "sentences": 3,
        "scores": expected | {"plain_quotes": expected["plain_quotes"] | {"low": low, "high": high}},
        "draws": draws,
        "subsets": {},
        **{"hyp": str(hyp), "hyp_sha256": sha256(hyp), "hyp_marks": marks(HYPOTHESES)},
        **{"ref": str(ref), "ref_sha256": sha256(ref), "ref_marks": marks(REFERENCES)},
        "run": about_run(digest="ab")
        | {"averaged_steps": [2, 4], "weights_sha256": sha256(run / "average.safetensors"), "decoding": DECODING}
        | {"scored_with": {"commit": commit(), "model_code": model_code()}},
    }
    _, *lines, _ = printed.splitlines()
    shown = ["sacrebleu", "plain_quotes", "tokenized_lc", "chrf2"]
    assert [line.split()[:2] for line in lines] == [[name, f"{expected[name]['score']:.2f}"] for name in shown]
    assert [line.split()[-1] for line in lines] == [expected[name]["signature"] for name in shown]
    assert f"({low:.2f} – {high:.2f})" in lines[1]


def test_score_against_another_translation(score, tmp_path):
    """Each of 120 sentences is a little better, so hardly any resampled test set has the opposite difference.

    test_significance.py compares p with a second bootstrap.
    """
    references = [" ".join(random.Random(n).choices(["red", "green", "dogs", "cats", "see"], k=9)) for n in range(120)]
    own, others = ([line.replace("red", "x", count) for line in references] for count in (1, 2))
    other = write_text(tmp_path / "other", others)
    printed, written = score("--tokenized", "--against", other, hypotheses=own, references=references)
    found, metric = written["against"], BLEU(tokenize="none", smooth_method="none", force=True)
    differing = [metric.corpus_score(side, [references]).score for side in (own, others)]
    assert found["hyp_sha256"] == sha256(other)
    assert found["difference"] == pytest.approx(differing[0] - differing[1])
    assert 0 < found["low"] < found["difference"] < found["high"]
    assert found["p"] < 0.01
    assert f"p = {found['p']:.3f}; tokenized of --hyp minus --against, paired bootstrap" in printed
    assert "expected 120 lines" in error(
        "score", "--hyp", tmp_path / "hyp", "--ref", tmp_path / "ref", "--lang", "de", "--against", tmp_path / "json"
    )


def test_a_file_name_that_is_no_utf_8_is_written(tmp_path, capsys):
    path = write_text(tmp_path / os.fsdecode(b"h\xfc"), HYPOTHESES)
    do("score", "--hyp", path, "--ref", path, "--lang", "de", "--json", tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["hyp"] == str(path)


def test_score_of_a_subset(score, tmp_path):
    """The subset has its own order. Equal references are matched once each."""
    hypotheses, references = [*HYPOTHESES, "Ein Rind isst Eis."], [*REFERENCES, REFERENCES[2]]
    part = write_text(tmp_path / "part", [references[2], references[3], references[0]])
    other = write_text(tmp_path / "other", references[:1])
    options = ["--subset", "filtered", part, "--subset", "one", other]
    printed, whole = score(*options, hypotheses=hypotheses, references=references)
    chosen = [[side[index] for index in (0, 2, 3)] for side in (hypotheses, references)]
    assert whole["subsets"]["filtered"] == {"sentences": 3, "scores": scores(*chosen, "de")}
    assert whole["subsets"]["one"]["sentences"] == 1
    assert f"3 sentences (filtered): sacrebleu {scores(*chosen, 'de')['sacrebleu']['score']:.2f}, " in printed


def test_a_subset_that_is_none(tmp_path):
    hyp, ref = write_text(tmp_path / "hyp", HYPOTHESES), write_text(tmp_path / "ref", REFERENCES)
    part = write_text(tmp_path / "part", [REFERENCES[1], REFERENCES[1]])
    found = error("score", "--hyp", hyp, "--ref", ref, "--lang", "de", "--subset", "filtered", part)
    assert found == f"{part}, line 2: this line does not occur in {ref}, or not as often as in {part}"


def test_evalb(evalb):
    """Two sentences count: NP is right, of S and NP, S: 2 of 3 brackets each, one sentence wholly, and both words."""
    printed, written = evalb()
    lines = printed.splitlines()
    assert lines[0].split() == ["all", "<=", "40", "words"]
    numbers = [re.split("  +", line)[1:] for line in lines[1:-1]]
    expected = ["4", "1", "1", "2", *["66.67"] * 3, "50.00", "0.00", *["100.00"] * 3]
    assert numbers == [[number, number] for number in expected]
    assert lines[-1].endswith("/test, line 1: 2 words in gold, 3 in test")
    assert list(written) == ["gold", "gold_sha256", "test", "test_sha256", "by", "scores", "errors", "run", "sha256"]
    assert written["errors"] == [{"line": 1, "why": "2 words in gold, 3 in test"}]


def test_evalb_by_golds_tags(evalb):
    """Sentence 1 counts too, S, NP and VP right: 5 of 6. Its wrongly tagged comma is no word, so all tags are right."""
    _, score = evalb("--gold-tags")
    assert (score["by"], score["errors"]) == ("gold tags", [])
    assert score["scores"]["all"]["f1"] == pytest.approx(500 / 6)
    assert score["scores"]["all"]["tagging"] == 100
    assert score["strict"] == evalb()[1]["scores"]


def test_evalb_without_repair(evalb, tmp_path):
    """Sentence 2 counts as if it had no bracket: S of S and NP, 1 of 3 in gold, 1 of 2 in test."""
    parses = {"sentences": 4, "repaired": {"2": "brackets left open"}, "scores": [0] * 4}
    (tmp_path / "parses.json").write_text(json.dumps(parses))
    _, score = evalb("--parses", tmp_path / "parses.json")
    assert score["repaired"] == [2]
    scores = score["without_repair"]["all"]
    assert (scores["recall"], scores["precision"]) == (pytest.approx(100 / 3), 50)


def test_evalb_of_a_run(evalb, run):
    """Weights other than the average are named by their step; an int8 copy has its own checksum."""
    weights = run / "one.safetensors"
    _, score = evalb("--run", run, "--weights", weights)
    origin = {"averaged_steps": [5], "weights_sha256": sha256(weights), "decoding": DECODING}
    assert score["run"] == about_run(digest="ab") | origin | {"scored_with": score["run"]["scored_with"]}
    assert len(score["draws"]) == RESAMPLES
    header = {"digest": "ab", "steps": [2, 4], "rounded": True}
    checkpoints.save_tensors(run / "average.safetensors", {"x": torch.zeros(1)}, header)
    assert evalb("--run", run)[1]["run"]["weights_sha256"] == sha256(run / "average.safetensors")
