"""Analyses: single predictions compared with sentences; averages, beams and length groups with the subcommands."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from msgspec.structs import fields, replace
from support.analysing import PAIRS, STEPS, analyse, by_commands, opened
from support.commands import error
from support.toy import forge, make_data, packed, random_model, random_text, write_text

from transformer.config.experiment import PAD, POSITIONS, Decoding, load, save
from transformer.data.corpus import Subwords
from transformer.data.preprocessing import encode_splits
from transformer.evaluation.analyses import ANALYSES
from transformer.evaluation.analyses.lengths import _join_until, _Sentence, longest_of
from transformer.evaluation.analyses.smoothing import _calibration
from transformer.evaluation.evaluated_run import EvaluatedRun
from transformer.evaluation.significance import limits
from transformer.layout import Data
from transformer.model import weights
from transformer.storage.checksums import sums_of
from transformer.storage.files import InputError
from transformer.training.loss import perplexity

pytestmark = pytest.mark.usefixtures("on_the_processor")


def dev(place) -> list[str]:
    return (place / "dev.en").read_text().splitlines()


def test_score_of_known_sentences():
    """Half of the references' words are written in their places. BLEU is the brevity penalty exp(1 - 2)."""
    preprocessing = SimpleNamespace(tokenizer=None)
    translator = SimpleNamespace(experiment=SimpleNamespace(preprocessing=preprocessing))
    run = SimpleNamespace(header={"language": "en"}, translator=translator)
    scores = EvaluatedRun.bleu(run, ["a b c d"], ["a b c d e f g h"])
    assert scores["bleu"] == pytest.approx(100 * 2.718281828**-1)
    assert scores["length_ratio"] == 0.5
    assert set(scores["draws"]) == {36.788}
    with pytest.raises(InputError, match=r"BLEU: expected words in the references, found 1 blank lines$"):
        EvaluatedRun.bleu(run, ["a"], [""])
    escaped = ["it &apos;s a dog , is n&apos;t it"], ["it &apos;s a dog , is n&apos;t it ?"]
    preprocessing.tokenizer = "given"
    assert EvaluatedRun.bleu(run, *escaped)["length_ratio"] == 8 / 9


def test_sentences_are_drawn_at_equal_distances(place):
    run = opened(place, 4)
    assert run.sources == run.references == [dev(place)[index] for index in (10, 20, 30, 40)]


def test_blank_pairs_are_left_out(own):
    """A third of the pairs is blank. Line numbers count them."""
    rest = [line if number % 3 else " " for number, line in enumerate(dev(own))]
    write_text(own / "dev.de", rest)
    write_text(own / "dev.en", ["", *rest[1:]])
    assert opened(own, PAIRS).sources == [line for line in rest[1:] if line.strip()]
    write_text(own / "dev.de", ["ab " * 2000 if number == 40 else line for number, line in enumerate(rest)])
    with pytest.raises(InputError, match=r"dev.de, line 41: expected "):
        opened(own, PAIRS)
    write_text(own / "dev.de", [""] * len(rest))
    with pytest.raises(InputError, match=r"dev.en and .*dev.de: expected pairs of sentences, found blank lines$"):
        opened(own, PAIRS)


@pytest.mark.parametrize("name", ANALYSES)
def test_an_option_that_an_analysis_needs_is_asked_for(place, name):
    first = next(field.name for field in fields(ANALYSES[name].Settings) if field.required)
    files = ["--run", place / "run", "--source", place / "dev.en", "--target", place / "dev.de", "--output", "none"]
    assert error("analyse", name, *files) == f"{name}: missing key '{first}'"


def too_long(language):
    def change(own):
        lines = (own / f"dev.{language}").read_text().splitlines()
        write_text(own / f"dev.{language}", [*lines[:30], "ab " * 2000, *lines[31:]])

    return change


def of_another_training(own):
    path = own / "run" / "average.safetensors"
    tensors, header = weights.load_tensors(path)
    weights.save_tensors(path, tensors, header | {"digest": "another"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # The model has no position for the last token. On the source side, the translation fits.
        (too_long("en"), rf"dev.en, line 31: expected up to {POSITIONS - 5} subwords, found "),
        (too_long("de"), rf"dev.de, line 31: expected up to {POSITIONS} subwords, found "),
        (of_another_training, r"average.safetensors: expected weights of the training \w+, found another"),
    ],
)
def test_bad_input_is_refused(own, change, message):
    change(own)
    with pytest.raises(InputError, match=message):
        opened(own, 4)


# Averaging and smoothing


@pytest.fixture(scope="module")
def averages(place):
    return analyse("averaging", opened(place), checkpoints=[1, 2, 3, 4])["averages"]


