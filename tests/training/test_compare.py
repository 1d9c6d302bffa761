"""Is a run on track? One with another seed is; each mistake, made for real in a tiny training, is named."""

import json
import math
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.toy import PREPARATION, make_experiment, make_run

from transformer import __main__
from transformer.config.experiment import PAD
from transformer.data.corpus import SIDES
from transformer.model import transformer as model
from transformer.model.transformer import DecoderLayer, Embedding, EncoderLayer, Residual, SelfAttention, Transformer
from transformer.stages import encode, generate, tokenize, train, vocabulary
from transformer.training import loop as training
from transformer.training.loop import Run
from transformer.training.optimizer import learning_rate
from transformer.training.trajectory import Comparison, read_log

SPLITS = {"train": (0, 6000), "dev": (20000, 500)}  # of the grammar's stream: skip, take
ROWS = 400


pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The demo's corpus, sentences of up to eight words: short ones are learned in seconds."""
    folder = tmp_path_factory.mktemp("en-de")
    preparation = json.dumps(vars(PREPARATION) | {"max_words": 8})
    for split, (skip, take) in SPLITS.items():
        corpus = folder / f"corpus-{split}"
        generate.main(["--seed", "1", "--skip", str(skip), "--take", str(take), "--output", str(corpus)])
        sides = ["--source", f"{corpus}.en", "--target", f"{corpus}.de", "--languages", "en", "de", "--clean"]
        tokenize.main([*sides, "--preparation", preparation, "--processes", "1", "--output", str(folder / split)])
    return encoded(folder, ROWS)


def encoded(folder, size):
    """The folder of a task, with a vocabulary of its own."""
    text = [str(folder / f"train.{side}.tok") for side in SIDES]
    model = str(folder / "vocabulary.model")
    vocabulary.main(["--text", *text, "--size", str(size), "--sentences", "10000", "--output", model])
    encode.main(["--data", str(folder), "--splits", *SPLITS, "--processes", "1"])
    return folder


def do_train(folder, data, seed=1, sentences=0, model=None, **settings):
    """A run of one narrow layer each; `sentences` are translated at the end."""
    sizes = {"N": 1, "d_model": 64, "d_ff": 256, "h": 8, "d_k": 8, "d_v": 8, "embedding_rows": ROWS} | (model or {})
    running = {"log_every": 30, "evaluate_every": 1000, "bleu_sentences": sentences, "save_every": 1000}
    tokens = {"source_tokens": 1000, "target_tokens": 1000, "warmup_steps": 140, "averaged_checkpoints": 1}
    experiment = make_experiment(seed=seed, model=sizes, running=running, **tokens | settings)
    run = make_run(folder / "1", experiment)
    train.main([str(run), "--data", str(data), "--threads", "1"])
    return run


@pytest.fixture(scope="module")
def reference(tmp_path_factory, data):
    return do_train(tmp_path_factory.mktemp("reference"), data, steps=180, sentences=50)


def compare(run, reference, capsys):
    """What is printed, and the exit code."""
    capsys.readouterr()
    code = 0
    try:
        __main__.main(["compare", str(run), str(reference)])
    except SystemExit as exit:
        code = exit.code
    return capsys.readouterr().out, code


def looks(run, reference, capsys):
    """What a run that is off the trajectory looks like, line by line."""
    page, code = compare(run, reference, capsys)
    assert code == 1, page
    assert "\noff the expected trajectory from step " in page
    return [line.removeprefix("looks like ") for line in page.splitlines() if line.startswith("looks like ")]


@pytest.mark.slow
def test_a_right_run_with_another_seed_is_on_track(tmp_path, data, reference, capsys):
    run = do_train(tmp_path, data, seed=2, steps=180, sentences=50)
    page, code = compare(run, reference, capsys)
    assert code == 0
    assert page.splitlines()[-1] == "on the expected trajectory, up to step 180"
    assert "looks like" not in page
    assert "settings that differ" not in page
    assert [line.split()[0] for line in page.splitlines()[2:6]] == ["1", "60", "90", "120"]


