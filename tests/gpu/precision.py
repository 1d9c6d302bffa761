"""Train a run's model on a processor with 32 bits between its layers, and with 16 as on a GPU, and print both curves.

    PYTHONPATH=. python tests/gpu/precision.py results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

`nudged` has 32 bits, and other weights by a thousandth at first: what any small change leads to.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch
from msgspec.structs import replace
from torch import Tensor

from transformer.commands.train import open_text
from transformer.config.experiment import Experiment, load
from transformer.model import transformer as model_module
from transformer.runtime.distributed import World
from transformer.training.batches import ParallelText, batch_budgets
from transformer.training.evaluation import Evaluation
from transformer.training.step import Learner

CPU = World(0, 1, torch.device("cpu"))
MEMORY = 10 * 2**30  # bytes
WARMUP = 500  # steps; the rate's peak is the run's


def narrowed(x: Tensor) -> Tensor:
    """Return x in 16 bits, as kernels.narrowed does on a GPU."""
    return x.to(torch.bfloat16) if torch.is_autocast_enabled("cpu") else x


FORMS: dict[str, Callable[[Tensor], Tensor]] = {"float32": lambda x: x, "bfloat16": narrowed, "nudged": lambda x: x}


def sooner(experiment: Experiment, seed: int) -> Experiment:
    """Return the experiment with another seed, and its peak rate after WARMUP steps."""
    training = experiment.training
    rate = training.rate * (WARMUP / training.warmup_steps) ** 0.5
    return replace(experiment, seed=seed, training=replace(training, rate=rate, warmup_steps=WARMUP))


def learner_of(experiment: Experiment, text: ParallelText, form: str) -> Learner:
    learner = Learner(experiment, text, None, CPU, MEMORY)
    if form == "nudged":
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter *= 1 + 1e-3 * torch.randn(parameter.shape)
    return learner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["float32", "bfloat16"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--every", type=int, default=100, help="steps between two lines")
    args = parser.parse_args()
    experiment = load(args.run / "experiment.yaml")
    text, dev = (open_text(args.data, split, experiment) for split in ("train", "dev"))
    evaluation = Evaluation(dev, None, batch_budgets(experiment.training), 0, CPU)
    learners = {
        (form, seed): learner_of(sooner(experiment, seed), text, form) for seed in args.seeds for form in args.forms
    }
    losses = dict.fromkeys(learners, 0.0)
    for step in range(1, args.steps + 1):
        for (form, seed), learner in learners.items():
            epoch, place = divmod(step - 1, len(learner.first_epoch))
            with patch.object(model_module, "narrowed", FORMS[form]):
                update = learner.update(f"step {step}", learner.batches_of(epoch)[place], step, False)
                losses[form, seed] += update.plain / update.lengths[1].sum() / args.every
                if step % args.every == 0:
                    perplexity = evaluation.perplexity(learner.model, learner.dtype)
                    line = {"step": step, "between_layers": form, "seed": seed, "loss": losses[form, seed]}
                    print(json.dumps(line | {"dev_perplexity": perplexity}), flush=True)
                    losses[form, seed] = 0.0


if __name__ == "__main__":
    main()
