"""Training of each form that Table 5 gives the model: it learns, goes on where it stopped, and is averaged and read."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from support.starting import CPU, TEXT, start
from support.toy import make_experiment

from transformer.model import weights as checkpoints
from transformer.process import StopSignals
from transformer.training.loop import Run

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


@each_form
def test_a_form_learns_and_goes_on_where_it_stopped(tmp_path, model):
    """Stopped at step 3 of 8, it ends with the weights of a run that was not; their average can be read."""
    experiment = make_experiment(model=model)
    whole, parts = (tmp_path / name for name in ("whole", "parts"))
    run = start(whole, experiment)
    first = {name: tensor.clone() for name, tensor in run.learner.model.state_dict().items()}
    run.train(StopSignals(), "commit")
    killed = start(parts, experiment)
    killed.batches = lambda: islice(Run.batches(killed), 3)
    killed.train(StopSignals(), "commit")
    assert killed.progress.step == 3
    start(parts, experiment).train(StopSignals(), "commit")
    names = [f"checkpoints/{step:08}.safetensors" for step in (4, 6, 8)]
    for name in names:
        (tensors, _), (expected, _) = (checkpoints.load(folder / name) for folder in (parts, whole))
        torch.testing.assert_close(tensors, expected, rtol=0, atol=0)
    assert [name for name, tensor in expected.items() if torch.equal(tensor, first[name])] == []
    mean, header = checkpoints.average([whole / name for name in names])
    checkpoints.save(whole / "average.safetensors", mean, header)
    read = checkpoints.load_model(whole / "average.safetensors", experiment.model).state_dict()
    torch.testing.assert_close(read, mean, rtol=0, atol=0)
    assert math.isfinite(run.progress.dev_perplexity)