@torch.no_grad()
def test_predictions_do_not_depend_on_the_batch():
    model, text = random_model(1), random_text(2, 23)
    predictions = EvaluatedRun.predict(SimpleNamespace(text=text), model)
    expected = []
    for source, labels in zip(text.source, text.target, strict=True):
        p = (model(packed([source]), packed([[PAD, *labels[:-1]]])) @ model.embedding.weight.T).softmax(dim=1)
        expected += [
            (-float(row[label].log()), float(row.max()), int(row.argmax()) == label)
            for row, label in zip(p, labels.tolist(), strict=True)
        ]
    losses, confidence, correct = zip(*expected, strict=True)
    assert predictions.losses == pytest.approx(losses, rel=1e-4)
    assert predictions.confidence == pytest.approx(confidence, rel=1e-4)
    assert predictions.correct.tolist() == list(correct)
    assert 0 < sum(correct) < len(correct)
    assert predictions.perplexity == pytest.approx(perplexity(np.mean(losses)), rel=1e-4)


@pytest.mark.parametrize("count", [1, 3])
def test_an_average_translates_as_by_the_commands(averages, own, tmp_path, count):
    """Three of the four requested checkpoints exist. The last perplexity of the training belongs to the last one."""
    assert [entry["steps"][0] for entry in averages] == [STEPS, STEPS - 10, STEPS - 20]
    trained = json.loads((own / "run" / "run.json").read_text())
    assert averages[0]["perplexity"] == pytest.approx(trained["dev_perplexity"])
    run = own / "run"
    last = sorted((run / "checkpoints").iterdir())[-count:]
    forge(run)
    weights.save_tensors(run / "average.safetensors", *weights.average(last))
    entry, expected = averages[count - 1], by_commands(run, (dev(own), dev(own)), tmp_path)
    assert {key: entry[key] for key in expected} == expected
    assert 0 < entry["bleu"] < 100


def test_missing_or_foreign_checkpoints_are_refused(own):
    for path in sorted((own / "run" / "checkpoints").iterdir())[:-1]:
        path.unlink()
    with pytest.raises(InputError, match=r"/checkpoints: expected 2 checkpoints at least, found 1$"):
        analyse("averaging", opened(own), checkpoints=[2, 10])
    tensors, header = weights.load_tensors(own / "run" / "last.safetensors")
    weights.save_tensors(own / "run" / "checkpoints" / "00000001.safetensors", tensors, header | {"digest": "another"})
    with pytest.raises(InputError, match=r"/00000001\.safetensors: expected weights of the training \w+, found anoth"):
        analyse("averaging", opened(own), checkpoints=[1])


def test_calibration_by_hand():
    """Two tokens in (0.9, 1], two in (0.2, 0.3], one in (0.5, 0.6]. A certainty may slightly exceed 1."""
    found = _calibration(np.array([0.95, 0.25, 0.55, 0.91, 0.3]), np.array([1, 1, 1, 0, 0]))
    assert found["error"] == pytest.approx((2 * (0.93 - 0.5) + 2 * (0.5 - 0.275) + 1 - 0.55) / 5)
    assert (found["confidence"], found["accuracy"]) == pytest.approx((2.96 / 5, 3 / 5))
    assert [entry["tokens"] for entry in found["bins"]] == [0, 0, 2, 0, 0, 1, 0, 0, 0, 2]
    assert found["bins"][2] == pytest.approx({"tokens": 2, "confidence": 0.275, "accuracy": 0.5})
    assert found["bins"][0] == {"tokens": 0, "confidence": None, "accuracy": None}
    ends = _calibration(np.array([1.0, 1 + 1e-7, 0.1]), np.array([1, 1, 0]))
    assert [entry["tokens"] for entry in ends["bins"]] == [1, *[0] * 8, 2]


def test_smoothing_has_the_beams_of_the_subcommands(averages, place, tmp_path):
    found = analyse("smoothing", opened(place), beams=[1, 5])
    for entry, beam in zip(found["beams"], (1, 5), strict=True):
        assert entry == {"beam": beam} | by_commands(place / "run", (dev(place), dev(place)), tmp_path, beam=beam)
    assert (found["epsilon_ls"], found["perplexity"]) == (0.1, averages[2]["perplexity"])
    low, high = limits(found["perplexity_draws"])
    assert low < found["perplexity"] < high
    tokens = sum(entry["tokens"] for entry in found["calibration"]["bins"])
    assert tokens == np.fromfile(place / "data" / "dev.target.offsets", dtype="<i8")[-1]


