"""The stages from config.yaml and plain text to what training reads, as they are called, with whatever can be wrong."""

import itertools
import json
import random
from functools import partial

import msgspec
import pytest
import yaml

from transformer.commands import encode, resolve, tokenize, vocabulary
from transformer.config.experiment import Decoding, Experiment, load
from transformer.data.corpus import TokenArray
from transformer.data.subwords import Subwords
from transformer.files import InputError, sha256

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
    return tmp_path / "data"


@pytest.fixture
def run_tokenize(corpora, data, experiment):
    """Call the stage on corpora by name; an option may be replaced."""

    def run(split, names, *flags, **options):
        defaults = {
            "source": [corpora / f"{name}.en" for name in names],
            "target": [corpora / f"{name}.de" for name in names],
            "languages": ["en", "de"],
            "preparation": [json.dumps(msgspec.to_builtins(experiment.preparation))],
            "processes": [1],
            "output": [data / split],
        }
        tokenize.main([*flags, *argv(**defaults | options)])

    return run


def argv(**options) -> list[str]:
    """Return a command line."""
    return [str(word) for name, words in options.items() for word in (f"--{name}", *words)]


def run_vocabulary(data, **options):
    texts = [data / "train.source.tok", data / "train.target.tok"]
    defaults = {"text": texts, "size": [SIZE], "sentences": [1000], "output": [data / "vocabulary.model"]}
    vocabulary.main(argv(**defaults | options))


def run_encode(data, **options):
    encode.main(argv(**{"data": [data], "splits": ["train", "dev"], "processes": [1]} | options))


@pytest.fixture
def tokenized(data, run_tokenize):
    run_tokenize("train", ["news", "talks"], "--clean")
    run_tokenize("dev", ["dev"])
    return data


@pytest.fixture
def with_vocabulary(tokenized):
    run_vocabulary(tokenized)
    return tokenized


# tokenize


def test_tokenize_writes_both_sides_in_order_and_the_counts(data, run_tokenize, capsys):
    run_tokenize("train", ["news", "talks"], "--clean")
    assert json.loads((data / "train.json").read_text()) == {"read": 100, "kept": 99}
    assert capsys.readouterr().out == f"{data}/train: kept 99 of 100 pairs\n"
    for side in ("source", "target"):
        ends = [line.split()[-2:] for line in read(data / f"train.{side}.tok")]
        assert ends == [[str(number), "!"] for number in range(100) if number != 60]


def test_tokenize_refuses_another_number_of_files(run_tokenize, corpora):
    with pytest.raises(InputError, match=r"^2 source files, but 1 target files$"):
        run_tokenize("train", ["news", "talks"], target=[corpora / "news.de"])


def test_tokenize_refuses_what_is_no_json_object(run_tokenize, capsys):
    for preparation, expected in {"{": "not JSON: ", "[]": "expected a JSON object, found []"}.items():
        with pytest.raises(SystemExit):
            run_tokenize("train", ["news"], preparation=[preparation])
        assert f"argument --preparation: {expected}" in capsys.readouterr().err


# vocabulary


def test_vocabulary_has_the_size_asked_for_and_knows_both_languages(with_vocabulary):
    learned = Subwords(with_vocabulary / "vocabulary.model")
    assert len(learned) == SIZE
    text = [line for side in ("source", "target") for line in read(with_vocabulary / f"train.{side}.tok")]
    assert learned.decode(learned.encode(text)) == text


# encode


def test_encode_writes_token_arrays_of_the_text_and_names_them(data, with_vocabulary):
    run_encode(data)
    learned = Subwords(data / "vocabulary.model")
    manifest = json.loads((data / "data.json").read_text())
    for split, side in itertools.product(("train", "dev"), ("source", "target")):
        array = TokenArray.open(data / f"{split}.{side}.ids", data / f"{split}.{side}.offsets")
        assert learned.decode([sentence.tolist() for sentence in array]) == read(data / f"{split}.{side}.tok")
        assert manifest["splits"][split][f"{side}_tokens"] == len(array.ids)
    assert {split: counts["kept"] for split, counts in manifest["splits"].items()} == {"train": 99, "dev": 20}
    assert manifest["files"] == {name: sha256(data / name) for name in manifest["files"]}
    arrays = {path.name for ending in ("ids", "offsets") for path in data.glob(f"*.{ending}")}
    assert set(manifest["files"]) == arrays | {"vocabulary.model"}
    assert len(arrays) == 8


