"""Trainings that are started in this process, on text of no meaning."""

import torch

from support.toy import random_text
from transformer import layout
from transformer.device import World
from transformer.training.batches import batch_budgets
from transformer.training.log import Evaluation
from transformer.training.loop import TrainingRun

CPU = torch.device("cpu")
ALONE = World(0, 1, CPU)
TEXT, DEV = random_text(1, 53), random_text(2, 15)


def start(folder, experiment, text=TEXT, dev=DEV, digest="digest", memory=2**40):
    """Return a run in float32, whatever the processor multiplies fastest."""
    evaluation = Evaluation(dev, None, batch_budgets(experiment.training), 0, ALONE)
    run = TrainingRun(experiment, text, evaluation, digest, layout.Run(folder), memory)
    run.learner.dtype = torch.float32
    return run