@pytest.mark.slow
def test_no_mask(tmp_path, data, reference, monkeypatch, capsys):
    init = SelfAttention.__init__
    monkeypatch.setattr(SelfAttention, "__init__", lambda self, config, causal: init(self, config, causal=False))
    run = do_train(tmp_path, data, steps=180, sentences=50)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a leak in the mask, or a decoder whose input is not shifted: at step 180, training perp")
    assert "but greedy dev BLEU " in line


@pytest.mark.slow
def test_memory_that_the_decoder_does_not_get(tmp_path, data, reference, monkeypatch, capsys):
    encoder = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, source: 0 * encoder(self, source))
    run = do_train(tmp_path, data, steps=180, sentences=50)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a decoder that learns nothing from the source, or pairs that do not belong together: ")


@pytest.mark.slow
def test_dev_set_in_another_vocabulary(tmp_path, data, reference, capsys):
    mixed, other = (shutil.copytree(data, tmp_path / name) for name in ("mixed", "other"))
    encoded(other, 300)
    for path in other.glob("dev.*.*"):
        shutil.copy(path, mixed)
    run = do_train(tmp_path, mixed, steps=180)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a dev set that was encoded by another vocabulary, or whose sides are mixed up: at step 180")


@pytest.mark.slow
def test_another_direction(tmp_path, data, reference, capsys):
    """English is shorter than German, so that the batches' sides fill otherwise."""
    there, back = data, shutil.copytree(data, tmp_path / "de-en")
    for path in there.glob("*.source.*"):
        other = path.name.replace("source", "target")
        shutil.copy(path, back / other)
        shutil.copy(there / other, back / path.name)
    (line,) = looks(do_train(tmp_path, back, steps=30), reference, capsys)
    assert line.startswith("other subwords, another direction, or pairs that do not belong together: ")


@pytest.mark.slow
def test_pre_norm(tmp_path, data, monkeypatch, capsys):
    """In two layers: in one, post-norm's gradients are hardly larger."""
    sizes = {"model": {"N": 2, "d_model": 32, "d_ff": 128, "d_k": 4, "d_v": 4}, "steps": 100, "warmup_steps": 100}
    post_norm = do_train(tmp_path / "post", data, **sizes)

    def encoder_layer(self, x, source):
        one, two = self.residuals
        x = x + one.dropout(self.self_attention(one.norm(x), source))
        return x + two.dropout(self.feed_forward(two.norm(x)))

    def decoder_layer(self, x, target, memory, source):
        one, two, three = self.residuals
        x = x + one.dropout(self.self_attention(one.norm(x), target))
        x = x + two.dropout(self.cross_attention(two.norm(x), target, memory, source))
        return x + three.dropout(self.feed_forward(three.norm(x)))

    monkeypatch.setattr(EncoderLayer, "forward", encoder_layer)
    monkeypatch.setattr(DecoderLayer, "forward", decoder_layer)
    for name in ("encode", "decode"):
        stack = getattr(Transformer, name)
        normed = lambda self, *args, stack=stack: F.layer_norm(stack(self, *args), [self.config.d_model])  # noqa: E731
        monkeypatch.setattr(Transformer, name, normed)
    (line,) = looks(do_train(tmp_path / "pre", data, **sizes), post_norm, capsys)
    assert line.startswith("pre-norm instead of post-norm: gradient norm 0.")


@pytest.mark.slow
def test_layers_that_are_not_normalised(tmp_path, data, reference, monkeypatch, capsys):
    monkeypatch.setattr(Residual, "forward", lambda self, x, sublayer: x + self.dropout(sublayer))
    (line,) = looks(do_train(tmp_path, data, steps=1), reference, capsys)
    assert line.startswith("a LayerNorm missing at the end of a stack, or embeddings that are not N(0, 1/d_model): ")


