"""Training: a resumed run equals an uninterrupted run bit for bit, logs and files are complete, the model learns."""

import math
import struct
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.toy import CPU, TABLE_2, TEXT, interrupt, make_experiment, metrics, random_text, start, train
from tensorboardX.proto.event_pb2 import Event, SessionLog

from transformer.model import weights as checkpoints
from transformer.model.cost import Lengths, training_flops
from transformer.storage.files import InputError
from transformer.training.batches import ParallelText, plan_batches
from transformer.training.loop import TrainingError
from transformer.training.loss import batch_losses

pytestmark = pytest.mark.usefixtures("on_the_processor")


@pytest.fixture(autouse=True)
def messages(caplog):
    caplog.set_level("INFO")


def saved(folder):
    """Return (tensors, header) of each file of a run, without start and duration."""
    files = {
        path.relative_to(folder).as_posix(): checkpoints.load_tensors(path) for path in folder.rglob("*.safetensors")
    }
    for _, header in files.values():
        for key in ("seconds", "starts"):
            header.pop(key, None)
    return files


def train_uninterrupted(folder, model=None):
    """Train an uninterrupted run of 8 steps. An epoch has 5 batches."""
    assert len(plan_batches(1, 0, TEXT.lengths, (60, 60))) == 5
    train(start(folder, make_experiment(model=model)))
    assert sorted(path.name for path in (folder / "state").iterdir()) == [f"{step:08}.safetensors" for step in (6, 8)]
    return folder


@pytest.mark.parametrize("model", [{}, {"norm": "batch"}, *TABLE_2.values()], ids=["transformer", "norm", *TABLE_2])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, model):
    """The kills come after a saved state (each 2 steps) and between two, within an epoch, at its end, within a line."""
    folder, experiment = tmp_path / "resumed", make_experiment(model=model)
    for step in (1, 3, 4, 4, 5, 7):
        interrupt(start(folder, experiment), step)
        with open(folder / "metrics.jsonl", "a") as file:
            file.write('{"step": 6, "ep')
    train(start(folder, experiment))
    uninterrupted = train_uninterrupted(tmp_path / "single", model)
    files, expected = saved(folder), saved(uninterrupted)
    assert files.keys() == expected.keys()
    for name, (tensors, header) in expected.items():
        assert files[name][1] == header, name
        torch.testing.assert_close(files[name][0], tensors, rtol=0, atol=0)
    assert metrics(folder) == metrics(uninterrupted)


def other_experiment(path):
    tensors, header = checkpoints.load_tensors(path)
    checkpoints.save_tensors(path, tensors, header | {"digest": "a"})


def other_version(path):
    tensors, header = checkpoints.load_tensors(path)
    checkpoints.save_tensors(path, tensors, {key: header[key] for key in header if key != "epoch"})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9999] + bytes(9999)), "damaged"),
        (other_experiment, "expected a state of the experiment "),
        (other_version, "not a resume state of this version of the program"),
    ],
    ids=["truncated", "zeroed", "another experiment", "another version"],
)
def test_a_bad_state_is_refused_and_the_one_before_it_used(tmp_path, caplog, spoil, message):
    interrupt(start(tmp_path, make_experiment()), 7)
    newest = tmp_path / "state" / "00000006.safetensors"
    spoil(newest)
    caplog.clear()
    assert start(tmp_path, make_experiment()).progress.step == 4
    refused, resumed = caplog.messages
    assert refused.startswith(f"refused a resume state: {newest}: {message}")
    assert resumed == f"resumed from step 4 ({tmp_path}/state/00000004.safetensors)"


