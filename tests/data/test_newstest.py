"""The test sets of config.yaml that come as plain text, against what others publish of them."""

import hashlib

import pytest
from support.mirror import CONFIG, mirrored

# In MLPerf's training/translation/verify_dataset.sh, of the files that Stanford's NLP group publishes.
MLPERF = {"en": "dabf51a9c02b2235632f3cee75c72d49", "de": "f6c3818b477e4a25cad68b61cc883c17"}


def lines(download: str) -> list[bytes]:
    return mirrored(download).read_bytes().splitlines()


@pytest.mark.parametrize("language", ["en", "de"])
def test_newstest2014_is_mlperfs(language):
    content = mirrored(f"newstest2014-opus.de-en.{language}").read_bytes()
    assert hashlib.md5(content).hexdigest() == MLPERF[language]


def test_newstest2013_has_the_papers_sentence():
    """Figure 3's, which the paper took from there; and its languages are of one length."""
    text = CONFIG["scales"]["paper"]["figures"]["figure3"]["text"].encode()
    sides = {language: lines(f"newstest2013-opus.{language}") for language in ("en", "de", "fr")}
    assert [len(side) for side in sides.values()] == [3000] * 3
    assert any(text.rstrip(b".") in line for line in sides["en"])
