"""Batch normalisation over the tokens that count, compared with PyTorch's (several processes: test_distributed.py)."""

import numpy as np
import pytest
import torch
from support.toy import CPU, TEXT, make_data, make_experiment, make_run, random_lines
from torch import nn

from transformer.layout import Data, Run
from transformer.model.batch_norm import BatchNorm, batch_norms
from transformer.model.weights import load_model, load_tensors
from transformer.process import StopSignals
from transformer.training.batches import open_text, plan_batches
from transformer.training.distributed import World
from transformer.training.loop import train_and_publish
from transformer.training.step import Learner

WIDTH = 5


def pair() -> tuple[BatchNorm, nn.BatchNorm1d]:
    """Return our normalisation and PyTorch's with the same random gain and bias."""
    torch.manual_seed(1)
    own, theirs = BatchNorm(WIDTH), nn.BatchNorm1d(WIDTH)
    with torch.no_grad():
        for parameter, other in zip(own.parameters(), theirs.parameters(), strict=True):
            other.copy_(parameter.normal_())
    return own, theirs


def learned(norm: nn.Module, x: torch.Tensor, factors: torch.Tensor, *count: int) -> list[torch.Tensor]:
    """Return outputs and gradients of x, gain and bias, for a loss with these factors of the outputs."""
    x = x.clone().requires_grad_()
    y = norm(x, *count)
    return [y.detach(), *torch.autograd.grad((y * factors).sum(), [x, *norm.parameters()])]


@pytest.mark.parametrize("padding", [0, 3])
def test_outputs_gradients_and_statistics_are_pytorchs_on_the_tokens(padding):
    """Three batches have means that are large beside their deviations. Evaluation follows. Padding has no loss."""
    own, theirs = pair()
    for n in (11, 7, 13):
        x, factors = 100 + torch.randn(n + padding, WIDTH) * torch.arange(1, 6), torch.randn(n + padding, WIDTH)
        factors[n:] = 0
        found, expected = learned(own, x, factors, n), learned(theirs, x[:n], factors[:n])
        assert not found[1][n:].any()
        found[:2] = [each[:n] for each in found[:2]]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(getattr(own, name), getattr(theirs, name))
    torch.testing.assert_close(own.eval()(x), theirs.eval()(x))


def test_sums_are_in_32_bits_and_one_token_has_no_variance():
    own, theirs = pair()
    x = (3 + torch.randn(4000, WIDTH)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = own(x)
    assert y.dtype == own.running_var.dtype == torch.float32
    torch.testing.assert_close(y, theirs(x.float()), rtol=1e-4, atol=1e-4)
    assert torch.equal(own(torch.randn(1, WIDTH)), own.bias[None])
    assert own.running_var.isfinite().all()


def test_measuring_memory_changes_no_statistics():
    learner = Learner(make_experiment(model={"norm": "batch"}), TEXT, None, World(0, 1, CPU), 2**40)
    for norm in batch_norms(learner.model):
        assert torch.equal(torch.cat([*norm.buffers()]), torch.tensor([0.0] * 26 + [1.0] * 26))


@pytest.mark.usefixtures("on_the_processor")
def test_averaged_weights_have_statistics_of_their_own(tmp_path):
    """NumPy recomputes them from the inputs of each norm without dropout: means over the first epoch's batches."""
    data = make_data(tmp_path / "data", random_lines(1, 60), random_lines(2, 9))
    run = Run(make_run(tmp_path / "run", experiment := make_experiment(model={"norm": "batch", "P_drop": 0.3})))
    for _ in range(2):  # the second time from the finished training
        train_and_publish(run, Data(data), 1, 1.0, StopSignals())
        run.record.unlink()
    averaged, _ = load_tensors(run.average)
    kept = [load_tensors(path)[0] for path in sorted(run.checkpoints.iterdir())]
    model, given = load_model(run.average, experiment.model), {}
    for number, norm in enumerate(batch_norms(model)):
        norm.train().register_forward_pre_hook(lambda _, args, number=number: given[number].append(args[0].numpy()))
        given[number] = []
    text = open_text(Data(data), "train")
    for indices in plan_batches(1, 0, text.lengths, (60, 60)):
        batch = text.batch(indices, CPU)
        with torch.no_grad():
            model(batch.source, batch.target)
    names = [name for name, module in model.named_modules() if isinstance(module, BatchNorm)]
    assert len(names) == 2 * (2 + 3)
    assert len(given[0]) > 3
    for name, xs in zip(names, given.values(), strict=True):
        mean = np.mean([x.mean(axis=0, dtype=np.float64) for x in xs], axis=0)
        variance = np.mean([x.var(axis=0, ddof=1, dtype=np.float64) for x in xs], axis=0)
        np.testing.assert_allclose(averaged[f"{name}.running_mean"], mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(averaged[f"{name}.running_var"], variance, rtol=1e-4)
        weights = torch.stack([each[f"{name}.weight"] for each in kept])
        torch.testing.assert_close(averaged[f"{name}.weight"], weights.mean(dim=0))
