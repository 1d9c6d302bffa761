"""The test sets of config.yaml that come as plain text, against what others publish of them."""

import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from transformer.config.yamlfile import read_yaml

CONFIG = read_yaml(Path(__file__).parents[2] / "config.yaml")
# Where TRANSFORMER_MIRROR names a folder of downloads as `transformer fetch --mirror` reads it.
MIRROR = Path(os.environ.get("TRANSFORMER_MIRROR", "no mirror"))
# In MLPerf's training/translation/verify_dataset.sh, of the files that Stanford's NLP group publishes.
MLPERF = {"en": "dabf51a9c02b2235632f3cee75c72d49", "de": "f6c3818b477e4a25cad68b61cc883c17"}


def mirrored(download: str) -> bytes:
    """Return the bytes of a download."""
    url = urlsplit(CONFIG["downloads"][download]["urls"][0])
    path = MIRROR / url.netloc / url.path.lstrip("/")
    if not path.exists():
        pytest.skip(f"TRANSFORMER_MIRROR names no folder with {url.netloc}{url.path}")
    return path.read_bytes()


def lines(download: str) -> list[bytes]:
    return mirrored(download).splitlines()


@pytest.mark.parametrize("language", ["en", "de"])
def test_newstest2014_is_mlperfs(language):
    content = mirrored(f"newstest2014-opus.de-en.{language}")
    assert hashlib.md5(content).hexdigest() == MLPERF[language]


def test_newstest2014_has_what_others_translated():
    """The sources beside the outputs: of English-German the filtered part, of English-French all, in another order."""
    german, french = (lines(f"newstest2014-opus.{language}-en.en") for language in ("de", "fr"))
    filtered, all_french = (lines(f"wmt14-mozilla.en-{language}.en") for language in ("de", "fr"))
    assert len(filtered) == CONFIG["corpora"]["newstest2014-filtered.de-en"]["lines"]
    assert set(filtered) < set(german)
    assert sorted(all_french) == sorted(french)
    assert all_french != french


def test_newstest2013_has_the_papers_sentence():
    """Figure 3's, which the paper took from there; and its languages are of one length."""
    text = CONFIG["scales"]["paper"]["figures"]["figure3"]["text"].encode()
    sides = {language: lines(f"newstest2013-opus.{language}") for language in ("en", "de", "fr")}
    assert [len(side) for side in sides.values()] == [3000] * 3
    assert any(text.rstrip(b".") in line for line in sides["en"])
