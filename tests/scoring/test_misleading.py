"""Warnings where a measure misleads: on made-up text, and on real systems' translations of newstest2014."""

import json
import os
from pathlib import Path

import pytest

from transformer.scoring.bleu import plain_quotes, token_scores
from transformer.scoring.misleading import marks, warnings
from transformer.stages import score

PLAIN = ['Er sagte: "Das geht\'s", und ging.', "Zwei Hunde, ein Kind & ein Haus-Boot."]

# Where TRANSFORMER_MIRROR names a folder of downloads as `transformer fetch --mirror` reads it.
GITHUB = Path(os.environ.get("TRANSFORMER_MIRROR", "no mirror"), "raw.githubusercontent.com")
MODELS = GITHUB / "mozilla/firefox-translations-models/e7957fc407441a5e3e35bbcbf9d60d9b35764618/evaluation"
NEWS = GITHUB / "Helsinki-NLP/OPUS-MT-testsets/ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180/datasets/statmt/wmt_newstest"
GOOGLE = MODELS / "en-de/wmt14.google.de"
MARIAN = GITHUB / (
    "marian-nmt/marian-regression-tests/84844f7c1acf10fe6f28e5de73d94e83fd78f0bb/tests/models/wngt19/"
    "model_base_fbgemm_packed16.avx512.expected"
)
mirror = pytest.mark.skipif(not GOOGLE.exists(), reason="TRANSFORMER_MIRROR names no folder with Google's translation")


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


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
    assert warning.startswith("--hyp has escapes such as &quot; in 1 of 101 lines")


def test_lower_case_on_one_side_alone():
    lower = [line.lower() for line in PLAIN]
    assert of(lower, lower) == []
    (warning,) = of(lower, PLAIN)
    assert warning.startswith("--hyp alone is in lower case")
    (warning,) = of(PLAIN, lower)
    assert warning.startswith("--ref alone is in lower case")


@mirror
def test_google_writes_unicode_quotes(tmp_path, capsys):
    """Of the paper's measure they cost it a point; the counts are those of grep."""
    reference = newstest2014(MODELS / "en-de/wmt14.en", tmp_path)
    score.main(["--hyp", str(GOOGLE), "--ref", str(reference), "--lang", "de", "--json", str(tmp_path / "score.json")])
    made = json.loads((tmp_path / "score.json").read_text())
    assert made["hyp_marks"] == {"unicode_quotes": 925, "escaped_lines": 101, "tokenized_lines": 12, "capitals": True}
    printed = capsys.readouterr().out
    assert "! --hyp has 925 Unicode quotation marks" in printed
    assert "! --hyp has escapes such as &quot; in 101 of 2,737 lines" in printed
    measures = {name: measure["score"] for name, measure in made["scores"].items() if name != "paper"}
    assert measures["compound_split"] - measures["plain_quotes"] == pytest.approx(1.0, abs=0.02)
    made_plain = token_scores(plain_quotes(lines(GOOGLE)), lines(reference), "de")
    assert made_plain["plain_quotes"]["score"] > measures["plain_quotes"] + 1.5


def newstest2014(source: Path, folder: Path) -> Path:
    """Write the references of those sentences of newstest2014 whose English is in `source`."""
    english, german = [lines(NEWS / f"2014/en-de/newstest2014.{language}") for language in ("en", "de")]
    of_english = dict(zip(english, german, strict=True))
    path = folder / "newstest2014.de"
    path.write_text("".join(f"{of_english[line]}\n" for line in lines(source)), encoding="utf-8")
    return path


@mirror
@pytest.mark.parametrize(
    ("year", "unicode", "plain"), [("2014/en-de/newstest2014", 659, 492), ("2013/newstest2013", 0, 1057)]
)
def test_references_have_the_quotation_marks_that_docs_count(year, unicode, plain):
    text = "".join(lines(NEWS / f"{year}.de"))
    assert (sum(map(text.count, "„“”«»")), text.count('"')) == (unicode, plain)


@mirror
def test_real_texts():
    """Tokens are noticed; references of the test sets, which have some stray spaces, are not taken for tokens."""
    for path in ("2014/en-de/newstest2014.de", "2014/en-fr/newstest2014.fr", "2013/newstest2013.de"):
        references = lines(NEWS / path)
        assert of(plain_quotes(references), references) == []
    tokens = lines(MARIAN)
    assert any("looks tokenised in 98 of 100 lines" in warning for warning in of(tokens, tokens))
