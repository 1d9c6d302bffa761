"""Is a run on track? Right runs of other seeds are; each mistake, made for real in a tiny training, is named."""

import json
import math
import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from toy import PREPARATION, make_experiment, make_run

from transformer import __main__, training, watch
from transformer.compare import Comparison, read_log
from transformer.corpus import SIDES
from transformer.mistakes import readings, schedule
from transformer.model import DecoderLayer, EncoderLayer, SelfAttention, Transformer
from transformer.optimizer import learning_rate
from transformer.stages import encode, generate, tokenize, train, vocabulary
from transformer.training import Run

SPLITS = {"train": (0, 6000), "dev": (20000, 500)}  # of the grammar's stream: skip, take
ROWS = 400


@pytest.fixture(autouse=True, scope="module")
def on_the_processor():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


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
    running = {"log_every": 60, "evaluate_every": 1000, "bleu_sentences": sentences, "save_every": 1000}
    tokens = {"source_tokens": 1000, "target_tokens": 1000, "warmup_steps": 140, "checkpoint_every": 1}
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


def test_a_right_run_with_another_seed_is_on_track(tmp_path, data, reference, capsys):
    run = do_train(tmp_path, data, seed=2, steps=180, sentences=50)
    page, code = compare(run, reference, capsys)
    assert code == 0
    assert page.splitlines()[-1] == "on the expected trajectory, up to step 180"
    assert "looks like" not in page
    assert "settings that differ" not in page
    assert [line.split()[0] for line in page.splitlines()[2:6]] == ["1", "60", "120", "180"]


def test_no_mask(tmp_path, data, reference, monkeypatch, capsys):
    init = SelfAttention.__init__
    monkeypatch.setattr(SelfAttention, "__init__", lambda self, config, causal: init(self, config, causal=False))
    run = do_train(tmp_path, data, steps=180, sentences=50)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a leak in the mask, or a decoder whose input is not shifted: at step 180, training perp")
    assert "but greedy dev BLEU 0.0 (reference " in line


def test_memory_that_the_decoder_does_not_get(tmp_path, data, reference, monkeypatch, capsys):
    encoder = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, source: 0 * encoder(self, source))
    run = do_train(tmp_path, data, steps=180, sentences=50)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a decoder that learns nothing from the source, or pairs that do not belong together: ")


def test_dev_set_in_another_vocabulary(tmp_path, data, reference, capsys):
    mixed, other = (shutil.copytree(data, tmp_path / name) for name in ("mixed", "other"))
    encoded(other, 300)
    for path in other.glob("dev.*.*"):
        shutil.copy(path, mixed)
    run = do_train(tmp_path, mixed, steps=180)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("a dev set that was encoded by another vocabulary, or whose sides are mixed up: at step 180")


def test_pairs_that_do_not_belong_together(tmp_path, data, reference, capsys):
    """The target side has lost its first line, as happens where one side alone is cleaned."""
    shifted = shutil.copytree(data, tmp_path / "shifted")
    first, rest = (shifted / "train.target.tok").read_text("utf-8").split("\n", 1)
    (shifted / "train.target.tok").write_text(rest + first + "\n", encoding="utf-8")
    encode.main(["--data", str(shifted), "--splits", "train", "--processes", "1"])
    run = do_train(tmp_path, shifted, steps=60)
    (line,) = looks(run, reference, capsys)
    assert line.startswith("other subwords, another direction, or pairs that do not belong together: ")


def test_pre_norm(tmp_path, data, monkeypatch, capsys):
    """In two layers: in one, post-norm's gradients are hardly larger."""
    sizes = {"model": {"N": 2, "d_model": 32, "d_ff": 128, "d_k": 4, "d_v": 4}, "steps": 120, "warmup_steps": 100}
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


@pytest.mark.parametrize(
    ("rate", "reading"),
    [
        (lambda step, d_model, warmup: 2 * learning_rate(step, d_model, warmup), "a factor of 2 (d_model 16, not 64)"),
        (lambda step, d_model, warmup: learning_rate(step, 1, warmup), "d_model^-0.5 left out (d_model 64)"),
        (lambda step, d_model, warmup: learning_rate(step, d_model, 35), "35 warm-up steps, not 140"),
        (lambda step, d_model, warmup: learning_rate(step, d_model, 1), "no warm-up"),
    ],
    ids=["factor", "d_model", "warm-up", "no warm-up"],
)
def test_rate(tmp_path, data, reference, monkeypatch, capsys, rate, reading):
    for module in (training, watch):
        monkeypatch.setattr(module, "learning_rate", rate)
    (line,) = looks(do_train(tmp_path, data, steps=60), reference, capsys)
    assert line.startswith("another rate: ")
    assert reading in line


def test_loss_per_sentence(tmp_path, data, reference, monkeypatch, capsys):
    """Its gradient is as many times as large as a sentence has target tokens: seven or eight here."""
    per_token = Run.losses

    def losses(self, indices):
        smoothed, plain = per_token(self, indices)
        return smoothed.detach() + (smoothed - smoothed.detach()) * self.text.lengths[1, indices].mean(), plain

    monkeypatch.setattr(Run, "losses", losses)
    (line,) = looks(do_train(tmp_path, data, steps=120), reference, capsys)
    start = "a loss that is not per target token, or gradients summed where they should be averaged: gradient norm "
    assert line.startswith(start)
    lengths = read_log(reference).lines["batch_target_tokens"].iloc[-1]
    assert 5 < float(line.removeprefix(start).split()[0]) < lengths / 50


@pytest.mark.parametrize(
    ("settings", "changed", "start"),
    [
        (
            {"steps": 120, "epsilon_ls": 0.0},
            "training.epsilon_ls 0.0 (reference 0.1)",
            "another label smoothing: adds 0.00 ",
        ),
        (
            {"steps": 10, "source_tokens": 250, "target_tokens": 250},
            "training.source_tokens 250 (reference 1000), training.target_tokens 250 (reference 1000)",
            "another batch size: 0.25 times the target tokens: ",
        ),
        (
            {"steps": 1, "model": {"embedding_rows": 8 * ROWS}},
            "model.embedding_rows 3200 (reference 400)",
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