def test_encode_gives_the_same_checksum_twice_and_another_to_other_data(with_vocabulary):
    def checksum():
        run_encode(with_vocabulary)
        return json.loads((with_vocabulary / "data.json").read_text())["sha256"]

    first = checksum()
    assert checksum() == first
    text = with_vocabulary / "dev.target.tok"
    write(text, [*read(text)[:-1], "Mann !"])
    assert checksum() != first


def test_encode_refuses_text_that_is_not_the_one_counted(with_vocabulary):
    write(with_vocabulary / "dev.target.tok", read(with_vocabulary / "dev.target.tok")[:-1])
    with pytest.raises(InputError, match=rf"^{with_vocabulary}/dev.target.ids: expected 20 sentences, found 19$"):
        run_encode(with_vocabulary)
    assert not (with_vocabulary / "data.json").exists()


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("vocabulary.model", "vocabulary.model: cannot be read: No such file"),
        ("dev.json", "dev.json: cannot be read: No such file"),
        ("dev.source.tok", "dev.source.tok: cannot be read: No such file"),
    ],
)
def test_encode_names_what_is_missing(with_vocabulary, missing, expected):
    (with_vocabulary / missing).unlink()
    with pytest.raises(InputError, match=rf"^{with_vocabulary}/{expected}"):
        run_encode(with_vocabulary)


# Both, in parts.

ODD = ["\u2028\x85 here", "there\r", "\ra", "", "\u2029 b", " "]  # and every seventh line is blank, to be cleaned away


@pytest.fixture
def odd(corpora):
    """A corpus whose lines hold characters that end lines elsewhere, one that is cleaned away, and a small one."""
    for language in WORDS:
        lines = [
            f"{line} {end}" if n % 7 else ""
            for n, (line, end) in enumerate(zip(sentences(language, range(60)), itertools.cycle(ODD)))
        ]
        (corpora / f"odd.{language}").write_bytes("\n".join(lines).encode())
        write(corpora / f"blank.{language}", [" "] * 20)
        write(corpora / f"few.{language}", sentences(language, range(9)))
    return ["odd", "blank", "few"]