@pytest.mark.slow
def test_no_positions(tmp_path, data, reference, monkeypatch, capsys):
    monkeypatch.setattr(model, "sinusoids", lambda length, d_model, layout: torch.zeros(length, d_model))
    (line,) = looks(do_train(tmp_path, data, steps=60), reference, capsys)
    assert line.startswith("no positional encoding: first plain loss ")


@pytest.mark.slow
def test_embeddings_that_are_not_scaled(tmp_path, data, reference, monkeypatch, capsys):
    def forward(self, ids, positions, words=None):
        tokens = F.embedding(ids, self.weight) * (ids != PAD).unsqueeze(-1)
        return tokens + F.embedding(positions, self.position_table)

    monkeypatch.setattr(Embedding, "forward", forward)
    (line,) = looks(do_train(tmp_path, data, steps=180, sentences=50), reference, capsys)
    assert line.startswith("embeddings without their sqrt(d_model), or no residual connections: at step 180, ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "reading"),
    [
        (lambda step, d_model, warmup: 2 * learning_rate(step, d_model, warmup), "a factor of 2 (d_model 16, not 64)"),
        (lambda step, d_model, warmup: learning_rate(step, 1, warmup), "d_model^-0.5 left out (d_model 64)"),
        (lambda step, d_model, warmup: learning_rate(step, d_model, 20), "20 warm-up steps, not 140"),
        (lambda step, d_model, warmup: learning_rate(step, d_model, 1), "no warm-up"),
    ],
    ids=["factor", "d_model", "warm-up", "no warm-up"],
)
def test_rate(tmp_path, data, reference, monkeypatch, capsys, rate, reading):
    monkeypatch.setattr(training, "learning_rate", rate)
    (line,) = looks(do_train(tmp_path, data, steps=30), reference, capsys)
    assert line.startswith("another rate: ")
    assert reading in line


@pytest.mark.slow
def test_loss_per_sentence(tmp_path, data, reference, monkeypatch, capsys):
    """Its gradient is as many times as large as a sentence has target tokens: seven or eight here."""
    per_token = Run.losses

    def losses(self, indices):
        smoothed, plain = per_token(self, indices)
        return smoothed.detach() + (smoothed - smoothed.detach()) * self.text.lengths[1, indices].mean(), plain

    monkeypatch.setattr(Run, "losses", losses)
    (line,) = looks(do_train(tmp_path, data, steps=60), reference, capsys)
    start = "a loss that is not per target token, or gradients summed where they should be averaged: gradient norm "
    assert line.startswith(start)
    lengths = read_log(reference).lines["batch_target_tokens"].iloc[-1]
    assert 5 < float(line.removeprefix(start).split()[0]) < lengths / 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "changed", "start"),
    [
        (
            {"steps": 120, "epsilon_ls": 0.0},
            "training.epsilon_ls 0.0 (reference 0.1)",
            "another label smoothing: adds 0.00 ",
        ),
        (
            {"steps": 30, "source_tokens": 250, "target_tokens": 250},
            "training.source_tokens 250 (reference 1000), training.target_tokens 250 (reference 1000)",
            "another batch size: 0.25 times the target tokens: ",
        ),
        (
            {"steps": 1, "model": {"embedding_rows": 8 * ROWS}},
            "model.embedding_rows 3200 (reference 400), model.output_rows 3200 (reference 400)",
            "another vocab",
        ),
    ],
    ids=["smoothing", "batch", "vocabulary"],
)
def test_settings(tmp_path, data, reference, capsys, settings, changed, start):
    run = do_train(tmp_path, data, **settings)
    (line,) = looks(run, reference, capsys)
    assert line.startswith(start)
    assert f"\nsettings that differ: {changed}\n" in compare(run, reference, capsys)[0]


# Logs that are made up.


def write_log(path, steps, **changes):
    """A line for each of `steps`; a change is a number or a function of the step."""
    usual = {"smoothed_loss": 5.0, "perplexity": 90.0, "rate": equation_3(), "gradient_norm": 1.0}
    usual |= {"batch_source_tokens": 900.0, "batch_target_tokens": 1000.0}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for step in steps:
            values = {key: value(step) if callable(value) else value for key, value in (usual | changes).items()}
            file.write(json.dumps({"step": step} | values) + "\n")
    return path


