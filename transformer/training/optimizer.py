"""§5.3 Optimizer: Adam and the learning rate of equation 3."""

import torch
from torch import nn

from transformer.config.experiment import Experiment, Training


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """Return d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) for step = 1, 2, ... (§5.3, equation 3)."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def rate(experiment: Experiment, step: int) -> float:
    """Return Adam's rate at `step`: equation 3, times the experiment's factor.

    Without warm-up it is at its peak from the first step to the last of warmup_steps.
    """
    training = experiment.training
    step = step if training.warmup else max(step, training.warmup_steps)
    return training.rate * learning_rate(step, experiment.model.d_model, training.warmup_steps)


def adam(model: nn.Module, training: Training) -> torch.optim.Adam:
    """Return Adam over all parameters; the rate is set before each step.

    Its moments are there before the first step, zero as Adam would make them, so that a state on disk fits them.
    """
    betas = (training.beta1, training.beta2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=training.epsilon, fused=True)
    for parameter in model.parameters():
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device)} | moments
    return optimizer