def content(folder) -> dict[str, bytes]:
    """Return the training set's files and data.json, without the parts."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("train", "data"))}


@pytest.mark.parametrize("number", [2, 99])  # of 99 parts many are empty
def test_parts_make_the_whole_byte_for_byte(data, odd, run_tokenize, number):
    """This holds for the tokenised text and for its encoding with one vocabulary."""
    run_tokenize("dev", ["dev"])
    run_tokenize("train", odd, "--clean")
    run_vocabulary(data)
    run_encode(data)
    whole = content(data)
    assert len(whole) == 8
    for name in whole:
        (data / name).unlink()
    for k in range(1, number + 1):
        run_tokenize("train", odd, "--clean", part=[k, number])
    assert content(data) == {}
    run_tokenize("train", odd, "--clean", parts=[number])
    for k in range(1, number + 1):
        run_encode(data, splits=["train"], part=[k, number])
    run_encode(data, parts=[number])
    assert content(data) == whole
    kept = [json.loads((data / f"parts/{k}-of-{number}/train.json").read_text())["kept"] for k in range(1, number + 1)]
    assert (min(kept) == 0) == (number > 2)  # of some part nothing is left


def test_a_part_names_the_line_of_the_whole_file(run_tokenize, corpora):
    lines = (corpora / "talks.de").read_bytes().splitlines(keepends=True)
    (corpora / "talks.de").write_bytes(b"".join([*lines[:30], b"caf\xe9\n", *lines[31:]]))
    run_tokenize("train", ["news", "talks"], part=[3, 4])
    with pytest.raises(InputError, match=rf"^{corpora}/talks.de, line 31: expected UTF-8, found an invalid byte 4"):
        run_tokenize("train", ["news", "talks"], part=[4, 4])


def test_parts_of_which_nothing_is_left_are_refused_together(data, run_tokenize, corpora):
    for language in WORDS:
        write(corpora / f"blank.{language}", [" ", ""])
    for k in (1, 2):
        run_tokenize("train", ["blank"], "--clean", part=[k, 2])
    with pytest.raises(InputError, match=rf"^{corpora}/blank.en: no pair of 2 is left after cleaning$"):
        run_tokenize("train", ["blank"], "--clean", parts=[2])
    assert content(data) == {}


@pytest.fixture
def in_parts(with_vocabulary, run_tokenize):
    """The training set once more, in two parts that are not yet put together."""
    for k in (1, 2):
        run_tokenize("train", ["news", "talks"], "--clean", part=[k, 2])
        run_encode(with_vocabulary, splits=["train"], part=[k, 2])
    return with_vocabulary


@pytest.mark.parametrize("ending", ["json", "target.tok"])
def test_a_missing_part_of_the_text_is_named(in_parts, run_tokenize, ending):
    path = in_parts / f"parts/2-of-2/train.{ending}"
    path.unlink()
    with pytest.raises(InputError, match=rf"^{path}: cannot be read"):
        run_tokenize("train", ["news", "talks"], parts=[2])


def test_a_part_that_is_not_the_one_counted_is_refused(in_parts, run_tokenize):
    path = in_parts / "parts/1-of-2/train.target.tok"
    write(path, read(path)[:-1])
    with pytest.raises(InputError, match=rf"^{in_parts}/train.target.tok: expected 99 lines, found 98$"):
        run_tokenize("train", ["news", "talks"], parts=[2])


@pytest.mark.parametrize(
    ("damaged", "content", "expected"),
    [
        ("source.ids", None, "parts/2-of-2/train.source.ids: cannot be read: No such file"),
        ("target.offsets", b"", "parts/2-of-2/train.target.offsets: no offsets of a token array: "),
        ("source.ids", b"", r"train.source.ids: expected \d+ tokens, as .*train.source.offsets says, found \d+$"),
        (
            "source.offsets",
            bytes(16),
            "parts/2-of-2/train.source.offsets: expected offsets that grow, found 0 after 0",
        ),
        ("source.offsets", bytes(8), r"train.source.ids: expected \d+ tokens, as .* says, found \d+$"),
    ],
)
def test_a_damaged_part_of_the_tokens_is_refused(in_parts, damaged, content, expected):
    path = in_parts / f"parts/2-of-2/train.{damaged}"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{in_parts}/{expected}"):
        run_encode(in_parts, parts=[2])
    assert not (in_parts / "data.json").exists()


def test_a_part_that_is_none_is_refused(with_vocabulary, run_tokenize):
    for stage in (lambda **part: run_tokenize("train", ["news"], **part), partial(run_encode, with_vocabulary)):
        with pytest.raises(InputError, match=r"^expected a part from 1 to 2, found 3$"):
            stage(part=[3, 2])
    assert not list(with_vocabulary.glob("parts/*/*"))


# resolve


@pytest.fixture
def parts(experiment) -> dict:
    """The fixture's run, four times as wide and three times as deep, as the workflow hands it over."""
    settings = msgspec.to_builtins(experiment)
    row = settings.pop("model") | settings.pop("training")
    wide = {key: 4 * row[key] for key in ("d_model", "d_ff", "d_k", "d_v")} | {"N": 3 * row["N"]}
    optimizer = {key: row.pop(key) for key in ("beta1", "beta2", "epsilon")}
    embedding = {key: row.pop(key) for key in ("embedding_rows", "output_rows")}
    rows = embedding | {"rows": [row | {"h": 99}, wide, {"h": row["h"]}]}
    return settings | rows | {"width": 4, "depth": 3, "optimizer": optimizer}


def test_resolve_writes_the_run(tmp_path, parts, experiment):
    path = tmp_path / "run" / "experiment.yaml"
    resolve.main(["--experiment", json.dumps(parts), "--output", str(path)])
    assert load(path, Experiment) == experiment


def test_resolve_writes_the_decoding(tmp_path):
    path = tmp_path / "run" / "decoding.yaml"
    settings = {"beam": 4, "alpha": 0.6, "extra_length": 50, "batch_tokens": 4096}
    resolve.main(["--decoding", json.dumps(settings), "--output", str(path)])
    assert yaml.safe_load(path.read_text()) == settings
    assert load(path, Decoding) == Decoding(**settings)


def test_resolve_names_what_does_not_fit_and_writes_nothing(tmp_path, parts):
    with pytest.raises(InputError, match=r"^tiny: d_model: 52 cannot be divided by 8$"):
        resolve.main(["--experiment", json.dumps(parts | {"width": 8}), "--output", str(tmp_path / "experiment.yaml")])
    assert list(tmp_path.iterdir()) == []


def test_resolve_takes_a_run_or_a_decoding(capsys):
    for line in (["--output", "x"], ["--experiment", "{}", "--decoding", "{}", "--output", "x"]):
        with pytest.raises(SystemExit):
            resolve.main(line)
    errors = capsys.readouterr().err
    assert "one of the arguments --experiment --decoding is required" in errors
    assert "argument --decoding: not allowed with argument --experiment" in errors


# As a user meets them.


def test_help_is_the_docstring(capsys):
    with pytest.raises(SystemExit) as stopped:
        encode.main(["--help"])
    assert stopped.value.code == 0
    assert encode.__doc__ in capsys.readouterr().out
