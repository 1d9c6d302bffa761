"""The commands from plain text to what training reads, as they are called, with whatever can be wrong."""

import itertools
import json
import random

import msgspec
import pytest
from support.commands import do, error

from transformer.data.corpus import Subwords, TokenArray, read_manifest
from transformer.files import sha256
from transformer.layout import SIDES, Data

SIZE = 60
WORDS = {
    "en": ("a", "man", "woman", "dog", "sees", "hears", "isn't", "there,", '"here"', "today"),
    "de": ("ein", "Mann", "Frau", "Hund", "sieht", "hört", "geht's", "dort,", "„hier“", "heute"),
}


def sentences(language: str, numbers: range) -> list[str]:
    """Return random words with the sentence's number, by which it is recognised after tokenising."""
    source = random.Random(1)
    return [" ".join(source.choices(WORDS[language], k=source.randint(2, 9))) + f" {n}!" for n in numbers]


def write(path, lines):
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return path


def read(path) -> list[str]:
    return path.read_bytes().decode().removesuffix("\n").split("\n")


@pytest.fixture
def corpora(tmp_path):
    """Two corpora to train on and one to watch with, in two languages."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    for name, numbers in {"news": range(60), "talks": range(60, 100), "dev": range(20)}.items():
        for language in WORDS:
            write(folder / f"{name}.{language}", sentences(language, numbers))
    write(folder / "talks.de", ["", *sentences("de", range(61, 100))])  # one empty side, to be cleaned away
    return folder


@pytest.fixture
def data(tmp_path):
    return Data(tmp_path / "data")


@pytest.fixture
def tokenize(corpora, data, experiment):
    """Return the command line that tokenises corpora by name."""
    preparation = json.dumps(msgspec.to_builtins(experiment.preparation))

    def tokenize(split, source, target, *flags, preparation=preparation):
        files = {
            side: [corpora / f"{name}.{language}" for name in names]
            for side, language, names in (("source", "en", source), ("target", "de", target))
        }
        sides = ["--source", *files["source"], "--target", *files["target"], "--languages", "en", "de"]
        return [
            "tokenize",
            *sides,
            "--preparation",
            preparation,
            "--processes",
            "1",
            "--output",
            data.folder / split,
            *flags,
        ]

    return tokenize


@pytest.fixture
def tokenized(data, tokenize):
    do(*tokenize("train", ["news", "talks"], ["news", "talks"], "--clean"))
    do(*tokenize("dev", ["dev"], ["dev"]))
    texts = [data.tokens("train", side) for side in SIDES]
    do("vocabulary", "--text", *texts, "--size", SIZE, "--sentences", 1000, "--output", data.vocabulary)
    return data


@pytest.fixture
def encode(data):
    return ["encode", "--data", data.folder, "--splits", "train", "dev", "--processes", "1"]


def test_tokenize_refuses(tokenize, corpora):
    assert error(*tokenize("train", ["news", "talks"], ["news"])) == "2 source files, but 1 target files"
    assert error(*tokenize("train", ["news"], ["news"], preparation="{")).startswith("--preparation: cannot be")
    write(corpora / "short.de", ["a"])
    expected = f"found: {corpora}/news.en has 60, {corpora}/short.de has 1"
    assert error(*tokenize("train", ["news"], ["short"])).endswith(expected)


def test_encode_writes_token_arrays_of_the_text_and_names_them(tokenized, encode):
    do(*encode)
    learned, manifest = Subwords(tokenized.vocabulary), read_manifest(tokenized.manifest)
    for split, side in itertools.product(("train", "dev"), SIDES):
        array = TokenArray.open(tokenized.ids(split, side), tokenized.offsets(split, side))
        assert learned.decode([sentence.tolist() for sentence in array]) == read(tokenized.tokens(split, side))
        assert manifest["splits"][split][f"{side}_tokens"] == len(array.ids)
    assert {split: counts["kept"] for split, counts in manifest["splits"].items()} == {"train": 99, "dev": 20}
    arrays = [*tokenized.arrays("train"), *tokenized.arrays("dev"), tokenized.vocabulary]
    assert manifest["files"] == {path.name: sha256(path) for path in arrays}


def test_encode_gives_the_same_checksum_twice_and_another_to_other_data(tokenized, encode):
    sums = []
    for text in ("Hund !", "Hund !", "Mann !"):
        write(tokenized.tokens("dev", "target"), [*read(tokenized.tokens("dev", "target"))[:-1], text])
        do(*encode)
        sums.append(read_manifest(tokenized.manifest)["sha256"])
    assert sums[0] == sums[1] != sums[2]


def test_encode_refuses_text_that_is_not_the_one_counted(tokenized, encode):
    write(tokenized.tokens("dev", "target"), read(tokenized.tokens("dev", "target"))[:-1])
    assert error(*encode) == f"{tokenized.ids('dev', 'target')}: expected 20 sentences, found 19"
    assert not tokenized.manifest.exists()
