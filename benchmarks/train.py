"""Benchmark of training against JoeyNMT and a plain loop around torch.nn.Transformer."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import cyclopts
import numpy as np
import torch
from cyclopts.types import PositiveInt

from benchmarks.loops import Joey, Ours, Plain, Step
from benchmarks.results import THREADS, leave, opened, product_speed, timed
from benchmarks.workload import of_paper, of_run
from transformer.config.experiment import Model
from transformer.model.cost import training_flops
from transformer.training.loop import total_lengths

SYSTEMS = {"ours": Ours, "plain": Plain, "joeynmt": Joey}
NAMES = {"ours": "this project", "plain": "torch.nn.Transformer", "joeynmt": "JoeyNMT"}
PAIRS = 100_000  # random sentence pairs for the paper's models
IN_A_ROW = 10 if torch.cuda.is_available() else 1


@dataclass
class Taken:
    """One system's steps and seconds in each turn."""

    dtype: torch.dtype
    turns: list[list[Step]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def tokens(self) -> np.ndarray:
        """Return the numbers of source and target tokens in each turn, without padding: [2, turns]."""
        return np.array([sum(step.lengths.sum(axis=1) for step in turn) for turn in self.turns]).T

    def speeds(self) -> np.ndarray:
        """Return the target tokens per second of each turn."""
        return self.tokens()[1] / self.seconds


def main(
    *,
    run: Path | None = None,
    data: Path | None = None,
    model: Literal["base", "big"] | None = None,
    length: PositiveInt | None = None,
    tokens: PositiveInt | None = None,
    steps: PositiveInt = 40,
    warm_up: PositiveInt = 5,
    in_a_row: PositiveInt = IN_A_ROW,
    threads: PositiveInt = THREADS,
    output: Path | None = None,
) -> None:
    """Compare the speed of training with other systems.

    python -m benchmarks.train --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

    python -m benchmarks.train --model base

    Args:
        run: folder of a run of the pipeline, trained or not; requires --data
        model: instead of --run and --data: the paper's batches of random sentences with WMT's lengths; for a GPU
        length: with --model: length of all sentences
        tokens: with --model: maximum number of tokens on each side of a batch
        in_a_row: steps per turn; a loop queues work on a GPU in advance, and the queue is empty at the end of a turn
        output: JSON file; default: results/train-LABEL.json
    """
    torch.set_num_threads(threads)
    work = of_paper(model, PAIRS, length, tokens) if model else of_run(run, data)
    with TemporaryDirectory() as folder:
        loops, left_out = opened(SYSTEMS, NAMES, Path(folder), work)
        taken, ceilings = take_turns(loops, warm_up, steps, in_a_row)
        for system in loops.values():
            system.loop.close()
    first = next(iter(taken.values()))
    found = {}
    for name, each in taken.items():
        found[name] = {"name": NAMES[name]} | numbers(each, work.experiment.model, ceilings[each.dtype])
        found[name]["times_slower"] = float(np.median(first.speeds() / each.speeds()))
    about = {
        "model": work.experiment.label,
        "budgets": work.experiment.training.budgets,
        "left_out": left_out,
        "warm_up": warm_up,
    }
    about["matrix_flops_per_second"] = {str(dtype).removeprefix("torch."): speed for dtype, speed in ceilings.items()}
    leave("train", work.label, output, found, **about)


def take_turns(
    systems: dict, warm_up: int, steps: int, in_a_row: int
) -> tuple[dict[str, Taken], dict[torch.dtype, float]]:
    """Run the systems in turns. Between the turns, measure matrix products of each type."""
    taken = {name: Taken(system.dtype) for name, system in systems.items()}
    products = {system.dtype: [] for system in systems.values()}
    for system in systems.values():
        for _ in range(warm_up):
            system.loop.step()
    for _ in range(max(1, steps // in_a_row)):
        for name, system in systems.items():
            seconds, turn = timed(lambda loop=system.loop: [loop.step() for _ in range(in_a_row)])
            taken[name].turns.append(turn)
            taken[name].seconds.append(seconds)
        for dtype, speeds in products.items():
            speeds.append(product_speed(dtype))
    return taken, {dtype: float(np.median(speeds)) for dtype, speeds in products.items()}


def numbers(system: Taken, model: Model, ceiling: float) -> dict:
    """Return the numbers of one system."""
    source, target = system.tokens()
    positions = sum(step.positions for turn in system.turns for step in turn)
    return {
        "products": str(system.dtype).removeprefix("torch."),
        "seconds": system.seconds,
        "source_tokens": source.tolist(),
        "target_tokens": target.tolist(),
        "target_tokens_per_second": float(np.median(system.speeds())),
        "losses": [step.loss() for turn in system.turns for step in turn if step.loss],
        "seconds_per_step": float(np.median(system.seconds)) / len(system.turns[0]),
        "padding_share": 1 - int((source + target).sum()) / positions,
        "flops_utilisation": utilisation(model, system, ceiling),
    }


def utilisation(model: Model, system: Taken, ceiling: float) -> float:
    """Return the median FLOP/s over the turns, without padding, divided by the `ceiling` of matrix products."""
    flops = [sum(training_flops(model, total_lengths(step.lengths)) for step in turn) for turn in system.turns]
    return float(np.median(np.divide(flops, system.seconds))) / ceiling


if __name__ == "__main__":
    cyclopts.run(main)
