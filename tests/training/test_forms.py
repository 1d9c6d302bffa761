"""Training of each form that Table 5 gives the model: it learns, goes on where it stopped, and is averaged and read."""

import math

import numpy as np
import pytest
import torch
from support.starting import CPU, TEXT, start
from support.toy import make_experiment

FORMS = {
    "pre-norm": {"norm": "pre"},
    "no residual": {"residual": False},
    "not scaled": {"scaled": False},
    "additive": {"attention": "additive", "P_drop_attention": 0.1},
    "no positions": {"positions": "none"},
    "untied": {"tied": False},
    "all at once": {"norm": "pre", "residual": False, "attention": "additive", "positions": "none", "tied": False},
}
each_form = pytest.mark.parametrize("model", FORMS.values(), ids=FORMS)
pytestmark = pytest.mark.usefixtures("on_the_processor")


@each_form
def test_gradients_reach_every_parameter_and_are_those_of_finite_differences(tmp_path, model):
    """Along the gradient itself, the loss changes by the gradient's norm. Random biases keep every vector from zero."""
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
