"""What analyses share: the sentences, their scores, and refusals; and the subcommand that runs them."""

import json
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from support.analysing import PAIRS
from support.toy import random_lines, write_text

from transformer.commands import probe
from transformer.config.experiment import load, save
from transformer.evaluation.scores import describe
from transformer.evaluation.subject import bleu_of, open_subject
from transformer.files import InputError
from transformer.model.packed import POSITIONS

pytestmark = pytest.mark.usefixtures("on_the_processor")


def opened(place, sentences=PAIRS):
    input = SimpleNamespace(source=place / "dev.en", target=place / "dev.de")
    return open_subject(input, SimpleNamespace(run=place / "run", sentences=sentences))


def test_score_of_known_sentences():
    """Half of the words of the references are written, all in their places: BLEU is the brevity penalty, exp(1 - 2)."""
    scores = bleu_of(["a b c d"], ["a b c d e f g h"], "en")
    assert scores["bleu"] == pytest.approx(100 * 2.718281828**-1)
    assert scores["length_ratio"] == 0.5
    assert set(scores["draws"]) == {36.788}
    with pytest.raises(InputError, match=r"BLEU: expected words in the references, found 1 blank lines$"):
        bleu_of(["a"], [""], "en")


def test_sentences_are_drawn_at_equal_distances(place):
    subject = opened(place, 4)
    lines = (place / "dev.en").read_text().splitlines()
    assert subject.sources == subject.references == [lines[10], lines[20], lines[30], lines[40]]


def test_the_subcommand_writes_the_record(place, tmp_path):
    files = {"run": "run", "source": "dev.en", "target": "dev.de"}
    words = [word for name, file in files.items() for word in (f"--{name}", str(place / file))]
    options = ["--beams", "1", "--sentences", "8", "--threads", "1", "--output", str(tmp_path / "smoothing.json")]
    probe.main(["smoothing", *words, *options])
    content = json.loads((tmp_path / "smoothing.json").read_text())
    assert content["run"] == describe(place / "run", None)
    assert (content["language"], content["sentences"], len(content["beams"])) == ("de", 8, 1)


def shorter(own):
    write_text(own / "dev.de", random_lines(2, PAIRS - 1))


def emptied(own):
    for language in ("en", "de"):
        write_text(own / f"dev.{language}", [])


def too_long(language):
    def change(own):
        lines = (own / f"dev.{language}").read_text().splitlines()
        write_text(own / f"dev.{language}", [*lines[:30], "ab " * 2000, *lines[31:]])

    return change


def of_another_training(own):
    path = own / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": "another"}))


def of_another_size(own):
    path = own / "run" / "experiment.yaml"
    experiment = load(path)
    save(replace(experiment, model=replace(experiment.model, d_ff=65)), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shorter, rf"expected as many lines on both sides.*dev.en has {PAIRS}.*dev.de has {PAIRS - 1}"),
        (emptied, "expected sentence pairs, found none"),
        # The model has no position for the last token; on the source side, there is room for the translation.
        (too_long("en"), rf"dev.en, line 31: expected {POSITIONS - 5} subwords at most, found "),
        (too_long("de"), rf"dev.de, line 31: expected {POSITIONS} subwords at most, found "),
        (of_another_training, "average.safetensors: expected weights of the training another"),
        (of_another_size, r"feed_forward.inner.bias: expected shape \(65,\), found \(64,\)"),
    ],
)
def test_bad_input_is_refused(own, change, message):
    change(own)
    with pytest.raises(InputError, match=message):
        opened(own, 4)