def equation_3(d_model=64, warmup=50, times=1.0):
    return lambda step: times * learning_rate(step, d_model, warmup)


def test_means_are_taken_over_the_same_steps(tmp_path):
    """A reference that logs less often: its line at step 4 is the mean of steps 2 to 4."""
    losses = {1: 8.0, 2: 6.0, 3: 5.0, 4: 1.0}
    ours = write_log(tmp_path / "a.jsonl", losses, smoothed_loss=losses.get, gradient_norm=losses.get)
    theirs = write_log(tmp_path / "b.jsonl", [1, 4], smoothed_loss={1: 8.0, 4: 4.0}.get, gradient_norm=2.0)
    found = Comparison(read_log(ours), read_log(theirs))
    assert found.ours["smoothed_loss"].to_dict() == {1: 8.0, 4: 4.0}
    assert found.ours["gradient_norm"].to_dict() == {1: 8.0, 4: 4.0}
    assert found.ours["rate"].to_dict() == pytest.approx({1: learning_rate(1, 64, 50), 4: learning_rate(4, 64, 50)})
    assert found.reference["smoothed_loss"].to_dict() == {1: 8.0, 4: 4.0}
    assert not found.wrong["smoothed_loss"].any()
    assert found.off == 1  # by the gradient norm


def test_a_run_in_training_is_read_from_its_newest_state(tmp_path, capsys):
    """While a line is being written."""
    reference = write_log(tmp_path / "reference.jsonl", range(10, 101, 10))
    old = write_log(tmp_path / "1" / "state" / "aa" / "metrics.jsonl", range(10, 101, 10), smoothed_loss=9.0)
    os.utime(old, (time.time() - 60, time.time() - 60))
    new = write_log(tmp_path / "1" / "state" / "bb" / "metrics.jsonl", range(10, 51, 10))
    new.write_text(new.read_text() + '{"step": 60, "smoo')
    page, code = compare(tmp_path / "1", reference, capsys)
    assert (page.splitlines()[-1], code) == ("on the expected trajectory, up to step 50", 0)


def test_a_log_without_gradient_norms_is_compared_by_the_rest(capsys):
    """The record on Multi30k is of before they were logged."""
    run = Path(__file__).parents[2] / "results/record/multi30k/runs/en-de/base/1"
    page, code = compare(run, run / "metrics.jsonl", capsys)
    assert code == 0
    assert page.splitlines()[0].split("  ")[-1].strip() == "dev BLEU"
    assert page.splitlines()[2].split() == ["50", "0.00014", "(0.00014)", "8.168", "(8.168)"]
    assert page.splitlines()[-1] == "on the expected trajectory, up to step 6000"


@pytest.mark.parametrize(
    ("rate", "reading"),
    [
        (lambda step: 0.001, "not equation 3, which rises with the step, 1 at first, and falls with its root"),
        (lambda step: learning_rate(step, 64, 50) if step > 1 else 0.0, "; not equation 3, "),
        (lambda step: 0.0, "0 times the reference's at all steps; not equation 3, "),
        (lambda step: learning_rate(4 * step, 64, 50), "as with 4 steps of the schedule in every step"),
        (equation_3(warmup=800), "as with 800 warm-up steps, not 50"),
        (equation_3(warmup=25, times=3), "as with a factor of 3, and 25 warm-up steps, not 50"),
        (
            equation_3(times=0.5),
            "0.5 times the reference's at all steps; as with a factor of 0.5 (d_model 256, not 64)",
        ),
    ],
    ids=["constant", "counted from 0", "none", "stepped for each piece", "long warm-up", "both", "factor"],
)
def test_readings_of_the_rate(tmp_path, capsys, rate, reading):
    run = write_log(tmp_path / "run.jsonl", range(1, 200), rate=rate)
    (line,) = looks(run, write_log(tmp_path / "reference.jsonl", range(1, 200)), capsys)
    assert reading in line


