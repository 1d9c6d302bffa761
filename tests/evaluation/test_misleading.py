"""Warnings where a measure misleads: on made-up text, and on real systems' translations of newstest2014."""

import html
import json

import pytest
from support.mirror import mirrored, system_entry

from transformer.commands import score
from transformer.evaluation.bleu import bleu_scores, plain_quotes, token_scores
from transformer.evaluation.misleading import marks, warnings
from transformer.report.tables.systems import read_system
from transformer.text import read_lines

PLAIN = ['Er sagte: "Das geht\'s", und ging.', "Zwei Hunde, ein Kind & ein Haus-Boot."]


def of(hypotheses: list[str], references: list[str]) -> list[str]:
    return warnings(marks(hypotheses), marks(references), len(references))


def test_text_as_people_write_it_has_no_warning():
    assert of(PLAIN, PLAIN) == []
    assert of(PLAIN, ["Er sagte: „Das geht\u2019s“, und ging.", PLAIN[1]]) == []  # references may have any quotes
    assert of(PLAIN * 10, ["Ein Satz , wie er vorkommt .", *(PLAIN * 10)[1:]]) == []  # as may one line in twenty


@pytest.mark.parametrize("quote", "„“”\u201f«»\u201a\u2018\u2019\u201b\u2039\u203a")
def test_each_unicode_quote_in_the_hypothesis_is_counted_and_costs_a_token(quote):
    hypotheses = [f"Ein Kind sagte {quote} zu dem Hund.", f"Zwei {quote} Hunde {quote} spielen dort."]
    (warning,) = of(hypotheses, PLAIN)
    assert warning.startswith("--hyp has 3 Unicode quotation marks")
    assert "plain_quotes" in warning
    assert token_scores(hypotheses, hypotheses, "de")["plain_quotes"]["score"] < 90
    plain = plain_quotes(hypotheses)
    assert token_scores(plain, hypotheses, "de")["plain_quotes"]["score"] == pytest.approx(100)


@pytest.mark.parametrize(
    "line",
    [
        "Zwei Hunde , ein Kind",
        "Zwei Hunde .",
        "ein Haus @-@ Boot",
        "ein Haus ##AT##-##AT## Boot",
        "ein Ha@@ us",
        "▁ein ▁Haus",
    ],
)
def test_tokens_are_seen_on_either_side(line):
    (warning,) = of([line, PLAIN[1]], PLAIN)
    assert warning.startswith("--hyp looks tokenised in 1 of 2 lines")
    (warning,) = of(PLAIN, [line, PLAIN[1]])
    assert warning.startswith("--ref looks tokenised in 1 of 2 lines")


@pytest.mark.parametrize("escape", ["&quot;", "&apos;", "&amp;", "&#39;"])
def test_escapes_are_seen(escape):
    (warning,) = of([*PLAIN * 50, f"Ein {escape} Satz"], [*PLAIN * 50, "Ein Satz"])
    assert warning.startswith("--hyp has escapes such as `&quot;` in 1 of 101 lines")


def test_lower_case_on_one_side_alone():
    lower = [line.lower() for line in PLAIN]
    assert of(lower, lower) == []
    (warning,) = of(lower, PLAIN)
    assert warning.startswith("--hyp alone is in lower case")
    (warning,) = of(PLAIN, lower)
    assert warning.startswith("--ref alone is in lower case")


@pytest.mark.slow
def test_google_writes_unicode_quotes(tmp_path, capsys):
    """Of the paper's measure they cost it a point, with its escapes left in; the counts are those of grep."""
    entry = system_entry("google-en-de")
    google, reference = read_system(entry), tmp_path / "newstest2014.de"
    reference.write_text("".join(f"{line}\n" for line in google.references), encoding="utf-8")
    options = ["--hyp", entry["files"]["output"], "--ref", str(reference), "--lang", "de"]
    score.main([*options, "--json", str(tmp_path / "score.json")])
    made = json.loads((tmp_path / "score.json").read_text())
    assert made["hyp_marks"] == {"unicode_quotes": 925, "escaped_lines": 101, "tokenized_lines": 12, "capitals": True}
    printed = capsys.readouterr().out
    assert "! --hyp has 925 Unicode quotation marks" in printed
    assert "! --hyp has escapes such as `&quot;` in 101 of 2,737 lines" in printed
    measures = {name: measure["score"] for name, measure in made["scores"].items() if name != "paper"}
    assert measures["compound_split"] - measures["plain_quotes"] == pytest.approx(1.0, abs=0.02)
    made_plain = token_scores(plain_quotes(google.output), google.references, "de")
    assert made_plain["plain_quotes"]["score"] > measures["plain_quotes"] + 1.5


@pytest.mark.slow
def test_without_its_escapes_google_scores_what_docs_say():
    google = read_system(system_entry("google-en-de"))
    text = "".join(google.output)
    assert [text.count(escape) for escape in ("&quot;", "&#39;", "&amp;")] == [172, 17, 2]
    scores = bleu_scores([html.unescape(line) for line in google.output], google.references, "de")
    expected = {"sacrebleu": 35.91, "tokenized": 36.20, "compound_split": 36.87, "plain_quotes": 36.06, "intl": 37.03}
    assert {name: round(scores[name]["score"], 2) for name in expected} == expected


@pytest.mark.parametrize(
    "reference", ["newstest2014-opus.de-en.de", "newstest2014-opus.fr-en.fr", "newstest2013-opus.de"]
)
def test_references_have_stray_spaces_and_are_not_taken_for_tokens(reference):
    references = list(read_lines(mirrored(reference)))
    assert of(plain_quotes(references), references) == []


def test_real_tokens_are_seen():
    tokens = read_system(system_entry("marian-16-en-de")).output
    assert any("looks tokenised in 98 of 100 lines" in warning for warning in of(tokens, tokens))