@pytest.mark.parametrize(
    ("steps", "checkpoint_every", "averaged_checkpoints", "expected"),
    [(11, 3, 3, [5, 8, 11]), (5, 4, 1, [5]), (9, 4, 3, [1, 5, 9])],
)
def test_checkpoints_are_counted_back_from_the_last_step(
    tmp_path, steps, checkpoint_every, averaged_checkpoints, expected
):
    experiment = make_experiment(
        steps=steps, checkpoint_every=checkpoint_every, averaged_checkpoints=averaged_checkpoints
    )
    run = start(tmp_path, experiment)
    train(run)
    paths = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in paths] == [f"{step:08}.safetensors" for step in expected]
    assert [checkpoints.load_tensors(path)[1] for path in paths] == [
        {"digest": "digest", "step": step} for step in expected
    ]
    last = checkpoints.load_tensors(paths[-1])[0]
    assert all(torch.equal(last[name], tensor) for name, tensor in run.learner.model.state_dict().items())


@pytest.mark.parametrize("logging", [{}, {"log_every": 8, "save_every": 1}], ids=str)
def test_a_loss_that_is_not_finite_stops(tmp_path, logging):
    """Earlier saved states stay, even if states are saved more often than the loss is checked."""
    experiment = make_experiment(logging=logging)
    interrupt(start(tmp_path, experiment), 4)
    before = saved(tmp_path)
    run = start(tmp_path, experiment)
    with torch.no_grad():
        run.learner.model.encoder[0].feed_forward.inner.weight[3, 5] = math.nan
    batch = plan_batches(1, 0, TEXT.lengths, (60, 60))[4]
    source, target = TEXT.lengths[:, batch].sum(axis=1)
    longest = batch[TEXT.lengths[:, batch].sum(axis=0).argmax()] + 1
    with pytest.raises(TrainingError) as stopped:
        train(run)
    tokens = f"{source} source + {target} target tokens in {len(batch)} pairs"
    assert str(stopped.value) == (
        f"step 5 (epoch 0, batch 4: {tokens}; the longest is pair {longest}): "
        f"FloatingPointError: loss nan, gradient norm nan; last state: {tmp_path}/state/00000004.safetensors"
    )
    assert saved(tmp_path).keys() == before.keys()


def test_loss_and_gradient_are_per_target_token(tmp_path):
    """In one update, the metrics have the sums divided by the target tokens, and Adam gets this gradient."""
    experiment = make_experiment(model={"P_drop": 0.0}, steps=1, averaged_checkpoints=1)
    run = start(tmp_path, experiment)
    batch = plan_batches(experiment.seed, 0, TEXT.lengths, (60, 60))[0]
    tokens = TEXT.lengths[1, batch].sum()
    smoothed, plain = batch_losses(run.learner.model, TEXT.batch(batch, CPU), 0.1, torch.float32)
    gradients = torch.autograd.grad(smoothed / tokens, list(run.learner.model.parameters()))
    train(run)
    entry = metrics(tmp_path)[-1]
    assert entry["smoothed_loss"] == pytest.approx(smoothed.item() / tokens, rel=1e-5)
    assert entry["perplexity"] == pytest.approx(math.exp(plain.item() / tokens), rel=1e-5)
    for parameter, gradient in zip(run.learner.model.parameters(), gradients, strict=True):
        first_moment = run.learner.adam.state[parameter]["exp_avg"]  # (1 - beta1) * gradient after one step
        torch.testing.assert_close(first_moment / (1 - 0.9), gradient, rtol=1e-3, atol=1e-6)


def test_no_step_has_gradients_of_the_one_before(tmp_path):
    """The number of pieces does not matter. A process without pieces adds nothing to the others' sum."""
    learner = start(tmp_path, make_experiment(model={"P_drop": 0.0})).learner
    learner.update("", np.arange(9), 1, False)
    weights = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    sums = []
    for learner.accumulation in (1, 3):
        learner.update("", np.arange(20), 2, False)
        sums.append(learner.gradients.clone())
        learner.model.load_state_dict(weights)
    torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-6)
    assert sums[0].count_nonzero() > len(sums[0]) / 2
    learner.world = SimpleNamespace(rank=1, size=2, all_reduce=lambda tensor: tensor)
    learner.accumulation = 1
    learner.update("", np.arange(1), 3, False)
    assert not learner.gradients.any()


