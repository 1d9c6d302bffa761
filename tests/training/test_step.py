"""The learning rate, compared with equation 3 computed by hand, and Adam's constants."""

import math

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support.toy import CPU, TABLE_5, TEXT, make_experiment, start
from torch import nn

from transformer.config.experiment import rate
from transformer.training.step import adam


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [  # for d_model 16, 4 warm-up steps, a factor of 3
        (True, {1: 0.09375, 2: 0.1875, 4: 0.375, 9: 0.25, 100: 0.075}),  # 3 / 4 * step / 8, then 3 / 4 / sqrt(step)
        (False, {1: 0.375, 2: 0.375, 4: 0.375, 9: 0.25, 100: 0.075}),
    ],
)
def test_without_warm_up_the_rate_begins_at_its_peak(experiment, warmup, expected):
    training = replace(experiment.training, learning_rate_scale=3.0, warmup_steps=4, warmup=warmup)
    own = replace(experiment, model=replace(experiment.model, d_model=16), training=training)
    assert {step: rate(own, step) for step in expected} == pytest.approx(expected)


def test_adam_has_the_constants_of_the_experiment(experiment):
    training = replace(experiment.training, beta1=0.7, beta2=0.9, epsilon=0.1)
    settings = adam(nn.Linear(3, 5), training).defaults
    assert (settings["betas"], settings["eps"], settings["weight_decay"]) == ((0.7, 0.9), 0.1, 0)


@pytest.mark.usefixtures("on_the_processor")
@pytest.mark.parametrize("model", TABLE_5.values(), ids=TABLE_5)
def test_gradients_reach_every_parameter_and_equal_finite_differences(tmp_path, model):
    """Along the gradient, the loss changes by the gradient's norm. Random biases keep every vector from zero."""
    learner = start(tmp_path, make_experiment(model=model | {"P_drop": 0.0, "P_drop_attention": 0.0})).learner
    learner.model.double()
    batch = TEXT.batch(np.arange(10), CPU)
    parameters = dict(learner.model.named_parameters())
    with torch.no_grad():
        for parameter in parameters.values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))

    def loss():
        output = learner.model(batch.source, batch.target)
        return (output @ learner.model.output_weight().T).log_softmax(dim=1).gather(1, batch.labels[:, None]).mean()

    gradients = dict(zip(parameters, torch.autograd.grad(loss(), parameters.values()), strict=True))
    assert [name for name, gradient in gradients.items() if not gradient.any()] == []
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients.values()))
    losses, step = [], 1e-6
    with torch.no_grad():
        for length in (-step, 2 * step):
            for name, parameter in parameters.items():
                parameter += length / norm * gradients[name]
            losses.append(loss().item())
    assert (losses[1] - losses[0]) / (2 * step) == pytest.approx(norm, rel=1e-5)
