"""Scores against numbers worked by hand, the sacrebleu command, perl, and multi-bleu written from its definition."""

import json
import math
import subprocess
import sys
from collections import Counter

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.page import about_run
from support.tools import needs

from transformer.commands import score
from transformer.config.experiment import Decoding, save
from transformer.evaluation.bleu import (
    paper_reference,
    paper_tokens,
    scores,
    token_bleu,
    token_scores,
    tokenize,
    without_compounds,
)
from transformer.evaluation.misleading import marks
from transformer.evaluation.significance import bleu_draws, limits
from transformer.files import InputError, sha256
from transformer.model import weights as checkpoints

HYPOTHESES = ['Der "Mann" läuft, z.B. zum Fluss-Ufer.', "Zwei Hunde spielen im Schnee.", "Ein Kind isst Eis."]
REFERENCES = [
    'Ein "Mann" läuft, z.B. zum Fluss-Ufer.',
    "Zwei Hunde spielen im tiefen Schnee.",
    "Ein Kind isst ein Eis.",
]


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """Corpus BLEU from its definition: clipped n-gram matches over the corpus, brevity penalty, no smoothing."""
    pairs = [
        (hypothesis.split(), reference.split()) for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    log_precision = 0.0
    for n in range(1, 5):
        matches = total = 0
        for sides in pairs:
            ours, theirs = (Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in sides)
            matches += sum(min(count, theirs[ngram]) for ngram, count in ours.items())
            total += ours.total()
        if not matches:
            return 0.0
        log_precision += math.log(matches / total) / 4
    length, reference_length = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * math.exp(log_precision + min(0.0, 1 - reference_length / length))


def test_precisions_and_brevity_penalty_worked_by_hand():
    """6/7, 5/6, 4/5, 3/4: their product is 3/7."""
    measures = scores(["the cat sat on the mat today"], ["the cat sat on the mat"], "en")
    assert measures["tokenized"]["score"] == pytest.approx(100 * (3 / 7) ** 0.25)
    measures = scores(["the cat sat on the"], ["the cat sat on the mat"], "en")
    assert measures["tokenized"]["score"] == pytest.approx(100 * math.exp(1 - 6 / 5))
    assert scores(["a b c"], ["a b c"], "en")["tokenized"]["score"] == 0.0  # no smoothing: there are no 4-grams


words = st.lists(st.sampled_from(["a", "b", "c", "D"]), min_size=1, max_size=9).map(" ".join)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_tokenized_is_multi_bleu(pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    measures = token_scores(hypotheses, references, "en")
    assert measures["tokenized"]["score"] == pytest.approx(multi_bleu(hypotheses, references))
    lower = [[side.lower() for side in sides] for sides in (hypotheses, references)]
    assert measures["tokenized_lc"]["score"] == pytest.approx(multi_bleu(*lower))


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["sacrebleu", "chrf2", "ter"], ["--metrics", "bleu", "chrf", "ter"]),
        (["sacrebleu_lc"], ["--lowercase"]),
        (["intl"], ["--tokenize", "intl"]),
        (["intl_lc"], ["--tokenize", "intl", "--lowercase"]),
    ],
)
def test_sacrebleu_is_what_its_command_says(names, options, tmp_path):
    hyp, ref = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    command = [sys.executable, "-m", "sacrebleu", ref, "-i", hyp, "--width", "12", *options]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    measures = scores(HYPOTHESES, REFERENCES, "de")
    for name, metric in zip(names, printed if len(names) > 1 else [printed], strict=True):
        assert measures[name] == {"score": pytest.approx(metric["score"], abs=1e-11), "signature": metric["signature"]}


@pytest.mark.parametrize("language", ["de", "fr"])
def test_the_papers_measure_is_that_of_its_tokens(language):
    quoted = [line.replace('"', "“") for line in REFERENCES]
    measures = scores(HYPOTHESES, quoted, language)
    words = paper_tokens(HYPOTHESES, language), paper_reference(quoted, language)
    assert token_bleu().corpus_score(words[0], [words[1]]).score == measures[measures["paper"]]["score"]


