"""Trainings begun in this process, on text of no meaning."""

import torch

from support.toy import random_text
from transformer.runtime.distributed import World
from transformer.training.evaluation import Evaluation
from transformer.training.loop import Run

CPU = torch.device("cpu")
ALONE = World(0, 1, CPU)
TEXT, DEV = random_text(1, 53), random_text(2, 15)


def start(folder, experiment, text=TEXT, dev=DEV, digest="digest", memory=2**40):
    """A run in float32, whatever the processor multiplies fastest."""
    budgets = (experiment.training.source_tokens, experiment.training.target_tokens)
    run = Run(experiment, text, Evaluation(dev, None, budgets, 0, ALONE), digest, folder, memory)
    run.dtype = torch.float32
    return run