def test_metrics_are_means_over_the_steps_since_the_last_line(tmp_path):
    """Means are over target tokens, not over batches."""
    each, every_third = (
        make_experiment(steps=6, logging={"log_every": log_every, "evaluate_every": 6}) for log_every in (1, 3)
    )
    train(start(tmp_path / "1", each))
    train(start(tmp_path / "3", every_third))
    steps = [entry for entry in metrics(tmp_path / "1") if "smoothed_loss" in entry]
    tokens = [
        TEXT.lengths[1, batch].sum() for epoch in (0, 1) for batch in plan_batches(1, epoch, TEXT.lengths, (60, 60))
    ]
    assert len(set(tokens[:3])) > 1
    for line, part in zip(
        [entry for entry in metrics(tmp_path / "3") if "smoothed_loss" in entry],
        (slice(1), slice(1, 3), slice(3, 6)),  # the first step has its own line
        strict=True,
    ):
        weighted = sum(entry["smoothed_loss"] * count for entry, count in zip(steps[part], tokens[part], strict=True))
        assert line["smoothed_loss"] == pytest.approx(weighted / sum(tokens[part]), rel=1e-5)
        logs = sum(math.log(entry["perplexity"]) * n for entry, n in zip(steps[part], tokens[part], strict=True))
        assert line["perplexity"] == pytest.approx(math.exp(logs / sum(tokens[part])), rel=1e-5)


def test_tokens_and_flops_are_sums_over_the_plan(tmp_path):
    run = start(tmp_path, make_experiment())
    progress = train(run)
    batches = [batch for epoch in (0, 1) for batch in plan_batches(1, epoch, TEXT.lengths, (60, 60))][:8]
    source, target = (TEXT.lengths[side, [index for batch in batches for index in batch]] for side in (0, 1))
    assert (progress.step, progress.epoch, progress.position) == (8, 1, 3)
    assert (progress.source_tokens, progress.target_tokens) == (source.sum(), target.sum())
    sums = source.sum(), target.sum(), (source**2).sum(), (target**2).sum(), (source * target).sum()
    assert progress.flops == pytest.approx(training_flops(run.experiment.model, Lengths(*sums)))
    last = metrics(tmp_path)[-1]
    assert (last["source_tokens"], last["target_tokens"]) == (source.sum(), target.sum())


def test_no_longer_pair_than_max_length_is_learned_from(tmp_path):
    run = start(tmp_path, make_experiment(max_length=4))
    learned = np.concatenate([*run.learner.batches_of(0)])
    assert sorted(learned) == np.flatnonzero((TEXT.lengths <= 4).all(axis=0)).tolist()
    assert 0 < len(learned) < len(TEXT.source)


def test_pairs_that_fit_no_batch_are_counted_in_training_and_named_in_dev(tmp_path, caplog):
    long = ParallelText(TEXT.source, random_text(9, 53, longest=200).target)
    expected = (long.lengths > 60).any(axis=0).sum()
    start(tmp_path, make_experiment(), text=long)
    assert f"skipping {expected} of 53 training pairs: too long" in caplog.text
    with pytest.raises(InputError, match=r"^dev pair \d+: \[\d+, \d+\] tokens, too long for 1024 positions or a batch"):
        start(tmp_path, make_experiment(), dev=long)


def board(folder):
    """Return TensorBoard's curves as {step: value}. A later start replaces the values after its step."""
    curves = {}
    for path in sorted((folder / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:  # a record: length, its checksum, the event, its checksum
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.session_log.status == SessionLog.START:
                for curve in curves.values():
                    for step in [step for step in curve if step >= event.step]:
                        del curve[step]
            for value in event.summary.value:
                curves.setdefault(value.tag, {})[event.step] = value.simple_value
    return curves


def test_tensorboard_shows_the_metrics(tmp_path):
    interrupt(start(tmp_path, make_experiment()), 5)
    train(start(tmp_path, make_experiment()))
    expected = {}
    for entry in metrics(tmp_path, without=()):
        step = entry.pop("step")
        for name, value in entry.items():
            expected.setdefault(name, {})[step] = pytest.approx(value)
    assert board(tmp_path) == expected