def test_signatures_say_what_was_done():
    measures = scores(HYPOTHESES, REFERENCES, "de")
    ours = f"|smooth:none|version:{sacrebleu.__version__}|sacremoses:"
    start = {name: measures[name]["signature"].split(ours)[0] for name in measures if name != "paper"}
    assert start["tokenized"] == "nrefs:1|case:mixed|eff:no|tok:moses-de"
    assert start["tokenized_lc"] == "nrefs:1|case:lc|eff:no|tok:moses-de"
    assert start["compound_split"] == "nrefs:1|case:mixed|eff:no|tok:moses-de+split"
    assert start["plain_quotes"] == "nrefs:1|case:mixed|eff:no|tok:moses-de+split|refquotes:plain"
    assert start["normalized"] == "nrefs:1|case:mixed|eff:no|tok:moses-de+norm+split"
    french = scores(HYPOTHESES, REFERENCES, "fr")
    assert "compound_split" not in french  # only German compounds are split
    assert "|tok:moses-fr|refquotes:plain|" in french["plain_quotes"]["signature"]
    assert "|tok:moses-fr+norm|" in french["normalized"]["signature"]


def test_tokens_are_not_escaped():
    assert tokenize(['It\'s "A & B" [<c>].'], "en") == ['It \'s " A & B " [ < c > ] .']


def test_splits_as_perl():
    """A match takes both its neighbours, so that the second hyphen of a-b-c stays."""
    lines = ["Fluss-Ufer - a-b-c", "ä-ö-ü x-", "1-€-Job -- a--b -c d-", "…-… €-ß-ö-a"]
    program = r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"
    command = [needs("perl", "apt-get install perl"), "-ple", program]
    perl = subprocess.run(command, input="\n".join(lines).encode(), capture_output=True, check=True)
    assert without_compounds(lines, "de") == perl.stdout.decode().splitlines()


def test_sides_that_cannot_be_scored():
    with pytest.raises(InputError, match="3 and 2"):
        scores(HYPOTHESES, REFERENCES[:2], "de")
    with pytest.raises(InputError, match="found none"):
        scores([], [], "de")


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("language", "hypothesis", "reference"),
    [
        ("de", 'Er sagte: "Das geht\'s", und ging.', "Er sagte: „Das geht\u2019s“, und ging."),
        ("de", "Er sagte: 'Das geht gut.'", "Er sagte: \u201aDas geht gut.\u2018"),
        ("fr", "L'homme dit \"non\" et s'en va.", "L\u2019homme dit « non » et s\u2019en va."),
    ],
)
def test_the_references_quotes_are_made_plain(language, hypothesis, reference):
    measures = scores([hypothesis], [reference], language)
    assert measures["plain_quotes"]["score"] == pytest.approx(100)
    assert measures["tokenized"]["score"] < 99
    assert measures["sacrebleu"]["score"] < 99


def test_the_hypothesis_quotes_are_left():
    """The authors changed only the reference."""
    measures = scores(["Er sagte: „Das ist gut“."], ['Er sagte: "Das ist gut".'], "de")
    assert measures["plain_quotes"]["score"] < 99
    assert measures["normalized"]["score"] == pytest.approx(100)


DECODING = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}


