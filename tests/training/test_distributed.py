"""The batch contract: one or several processes of torchrun see the same batches and compute the same gradients."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from support.toy import PROCESSOR, TABLE_2, TABLE_5, TORCHRUN, make_experiment, random_text

from transformer import layout
from transformer.process import StopSignals
from transformer.training.batches import plan_batches
from transformer.training.distributed import end, joined
from transformer.training.loop import TrainingRun
from transformer.training.validation import Evaluation

pytestmark = pytest.mark.usefixtures("on_the_processor")
BUDGETS = (60, 60)
STEPS = 7  # an epoch has 5


@cache
def learned(processes: int, accumulation: int, P_drop: float, name: str = "transformer") -> list[dict]:
    """Run a division, and return the outputs of its processes."""
    with TemporaryDirectory() as out:
        if processes == 1:
            learn(Path(out), accumulation, P_drop, name)
        else:
            command = [*TORCHRUN, processes, __file__, out, accumulation, P_drop, name]
            subprocess.run([str(word) for word in command], env=PROCESSOR, check=True)
        return [dict(np.load(f"{out}/{rank}.npz")) for rank in range(processes)]


@pytest.mark.parametrize(
    ("processes", "accumulation", "name"),
    [
        (2, 2, "transformer"),
        pytest.param(2, 1, "batch norm", marks=pytest.mark.slow),  # the perplexity depends on the running statistics
        *(pytest.param(2, 2, name, marks=pytest.mark.slow) for name in TABLE_2),
    ],
)
def test_every_division_learns_the_same_from_the_batches_of_the_plan(processes, accumulation, name):
    """Each pair of each global batch is in exactly one process, once. The gradient equals that of one process.

    The batch after the last step is one pair, so the other processes have no pair.
    """
    (single,), ranks = learned(1, 1, 0.0, name), learned(processes, accumulation, 0.0, name)
    lengths = random_text(1, 53).lengths
    batches = [batch for epoch in (0, 1) for batch in plan_batches(1, epoch, lengths, BUDGETS)]
    for step in range(STEPS + 1):
        expected = single[f"gradient{step}"]
        for rank in ranks:
            atol = tolerance(name, step) * np.abs(expected).max()
            np.testing.assert_allclose(rank[f"gradient{step}"], expected, rtol=0, atol=atol)
    for step, batch in enumerate(batches[:STEPS]):
        for rank in (single, *ranks):
            np.testing.assert_array_equal(rank[f"batch{step}"], batch)
        parts = np.concatenate([rank[f"mine{step}"] for rank in ranks])
        np.testing.assert_array_equal(np.sort(parts), np.sort(batch))
        np.testing.assert_array_equal(np.sort(single[f"mine{step}"]), np.sort(batch))
    for rank in ranks:
        assert rank["dev_perplexity"] == pytest.approx(single["dev_perplexity"], rel=tolerance(name, STEPS))


def tolerance(name: str, step: int) -> float:
    """Return the largest relative difference. After three updates, accumulated rounding errors differ."""
    return 3e-6 if step < 3 or name == "transformer" else 1e-4


@pytest.mark.slow
def test_as_many_pieces_draw_the_same_dropout():
    """With 1 x 4, 2 x 2 and 4 x 1, the assignment of pieces to processes changes only the rounding."""
    (single,) = learned(1, 4, 0.3)
    for processes, accumulation in ((2, 2), (4, 1)):
        for rank in learned(processes, accumulation, 0.3):
            for step in range(STEPS):
                np.testing.assert_allclose(rank[f"gradient{step}"], single[f"gradient{step}"], rtol=0, atol=1e-6)
    (other,) = learned(1, 1, 0.3)
    assert np.abs(other["gradient0"] - single["gradient0"]).max() > 1e-3


def learn(out: Path, accumulation: int, P_drop: float, name: str) -> None:
    """Write `out`/{rank}.npz: for each step the global batch, this process's pairs, and the gradient."""
    # Batch normalisation cancels some biases. Adam must not divide their gradients, rounding errors, by themselves.
    training = {"epsilon": 1e-3, "learning_rate_scale": 0.1} if name == "batch norm" else {}
    experiment = make_experiment(model={"P_drop": P_drop} | (TABLE_2 | TABLE_5).get(name, {}), **training)
    with joined() as world:
        evaluation = Evaluation(experiment, random_text(2, 15), None, world)
        folder = layout.Run(out / "run")
        run = TrainingRun(random_text(1, 53), evaluation, "digest", folder, memory=2**40)
        learner = run.learner
        learner.dtype, learner.accumulation = torch.float32, accumulation
        losses, mine, results = learner.losses, [], {}
        learner.losses = lambda indices: (mine.append(indices), losses(indices))[1]
        for step, batch in zip(range(STEPS), run.batches(), strict=False):
            mine.clear()
            run.update(batch, StopSignals())
            results[f"batch{step}"] = batch
            results[f"mine{step}"] = np.concatenate([np.zeros(0, int), *mine])
            results[f"gradient{step}"] = learner.gradients[: -len(learner.sums)].numpy().copy()
        learner.update("", batch[:1], STEPS + 1, stopping=False)
        results[f"gradient{STEPS}"] = learner.gradients[: -len(learner.sums)].numpy().copy()
        results["dev_perplexity"] = evaluation.perplexity(learner.model, torch.float32)
        np.savez(out / f"{world.rank}.npz", **results)


if __name__ == "__main__":  # started by torchrun
    learn(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
    end()
