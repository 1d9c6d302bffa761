"""Warnings where a measure misleads: on made-up text, and on real systems' translations of newstest2014."""

import pytest
from support.mirror import mirrored

from transformer.evaluation.bleu import plain_quotes, token_scores
from transformer.evaluation.misleading import marks, warnings
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


@pytest.mark.parametrize(
    "reference", ["newstest2014-opus.de-en.de", "newstest2014-opus.fr-en.fr", "newstest2013-opus.de"]
)
def test_references_have_stray_spaces_and_are_not_taken_for_tokens(reference):
    references = list(read_lines(mirrored(reference)))
    assert of(plain_quotes(references), references) == []
