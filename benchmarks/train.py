"""The speed of training, beside JoeyNMT and a plain loop around torch.nn.Transformer.

    python -m benchmarks.train --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de
    python -m benchmarks.train --model base                  # the paper's batches, on random sentences: for a GPU
    python -m benchmarks.train --model base --tokens 2000    # smaller batches

Each system's own training loop runs in this one process, a step of each in turn, so that all meet the same machine. The
matrix products that they are compared with run in between, too. For peak memory, each system runs in its own process.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from benchmarks.joey import Joey
from benchmarks.loops import Step
from benchmarks.ours import Ours
from benchmarks.plain import Plain, PlainAsOurs, PlainCompiled
from benchmarks.results import circumstances, command, leave, markdown, open_systems, parser_of, peak_memory, ratio
from benchmarks.timing import product_speed, timed
from benchmarks.workload import Workload, of_paper, of_run, with_tokens
from transformer.config.experiment import Model
from transformer.model.cost import training_flops
from transformer.records import read_json
from transformer.training.loop import sums_of

SYSTEMS = {"ours": Ours, "plain": Plain, "plain-as-ours": PlainAsOurs, "plain-compiled": PlainCompiled, "joeynmt": Joey}
HORIZONS = (100_000, 300_000)  # steps of base and big (§5.2)
HOUR = 3600  # seconds


@dataclass
class Taken:
    """The steps that one system took at each turn, and the seconds that the turn lasted."""

    dtype: torch.dtype
    turns: list[list[Step]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        return [step for turn in self.turns for step in turn]


def main(argv: list[str] | None = None) -> None:
    """Measure all systems, and write and print the result."""
    args = parse(argv)
    torch.set_num_threads(args.threads)
    workload = open_workload(args)
    with TemporaryDirectory() as folder:
        systems, left_out = open_systems(SYSTEMS, args.systems, workload, Path(folder))
        taken, products = take_turns(systems, args.warm_up, args.steps, args.in_a_row)
        for system in systems.values():
            system.close()
    result = circumstances("train", args) | {
        "peak_bytes": peak_memory(),  # of all systems together, where there are several
        "label": workload.label,
        "model": workload.experiment.label,
        "budgets": workload.budgets,
        "left_out": left_out,
        "matrix_flops_per_second": {dtype_name(dtype): median(speeds) for dtype, speeds in products.items()},
        "systems": measured(taken, workload, products),
        "losses": losses(taken, args.loss_every),
    }
    if args.memory_steps:
        for name, system in result["systems"].items():
            system["peak_bytes"] = alone(name, args)
    leave(result, table(result), args, workload.label)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("train", __doc__)
    workload = parser.add_mutually_exclusive_group(required=True)
    workload.add_argument("--run", type=Path, help="a run of the pipeline, trained or not")
    workload.add_argument("--model", choices=("base", "big"), help="the paper's, on random sentences of WMT's lengths")
    parser.add_argument("--data", type=Path, help="with --run: the folder of its data")
    parser.add_argument("--pairs", type=int, default=100_000, help="with --model: how many random pairs")
    parser.add_argument("--tokens", type=int, help="tokens in a batch, on either side; the experiment's if not given")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--steps", type=int, default=40, help="steps of each system that count")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before them that do not")
    in_a_row = 10 if torch.cuda.is_available() else 1  # a GPU is given work ahead, which is lost at the end of a turn
    parser.add_argument("--in-a-row", type=int, default=in_a_row, help=f"steps of a turn; {in_a_row} if not given")
    parser.add_argument("--loss-every", type=int, default=10, help="steps whose mean loss is one number")
    parser.add_argument("--memory-steps", type=int, default=5, help="steps for the peak memory; 0: it is not measured")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args(argv)
    if (args.run is None) != (args.data is None):
        parser.error("--run and --data go together")
    if args.steps < args.in_a_row:
        parser.error(f"--steps: expected {args.in_a_row} at least, which are one turn")
    return args


def open_workload(args: argparse.Namespace) -> Workload:
    workload = of_run(args.run, args.data) if args.run else of_paper(args.model, args.pairs)
    return with_tokens(workload, args.tokens) if args.tokens else workload


def take_turns(
    systems: dict, warm_up: int, steps: int, in_a_row: int
) -> tuple[dict[str, Taken], dict[torch.dtype, list[float]]]:
    """Let each system take a turn, then measure bare matrix products of each type; repeat until all steps are done."""
    taken = {name: Taken(system.dtype) for name, system in systems.items()}
    products = {system.dtype: [] for system in systems.values()}
    for system in systems.values():
        for _ in range(warm_up):
            system.step()
    for _ in range(steps // in_a_row):
        for name, system in systems.items():
            seconds, turn = timed(lambda system=system: [system.step() for _ in range(in_a_row)])
            taken[name].turns.append(turn)
            taken[name].seconds.append(seconds)
        for dtype, speeds in products.items():
            speeds.append(product_speed(dtype))
    return taken, products


def measured(taken: dict[str, Taken], workload: Workload, products: dict[torch.dtype, list[float]]) -> dict[str, dict]:
    """Return the numbers of each system, by its name on the command line."""
    model, result = workload.experiment.model, {}
    first = next(iter(taken.values()))
    for name, system in taken.items():
        result[name] = numbers(system, model, median(products[system.dtype])) | {
            "name": SYSTEMS[name].name,
            "times_slower": ratio(speeds(first), speeds(system)),
            "hours": {steps: hours(steps, tokens_a_step(first), system) for steps in HORIZONS},
        }
    return result


def numbers(system: Taken, model: Model, ceiling: float) -> dict:
    """Return those numbers of a system that depend on no other system."""
    source, target = tokens_of(system)
    positions = sum(step.positions for step in system.steps)
    return {
        "products": dtype_name(system.dtype),
        "seconds": system.seconds,
        "source_tokens": source,
        "target_tokens": target,
        "target_tokens_per_second": median(speeds(system)),
        "tokens_per_second": median((s + t) / sec for s, t, sec in zip(source, target, system.seconds, strict=True)),
        "seconds_per_step": median(system.seconds) / len(system.turns[0]),
        "padding_share": 1 - (sum(source) + sum(target)) / positions,
        "flops_utilisation": utilisation(model, system, ceiling),
    }


def tokens_of(system: Taken) -> tuple[list[int], list[int]]:
    """Return the source and the target tokens of each turn, without padding."""
    return tuple([sum(int(step.lengths[side].sum()) for step in turn) for turn in system.turns] for side in (0, 1))


def speeds(system: Taken) -> list[float]:
    """Return the target tokens a second in each turn."""
    return [tokens / seconds for tokens, seconds in zip(tokens_of(system)[1], system.seconds, strict=True)]


def utilisation(model: Model, system: Taken, ceiling: float) -> float:
    """Return the model FLOP utilisation: the FLOP/s for tokens, without padding, as a share of bare products'.

    It is the median over turns of training_flops(tokens) / (seconds x ceiling), where `ceiling` is in FLOP/s.
    """
    flops = [sum(training_flops(model, sums_of(step.lengths)) for step in turn) for turn in system.turns]
    return median(each / (seconds * ceiling) for each, seconds in zip(flops, system.seconds, strict=True))


def tokens_a_step(system: Taken) -> float:
    """Return the mean number of target tokens in a step."""
    return sum(tokens_of(system)[1]) / len(system.steps)


def hours(steps: int, target_tokens: float, system: Taken) -> float:
    """Return the hours until `system` has learned from `steps` times `target_tokens` target tokens."""
    return steps * target_tokens / median(speeds(system)) / HOUR


def losses(taken: dict[str, Taken], every: int) -> dict[str, list[float]]:
    """Return the mean losses of `every` steps each, for the systems that had the same batches."""
    means = {}
    for name, system in taken.items():
        steps = system.steps
        if steps[0].loss:
            numbers = [step.loss() for step in steps]
            starts = range(0, len(numbers) - every + 1, every)
            means[name] = [sum(numbers[start : start + every]) / every for start in starts]
    return means


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def alone(name: str, args: argparse.Namespace) -> int:
    """Return the most bytes that a system holds in a process of its own."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "alone.json"
        options = {"systems": name, "steps": args.memory_steps, "in-a-row": 1, "warm-up": 0, "memory-steps": 0}
        options |= {"output": output, "run": args.run, "data": args.data, "model": args.model, "tokens": args.tokens}
        options |= {"threads": args.threads, "pairs": args.pairs}
        words = [str(word) for key, value in options.items() if value is not None for word in (f"--{key}", value)]
        subprocess.run([sys.executable, "-m", "benchmarks.train", *words], check=True, stdout=subprocess.DEVNULL)
        return read_json(output)["peak_bytes"]


