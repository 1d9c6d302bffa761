"""A program for torchrun (test_distributed.py): what each process learns from, and the gradient that all get."""

import sys
from pathlib import Path

import numpy as np
import torch

from support.toy import make_experiment, random_text
from transformer import layout
from transformer.device import end, joined
from transformer.process import StopSignals
from transformer.training.log import Evaluation
from transformer.training.loop import TrainingRun

BUDGETS = (60, 60)
STEPS = 7  # an epoch has 5


def main(out: Path, accumulation: int, P_drop: float) -> None:
    """Write `out`/{rank}.npz: for each step the global batch, the pairs this process learned from, the gradient."""
    experiment = make_experiment(model={"P_drop": P_drop})
    with joined() as world:
        evaluation = Evaluation(random_text(2, 15), None, BUDGETS, 0, world)
        folder = layout.Run(out / "run")
        run = TrainingRun(experiment, random_text(1, 53), evaluation, "digest", folder, memory=2**40)
        learner = run.learner
        learner.dtype, learner.accumulation = torch.float32, accumulation
        losses, mine, results = learner.losses, [], {}

        def noted(indices):
            mine.append(indices)
            return losses(indices)

        learner.losses = noted
        for step, batch in zip(range(STEPS), run.batches(), strict=False):
            mine.clear()
            run.update(batch, StopSignals())
            results |= {
                f"batch{step}": batch,
                f"mine{step}": np.concatenate([np.zeros(0, int), *mine]),
                f"gradient{step}": learner.gradients[: -len(learner.sums)].numpy().copy(),
            }
        results["dev_perplexity"] = evaluation.perplexity(learner.model, torch.float32)
        np.savez(out / f"{world.rank}.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    end()
