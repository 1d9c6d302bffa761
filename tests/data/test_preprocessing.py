"""Preprocessing from plain text to the files that training reads, step by step."""

import itertools
import random
import re

import pytest

from transformer.data.corpus import Subwords, TokenArray
from transformer.data.preprocessing import (
    encode_splits,
    learn_vocabulary,
    reuse_vocabulary,
    tokenize_split,
    write_unseen,
)
from transformer.layout import SIDES, Data
from transformer.storage.files import InputError, read_lines, sha256
from transformer.storage.records import Manifest, read_json, sum_of

WORDS = {
    "en": ("a", "man", "woman", "dog", "sees", "hears", "isn't", "there,", '"here"', "today"),
    "de": ("ein", "Mann", "Frau", "Hund", "sieht", "hört", "geht's", "dort,", "„hier“", "heute"),
}


@pytest.fixture
def tokenize(tmp_path, experiment):
    """Return a function that tokenises numbered sentences. One of the training sentences is empty."""

    def tokenize(split, counts, **options):
        draw = random.Random(split)
        files = {language: tmp_path / f"{split}.{language}" for language in WORDS}
        for (language, file), count in zip(files.items(), counts, strict=True):
            lines = [" ".join(draw.choices(WORDS[language], k=draw.randint(2, 9))) + f" {n}!" for n in range(count)]
            file.write_text("\n".join([*lines, "" if language == "de" else "a", ""]), "utf-8")
        corpora, data = [(files["en"], files["de"])], Data(tmp_path / "data")
        tokenize_split(data, split, corpora, tuple(WORDS), experiment.preprocessing, processes=1, **options)

    return tokenize


@pytest.fixture
def data(tmp_path, tokenize, experiment):
    data = Data(tmp_path / "data")
    tokenize("train", (99, 99), clean=True)
    tokenize("dev", (19, 19))
    learn_vocabulary(data, 60, ("en", "de"), experiment.preprocessing)
    return data


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "uk"), ("uk", "en")])
def test_subwords_of_raw_text_do_not_mix_letters_with_punctuation(tmp_path, experiment, languages):
    """Moses has already split its text. Languages that default to raw text need a split on either side."""
    data = Data(tmp_path)
    for side in SIDES:
        data.tokens("train", side).write_text("so! go! no! to!\n" * 9, "utf-8")
    learn_vocabulary(data, 14, languages, experiment.preprocessing)
    mixed = [piece for piece in Subwords(data.vocabulary).pieces if re.search(r"\w!", piece)]
    assert bool(mixed) == (languages == ("en", "de"))


@pytest.mark.parametrize("split", ["dev", "test"])
def test_what_is_too_long_to_be_translated_is_named_before_it_is_learned_for(data, tokenize, split):
    """`encode` checks the dev set. A test set is checked when it is tokenised, so that no training waits for it."""

    def measure(longest):
        if split == "dev":
            return encode_splits(data, processes=1, longest=longest)
        return tokenize("test", (19, 19), vocabulary=data.vocabulary, longest=longest)

    measure(100)
    lengths = list(map(len, Subwords(data.vocabulary).encode(list(read_lines(data.tokens(split, "source"))))))
    measure(max(lengths))
    with pytest.raises(InputError) as caught:
        measure(max(lengths) - 1)
    where = f"{data.tokens(split, 'source')}, line {lengths.index(max(lengths)) + 1}"
    assert str(caught.value).startswith(f"{where}: expected up to {max(lengths) - 1} subwords")


def test_encode_writes_token_arrays_of_the_text_and_names_them(data):
    encode_splits(data, processes=2)
    learned, manifest = Subwords(data.vocabulary), read_json(data.manifest, Manifest)
    for split, side in itertools.product(("train", "dev"), SIDES):
        array = TokenArray.open(data.ids(split, side), data.offsets(split, side))
        assert learned.decode([sentence.tolist() for sentence in array]) == list(read_lines(data.tokens(split, side)))
        assert manifest["splits"][split][f"{side}_tokens"] == len(array.ids)
    assert manifest["splits"]["train"].items() >= {"read": 100, "kept": 99}.items()
    arrays = [*data.arrays("train"), *data.arrays("dev"), data.vocabulary]
    assert manifest["files"] == {path.name: sha256(path) for path in arrays}
    assert manifest["sha256"] == sum_of(manifest["files"])


@pytest.mark.parametrize("end", [-1, 0])
@pytest.mark.parametrize("kind", ["ids", "offsets"])
def test_what_is_no_token_array_is_named(data, kind, end):
    encode_splits(data, processes=1)
    arrays = data.ids("dev", "source"), data.offsets("dev", "source")
    path = data.folder / f"dev.source.{kind}"
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(InputError, match=rf"{arrays[0]} and {arrays[1]}: not a token array: "):
        TokenArray.open(*arrays)


def test_a_reused_vocabulary_has_the_stated_size(data, tmp_path):
    other = Data(tmp_path / "other")
    other.folder.mkdir()
    reuse_vocabulary(other, data.vocabulary, 60)
    assert other.vocabulary.read_bytes() == data.vocabulary.read_bytes()
    with pytest.raises(InputError, match=rf"^{data.vocabulary}: expected 61 subwords \(vocabulary\), found 60$"):
        reuse_vocabulary(other, data.vocabulary, 61)


def test_what_does_not_fit_together_is_refused(data, tokenize):
    with pytest.raises(InputError, match=r"found: .*train\.en has 10, .*train\.de has 9"):
        tokenize("train", (9, 8))
    text = data.tokens("dev", "target")
    text.write_text("\n".join(list(read_lines(text))[:-1]), "utf-8")
    with pytest.raises(InputError, match=rf"^{text}: damaged, or replaced after {data.counts('dev')} was written"):
        encode_splits(data, processes=1)
    data.counts("dev").write_text('{"kept": 20}')
    with pytest.raises(InputError, match=rf"^{data.ids('dev', 'target')}: expected 20 sentences, found 19$"):
        encode_splits(data, processes=1)
    assert not data.manifest.exists()


def test_unseen_pairs_share_no_reference_with_a_training_pair(tmp_path, caplog):
    """Only a whole pair counts as seen: a known source or target alone does not."""
    data, reference = Data(tmp_path), tmp_path / "test.de"
    pairs = {
        "train": [("one", "eins"), ("two", "zwei"), ("four", "vier")],
        "test": [
            ("two", "zwei"),
            ("one", "einer"),
            ("pair", "zwei"),
            ("1", "eins"),
            ("five", "fünf"),
            ("five", "fünf"),
        ],
    }
    for split, text in pairs.items():
        for side, lines in zip(SIDES, zip(*text, strict=True), strict=True):
            data.tokens(split, side).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    reference.write_text("Zwei.\nEiner.\nZwei.\nEins.\nFünf.\nFünf.\n", "utf-8")
    with caplog.at_level("INFO"):
        write_unseen(data, reference)
    assert list(read_lines(data.unseen)) == ["Einer.", "Eins.", "Fünf.", "Fünf."]
    assert caplog.messages == [f"{data.folder / 'test'}: 1 of 6 test pairs are also training pairs"]