def table(result: dict) -> str:
    """Return the result in Markdown."""
    rows = [row(system, result["systems"]) for system in result["systems"].values()]
    title = f"Training: {result['model']}, batches of {result['budgets'][0]:,} + {result['budgets'][1]:,} tokens"
    return markdown(title, rows, result, ending_losses(result))


def ending_losses(result: dict) -> list[str]:
    """Return a line with the last losses of the systems that had the same batches, or no line."""
    last = [f"{result['systems'][name]['name']} {means[-1]:.3f}" for name, means in result["losses"].items() if means]
    taken = result["arguments"]["warm_up"] + result["arguments"]["steps"]
    return [f"Loss on the same batches around step {taken}: {'; '.join(last)}."] if last else []


def row(system: dict, systems: dict) -> dict:
    """Return a system's line of the table."""
    first = next(iter(systems.values()))
    peak = system.get("peak_bytes")
    return {
        "System": system["name"],
        "Products": system["products"],
        "Target tokens/s": f"{system['target_tokens_per_second']:,.0f}",
        "Source + target tokens/s": f"{system['tokens_per_second']:,.0f}",
        "Seconds a step": f"{system['seconds_per_step']:.3f}",
        "Padding": f"{system['padding_share']:.0%}",
        "Utilisation": f"{system['flops_utilisation']:.0%}",
        "Peak memory": f"{peak / 2**30:.2f} GiB" if peak else "",
        **{f"Hours to {steps:,} steps": f"{float(hours):,.1f}" for steps, hours in pairs_of_hours(system)},
        f"{first['name'].capitalize()} is faster": f"{system['times_slower']:.2f} x",
    }


def pairs_of_hours(system: dict) -> list[tuple[int, float]]:
    """Return pairs of steps and hours; the steps may be text, as all keys of JSON are."""
    return [(int(steps), hours) for steps, hours in system["hours"].items()]


if __name__ == "__main__":
    command(main)