def test_what_the_warm_up_cannot_tell(tmp_path, capsys):
    """Eight times the rate is the root of d_model left out, or a quarter of the warm-up, until that is over."""
    reference = write_log(tmp_path / "reference.jsonl", range(1, 200), rate=equation_3(warmup=80))
    run = write_log(tmp_path / "run.jsonl", range(1, 11), rate=equation_3(d_model=1, warmup=80))
    (line,) = looks(run, reference, capsys)
    assert line.endswith("; as with d_model^-0.5 left out (d_model 64) or 20 warm-up steps, not 80")
    short = write_log(tmp_path / "short.jsonl", range(1, 11), rate=equation_3(warmup=80))
    (line,) = looks(run, short, capsys)
    assert line.endswith("; as with a factor of 8 or 0.25 times the warm-up steps")


def test_a_run_that_is_off_for_no_usual_reason(tmp_path, capsys):
    reference = write_log(tmp_path / "reference.jsonl", range(50, 251, 50))
    losses = {"smoothed_loss": lambda step: 5 + step // 200, "perplexity": lambda step: 90 * math.exp(step // 200)}
    run = write_log(tmp_path / "run.jsonl", range(50, 251, 50), **losses)
    assert looks(run, reference, capsys) == ["none of the usual mistakes, as far as step 250 shows"]
    page, _ = compare(run, reference, capsys)
    assert "off the expected trajectory from step 200" in page
    assert [line.split()[0] for line in page.splitlines() if "!" in line] == ["200", "250", "reference"]


def error(*argv):
    """The one line that bad input ends with."""
    with pytest.raises(SystemExit) as exit:
        __main__.main(["compare", *map(str, argv)])
    message = exit.value.code
    assert "\n" not in message
    return message.removeprefix("transformer compare: error: ")


def test_logs_without_a_common_step_are_named_with_their_ranges(tmp_path):
    run, reference = write_log(tmp_path / "a.jsonl", range(5, 25, 5)), write_log(tmp_path / "b.jsonl", (30, 60))
    assert error(run, reference) == f"no common steps: steps 5 to 20 in {run}, steps 30 to 60 in {reference}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": expected the log of a training, found no smoothed_loss"),
        ('{"step": 1, "dev_bleu": 0.0}\n', ": expected the log of a training, found no smoothed_loss"),
        ('{"step": 1, "smoothed_loss": 5.0}\n', ": expected the log of a training, found no perplexity"),
        ('{"step": 1}\n{"loss": 5}\n', """, line 2: expected a JSON object with a step, found '{"loss": 5}'"""),
        ("step 1\n", ", line 1: expected a JSON object with a step, found 'step 1'"),
        ('{"step": 1, "smoothed_loss": "low"}\n', ": expected numbers: could not convert string to float: 'low'"),
    ],
    ids=["empty", "scores alone", "loss alone", "no step", "not JSON", "not a number"],
)
def test_a_bad_log_is_named(tmp_path, content, message):
    good, bad = write_log(tmp_path / "good.jsonl", (1, 2)), tmp_path / "bad.jsonl"
    bad.write_text(content)
    assert error(bad, good) == f"{bad}{message}"
    assert error(good, bad) == f"{bad}{message}"


def test_a_bad_experiment_is_named(tmp_path):
    log = write_log(tmp_path / "run" / "metrics.jsonl", (1, 2))
    (tmp_path / "run" / "experiment.yaml").write_text("scale")
    assert error(tmp_path / "run", log) == f"{tmp_path}/run/experiment.yaml: expected a mapping, found str"


def test_a_missing_log_is_named(tmp_path):
    log = write_log(tmp_path / "log.jsonl", (1, 2))
    (tmp_path / "run").mkdir()
    assert error(tmp_path / "run", log) == f"{tmp_path}/run: no metrics.jsonl, neither here nor in state/*/"
    assert error(log, tmp_path / "none").startswith(f"{tmp_path}/none: cannot be read: ")