def test_tuning_has_every_beam_with_every_alpha(place, tmp_path):
    found = analyse("tuning", opened(place), beams=[1, 5], alphas=[0.0, 0.9])
    assert [(entry["beam"], entry["alpha"]) for entry in found["searches"]] == [(1, 0.0), (1, 0.9), (5, 0.0), (5, 0.9)]
    for entry in found["searches"]:
        search = {"beam": entry["beam"], "alpha": entry["alpha"]}
        assert entry == search | by_commands(place / "run", (dev(place), dev(place)), tmp_path, **search)


# Length


def test_groups_need_a_sentence_each(place):
    with pytest.raises(InputError, match=r"^expected 4 sentences at least, one for each group, found 3$"):
        analyse("lengths", opened(place, 3), times=[1])


@pytest.fixture(scope="module")
def found(place):
    return analyse("lengths", opened(place), times=[1, 2], quantile=1.0)


def counter(place):
    """Return a function that counts subwords and EOS. The toy's text is already tokenised."""
    vocabulary = Subwords(place / "run" / "vocabulary.model")
    return lambda text: len(vocabulary.processor.encode(text)) + 1


def longest(place) -> int:
    return max(map(counter(place), (place / "data" / "train.source.tok").read_text().splitlines()))


def test_groups_agree_with_the_text_and_with_the_subcommands(found, place, tmp_path):
    count, lines = counter(place), dev(place)
    ordered = sorted(lines, key=count)
    texts = [ordered[:11], ordered[11:21], ordered[21:31], ordered[31:]]
    within, twice, text = [[]], [], ""
    for line in lines:
        if count(" ".join([*within[-1], line])) > longest(place):
            within.append([])
        within[-1].append(line)
        text = f"{text} {line}".strip()
        if count(text) >= 2 * longest(place):
            twice.append(text)
            text = ""
    texts += [[" ".join(parts) for parts in within if len(parts) > 1], twice]
    assert (found["positions"], found["longest"], found["skipped"]) == ("sinusoid", longest(place), 0)
    assert [group["times"] for group in found["groups"]] == [None] * 4 + [1, 2]
    for group, text in zip(found["groups"], texts, strict=True):
        expected = by_commands(place / "run", (text, text), tmp_path)
        assert group["sentences"] == len(text)
        assert group["tokens"] == pytest.approx(np.mean([count(line) for line in text]))
        assert {key: group[key] for key in expected} == expected
    assert max(group["bleu"] for group in found["groups"]) > 0


def test_the_longest_is_one_that_was_learned_from(place, tmp_path):
    """A pair that fits into no batch is left out of training, even if only its target is too long."""
    data = make_data(tmp_path / "data", ["ab " * POSITIONS, "ab cd ab", "ab", "ab cd"], ["ab"] * 5)
    lines = (data / "train.source.tok").read_text().splitlines()
    write_text(data / "train.target.tok", [lines[0], lines[0], *lines[2:]])
    counts = json.loads((data / "train.json").read_text())
    (data / "train.json").write_text(json.dumps(counts | {"files": sums_of(data.glob("train.*.tok"))}))
    encode_splits(Data(data), processes=1)
    found = analyse("lengths", opened(place, data=data), times=[1], quantile=1.0)
    assert found["longest"] == counter(place)("ab cd")


def test_the_longest_may_be_that_of_the_shorter_sentences(place):
    """Among millions of training sentences, some are so long that three times their tokens exceed the positions."""
    text = (place / "data" / "train.source.tok").read_text().splitlines()
    found = analyse("lengths", opened(place), times=[1, 2], quantile=0.5)
    assert found["longest"] == sorted(map(counter(place), text))[len(text) // 2] < longest(place)
    assert (longest_of(found["quantile"]), longest_of(1.0)) == ("the longest of the shortest 50 %", "the longest")


def test_joined_sentences_without_positions_are_skipped_and_counted(own, found):
    """Only twice the longest length fits: no sentences of three times this length are left, and few of twice."""
    decoding = load(own / "run" / "decoding.yaml", Decoding)
    changes = {"beam_size": 1, "length_penalty": 0.0, "extra_length": POSITIONS - 2 * longest(own)}
    save(replace(decoding, **changes), own / "run" / "decoding.yaml")
    short = analyse("lengths", opened(own), times=[1, 2, 3], quantile=1.0)
    groups = {group["times"]: group["sentences"] for group in short["groups"]}
    once, twice = (group["sentences"] for group in found["groups"][4:])
    assert (3 in groups, groups[1]) == (False, once)
    thrice = len(_join_until([_Sentence(line, line, 0) for line in dev(own)], 3 * longest(own), counter(own)))
    assert short["skipped"] == (twice - groups.get(2, 0)) + thrice > thrice > 0