def make_run(folder):
    """Write what a score takes from a run's folder."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(about_run(flops=1e15, digest="ab")))
    save(Decoding(**DECODING), folder / "decoding.yaml")
    checkpoints.save(folder / "average.safetensors", {"x": torch.zeros(1)}, {"digest": "ab", "steps": [2, 4]})
    return folder


def test_stage(tmp_path, capsys):
    hyp, ref = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    run = make_run(tmp_path / "run")
    output = tmp_path / "score.json"
    arguments = ["--hyp", hyp, "--ref", ref, "--lang", "de", "--run", str(run)]
    score.main([*arguments, "--json", str(output)])
    expected = scores(HYPOTHESES, REFERENCES, "de")
    draws = bleu_draws(paper_tokens(HYPOTHESES, "de"), paper_reference(REFERENCES, "de"))
    low, high = limits(draws)
    assert json.loads(output.read_text()) == {
        "language": "de",
        "sentences": 3,
        "scores": expected | {"plain_quotes": expected["plain_quotes"] | {"low": low, "high": high}},
        "draws": draws,
        "subsets": {},
        "hyp": hyp,
        "hyp_sha256": sha256(hyp),
        "hyp_marks": marks(HYPOTHESES),
        "ref": ref,
        "ref_sha256": sha256(ref),
        "ref_marks": marks(REFERENCES),
        "run": about_run(flops=1e15, digest="ab")
        | {
            "averaged_steps": [2, 4],
            "weights_sha256": sha256(run / "average.safetensors"),
            "decoding": DECODING,
        },
    }
    assert len(output.read_text().splitlines()) < 150  # all draws are in one
    head, *lines, _ = capsys.readouterr().out.splitlines()
    assert head == "3 sentences"
    shown = ["sacrebleu", "plain_quotes", "tokenized_lc", "chrf2"]
    assert [line.split()[:2] for line in lines[::2]] == [[name, f"{expected[name]['score']:.2f}"] for name in shown]
    assert [line.strip() for line in lines[1::2]] == [expected[name]["signature"] for name in shown]
    assert lines[2].endswith(
        f"comparable with their 27.3 and 28.4; {low:.2f} – {high:.2f} on 95 % of resampled test sets"
    )


def test_stage_says_of_the_papers_measure_what_is_known_in_a_language(tmp_path, capsys):
    hyp, ref = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    for language, expected in [
        ("fr", "how their French 41.8 was counted is not known"),
        ("en", "are said to have counted German"),
    ]:
        score.main(["--hyp", hyp, "--ref", ref, "--lang", language])
        printed = capsys.readouterr().out
        assert expected in printed
        assert "27.3" not in printed


def test_stage_without_a_run(tmp_path):
    hyp, ref = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    score.main(["--hyp", hyp, "--ref", ref, "--lang", "de", "--json", str(tmp_path / "score.json")])
    written = json.loads((tmp_path / "score.json").read_text())
    assert written["run"] is None
    assert "draws" not in written


def test_stage_scores_a_subset_by_itself(tmp_path, capsys):
    """Of two equal references, the one after the line before it is taken."""
    hypotheses, references = [*HYPOTHESES, "Ein Rind isst Eis."], [*REFERENCES, REFERENCES[2]]
    hyp, ref = write(tmp_path / "hyp", hypotheses), write(tmp_path / "ref", references)
    part = write(tmp_path / "part", [references[0], references[2], references[3]])
    arguments = ["--hyp", hyp, "--ref", ref, "--lang", "de", "--subset", "filtered", part]
    score.main([*arguments, "--json", str(tmp_path / "score.json")])
    whole = json.loads((tmp_path / "score.json").read_text())
    chosen = [[side[index] for index in (0, 2, 3)] for side in (hypotheses, references)]
    assert whole["subsets"] == {"filtered": {"sentences": 3, "scores": scores(*chosen, "de")}}
    del whole["scores"]["plain_quotes"]["low"], whole["scores"]["plain_quotes"]["high"]
    assert whole["scores"] == scores(hypotheses, references, "de")
    part = whole["subsets"]["filtered"]["scores"]
    shown = ", ".join(f"{name} {part[name]['score']:.2f}" for name in ("sacrebleu", "plain_quotes", "tokenized_lc"))
    assert f"3 sentences (filtered): {shown}, chrf2 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Ein Kind isst ein Eis.", "Ein Kind."], r"part, line 2: .*, found 'Ein Kind\.'"),
        ([REFERENCES[1], REFERENCES[0]], r"part, line 2: expected one of the references of the whole, in their order"),
        ([], r"part: expected references, found none"),
    ],
)
def test_stage_names_a_subset_that_is_none(tmp_path, lines, message):
    hyp, ref = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    part = write(tmp_path / "part", lines)
    with pytest.raises(InputError, match=message):
        score.main(["--hyp", hyp, "--ref", ref, "--lang", "de", "--subset", "filtered", part])
