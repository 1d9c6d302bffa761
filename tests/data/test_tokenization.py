"""Moses tokens of hand-made examples, and their conversion back to plain text. test_moses.py has more languages."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sacremoses import MosesPunctNormalizer

from transformer.config.experiment import Preprocessing
from transformer.data.tokenization import Normalizer, Tokenizer

MOSES = Preprocessing(normalize_punctuation=True, escape=True, max_words=80, max_ratio=9.0, vocabulary_sentences=1000)


@pytest.mark.parametrize(
    ("language", "raw", "expected", "changes"),
    [
        ("en", "“Well…” \u2013 \u2018no\u2019!", "&quot; Well ... &quot; - &apos; no &apos; !", {}),
        ("en", "“A & B” \u2013 [c]", '" A & B " - [ c ]', {"escape": False}),
        ("en", "“A & B” \u2013 [c]", "“ A &amp; B ” \u2013 &#91; c &#93;", {"normalize_punctuation": False}),
        ("fr", "« L'homme » n'est pas là.", "&quot; L&apos; homme &quot; n&apos; est pas là .", {}),
    ],
)
def test_words_by_hand(language, raw, expected, changes):
    assert Tokenizer(language, replace(MOSES, **changes)).tokenize(raw) == expected


@pytest.mark.parametrize(
    ("language", "raw", "expected"),
    [
        ("en", "A man. He is.", "a man . He is ."),
        ("de", "Dr. Müller kam.", "dr. Müller kam ."),
        ("fr", "À l'école", "à l&apos; école"),
        ("en", "USA wins", "USA wins"),
        ("en", "3 Dogs", "3 Dogs"),
        ("en", "", ""),
        # Without Moses
        ("tr", "İzmir", "izmir"),
        ("tr", "Isparta", "\u0131sparta"),
        ("uk", "ﬁle", "ﬁle"),
        ("ar", "ßa", "ßa"),
        ("ar", "Éa", "éa"),
    ],
)
def test_the_first_letter_is_lowered_and_restored(language, raw, expected):
    tokenizer = Tokenizer(language, replace(MOSES, decapitalize=True))
    assert tokenizer.tokenize(raw) == expected
    assert tokenizer.detokenize(expected) == tokenizer.detokenize(tokenizer.tokenize(raw)) == raw


def test_words_in_lower_case_stay_so():
    """`decapitalize` would restore an upper-case first letter, but not together with `lowercase`."""
    tokenizer = Tokenizer("de", replace(MOSES, lowercase=True, decapitalize=True))
    assert tokenizer.tokenize("Über „USA & ÖBB“.") == (words := "über &quot; usa &amp; öbb &quot; .")
    assert tokenizer.detokenize(words) == 'über "usa & öbb".'


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_any_text_is_words_with_single_spaces_between_them(language):
    """A sentence stays one line, even with characters that end a line in other programs."""
    tokenizer = Tokenizer(language, MOSES)

    @given(st.text())
    @example("`.\u00b4")  # sacremoses leaves a blank after these characters
    @example("a\u2028b\x85c\rd\x0be\x1cf\tg\u00a0h\u3000i\n")
    def holds(text):
        words = tokenizer.tokenize(text)
        assert words == " ".join(words.split())
        assert len(words.splitlines()) <= 1

    holds()


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_speed_changes_no_sign(language):
    """Rules that run only where they can match give the same result as sacremoses."""
    ours, theirs = Normalizer(language), MosesPunctNormalizer(language)
    marks = st.sampled_from(list("abzABZüé019 .,,''\"`()%:;!?-&<>|[]\r\t\u00a0º„“”\u2018’\u201a\u00b4–—…«»一图나я"))
    words = st.sampled_from(["z.B.", "U.S.", "No. 5", "1,000", "isn't", "nº\u00a05", "5\u00a0%", "..."])

    @settings(max_examples=150)
    @given(st.lists(marks | words).map("".join))
    def holds(text):
        assert ours.normalize(text) == theirs.normalize(text)

    holds()
