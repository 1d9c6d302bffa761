"""Scores, compared with numbers computed by hand, the sacrebleu command and perl."""

import json
import math
import subprocess
import sys

import pytest
from support.scored import HYPOTHESES, REFERENCES
from support.toy import write_text

from transformer.evaluation.bleu import (
    bleu_scores,
    marks,
    plain_quotes,
    scores,
    warnings,
)


def test_precisions_and_brevity_penalty_worked_by_hand():
    """The precisions are 6/7, 5/6, 4/5 and 3/4. Their product is 3/7."""
    measures = scores(["the cat sat on the mat today"], ["the cat sat on the mat"], "en")
    assert measures["tokenized"]["score"] == pytest.approx(100 * (3 / 7) ** 0.25)
    measures = scores(["the cat sat on the"], ["the cat sat on the mat"], "en")
    assert measures["tokenized"]["score"] == pytest.approx(100 * math.exp(1 - 6 / 5))
    capital = scores(["The cat sat on the"], ["the cat sat on the mat"], "en")
    assert capital["tokenized_lc"]["score"] == measures["tokenized"]["score"] > capital["tokenized"]["score"]
    assert scores(["a b c"], ["a b c"], "en")["tokenized"]["score"] == 0.0  # there are no 4-grams, and no smoothing


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["sacrebleu", "chrf2", "ter"], ["--metrics", "bleu", "chrf", "ter"]),
        (["sacrebleu_lc"], ["--lowercase"]),
        (["intl"], ["--tokenize", "intl"]),
        (["intl_lc"], ["--tokenize", "intl", "--lowercase"]),
    ],
)
def test_sacrebleu_equals_the_output_of_its_command(names, options, tmp_path):
    hyp, ref = (write_text(tmp_path / name, side) for name, side in (("hyp", HYPOTHESES), ("ref", REFERENCES)))
    command = [sys.executable, "-m", "sacrebleu", ref, "-i", hyp, "--width", "12", *options]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    measures = scores(HYPOTHESES, REFERENCES, "de")
    for name, metric in zip(names, printed if len(names) > 1 else [printed], strict=True):
        assert measures[name] == {"score": pytest.approx(metric["score"], abs=1e-11), "signature": metric["signature"]}


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
    """The authors changed only the quotes in the reference."""
    measures = scores(["Er sagte: „Das ist gut“."], ['Er sagte: "Das ist gut".'], "de")
    assert measures["plain_quotes"]["score"] < 99
    assert measures["normalized"]["score"] == pytest.approx(100)


PLAIN = ['Er sagte: "Das geht\'s", und ging.', "Zwei Hunde, ein Kind & ein Haus-Boot."]


def warned(hypotheses: list[str], references: list[str]) -> list[str]:
    return warnings(marks(hypotheses), marks(references), len(references))


def test_text_as_people_write_it_has_no_warning():
    assert warned(PLAIN, PLAIN) == []
    assert warned(PLAIN, ["Er sagte: „Das geht\u2019s“, und ging.", PLAIN[1]]) == []  # references may have any quotes
    assert warned(PLAIN * 10, ["Ein Satz , wie er vorkommt .", *(PLAIN * 10)[1:]]) == []  # one line in twenty may
    lower = [line.lower() for line in PLAIN]
    assert warned(lower, lower) == []
    assert [line[:10] for line in warned(lower, PLAIN) + warned(PLAIN, lower)] == ["only --hyp", "only --ref"]


@pytest.mark.parametrize("quote", "„“”\u201f«»\u201a\u2018\u2019\u201b\u2039\u203a")
def test_each_unicode_quote_in_the_hypothesis_is_counted_and_costs_a_token(quote):
    hypotheses = [f"Ein Kind sagte {quote} zu dem Hund.", f"Zwei {quote} Hunde {quote} spielen dort."]
    (warning,) = warned(hypotheses, PLAIN)
    assert warning.startswith("--hyp has 3 Unicode quotation marks")
    assert bleu_scores(hypotheses, hypotheses, "de")["plain_quotes"]["score"] < 90
    plain = plain_quotes(hypotheses)
    assert bleu_scores(plain, hypotheses, "de")["plain_quotes"]["score"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Zwei Hunde , ein Kind", "looks tokenised in 1 of 2 lines"),
        ("ein Haus @-@ Boot", "looks tokenised in 1 of 2 lines"),
        ("ein Haus ##AT##-##AT## Boot", "looks tokenised in 1 of 2 lines"),
        ("ein Ha@@ us", "looks tokenised in 1 of 2 lines"),
        ("Ein &quot; Satz", "has escapes such as `&quot;` in 1 of 2 lines"),
    ],
)
def test_tokens_and_escapes_are_seen_on_either_side(line, expected):
    (warning,) = warned([line, PLAIN[1]], PLAIN)
    assert warning.startswith(f"--hyp {expected}")
    (warning,) = warned(PLAIN, [line, PLAIN[1]])
    assert warning.startswith(f"--ref {expected}")
