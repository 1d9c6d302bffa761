"""What a scale costs: FLOPs, hours and money of each table, and of all that Snakemake's `all` makes, each run once."""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from transformer.config.corpora import absent_treebank
from transformer.config.elsewhere import makers, taken
from transformer.config.experiment import Experiment, resolve
from transformer.config.runs import RunName, parts, runs_of_tables
from transformer.config.scales import scale_of
from transformer.model.cost import Lengths, training_flops
from transformer.plan import storage
from transformer.plan.speed import Speed

SENTENCE = 30  # tokens, of WMT's mean sentence
HOUR = 3600  # seconds


@dataclass(frozen=True)
class Plan:
    """The runs of each row by name, and what they are trained with."""

    runs: dict[RunName, Experiment]
    tables: dict[str, list[RunName]]
    base: RunName  # that stands for its experiment
    absent: str | None  # the treebank that table4 lacks
    after: dict[RunName, RunName]  # what a run has to wait for
    taken: set[RunName]  # made elsewhere, and not trained here
    speed: Speed
    units: int  # GPUs, or cores

    @property
    def made(self) -> list[str]:
        """The tables that `all` makes."""
        return [table for table in self.tables if table != "table4" or not self.absent]

    @property
    def all(self) -> list[RunName]:
        """The runs that `all` trains, each once."""
        return distinct(self.tables[table] for table in self.made)

    @property
    def trained(self) -> list[RunName]:
        """Those of them that were not made elsewhere."""
        return self.here(self.all)

    def here(self, runs: Collection[RunName]) -> list[RunName]:
        """Those of some runs that are trained here."""
        return [run for run in runs if run not in self.taken]

    @property
    def figures(self) -> dict[str, list[RunName]]:
        """The runs of the figures that show trainings; the others are of configurations, or of layers."""
        return {"attention, positions": [self.base], "curves, BLEU by FLOPs": self.all}

    def shared(self, table: str) -> list[RunName]:
        """Those of a table's runs that another table takes, too."""
        others = {run for other, runs in self.tables.items() if other != table for run in runs}
        return [run for run in self.tables[table] if run in others]

    def steps(self, runs: Collection[RunName]) -> int:
        return sum(self.runs[run].training.steps for run in self.here(runs))

    def flops(self, runs: Collection[RunName]) -> float:
        return sum(flops(self.runs[run]) for run in self.here(runs))

    def disk(self, runs: Collection[RunName]) -> int:
        """Bytes; of a run made elsewhere no states are taken."""
        states = {run: 0 if run in self.taken else storage.STATES for run in runs}
        return sum(storage.of_run(self.runs[run], kept) for run, kept in states.items())

    @property
    def saving(self) -> int:
        """Bytes of the states that are written while those before them are still there."""
        states = sorted((storage.of_state(self.runs[run]) for run in self.trained), reverse=True)
        return sum(states[: self.units])

    def hours(self, runs: Collection[RunName]) -> float:
        """Of a GPU, or a core."""
        return self.flops(runs) / self.speed.flops_per_second / HOUR

    def wall(self, runs: Collection[RunName]) -> float:
        """Hours until all are trained: each on a GPU of its own, or on all cores one after another."""
        if self.speed.unit != "GPU":
            return self.hours(runs) / self.units
        return side_by_side({run: self.hours([run]) for run in self.here(runs)}, self.after, self.units)


def make(config: dict, speed: Speed, units: int) -> Plan:
    """The plan of a configuration's scale."""
    tables, scale = runs_of_tables(config), scale_of(config)
    runs = {run: resolve(parts(config, run)) for run in distinct(tables.values())}
    base = RunName(next(iter(scale["tasks"])), "base", scale["seeds"][0])
    return Plan(runs, tables, base, absent_treebank(config), makers(config), taken(config), speed, units)


def distinct(groups: Iterable[list[RunName]]) -> list[RunName]:
    """Each run once."""
    return list(dict.fromkeys(run for runs in groups for run in runs))


def flops(run: Experiment) -> float:
    """FLOPs of a training whose batches are all full, of sentences of WMT's mean length."""
    source, target = run.training.source_tokens, run.training.target_tokens
    lengths = Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)
    return run.training.steps * training_flops(run.model, lengths)


def side_by_side(hours: dict[RunName, float], after: dict[RunName, RunName], gpus: int) -> float:
    """Hours until all runs are done, each on one of the GPUs, the longest first, with what has to wait for it."""
    chain = {run: own + max((hours[o] for o in hours if after.get(o) == run), default=0) for run, own in hours.items()}
    waiting, ends, free = sorted(hours, key=chain.get, reverse=True), {}, [0.0] * gpus
    while waiting:
        now = free[0]
        ready = [run for run in waiting if after.get(run) not in hours or ends.get(after[run], now + 1) <= now]
        if not ready:  # this GPU has to wait for another's run
            heapq.heapreplace(free, min(end for end in ends.values() if end > now))
            continue
        waiting.remove(ready[0])
        ends[ready[0]] = now + hours[ready[0]]
        heapq.heapreplace(free, ends[ready[0]])
    return max(ends.values(), default=0.0)


class Bought(NamedTuple):
    """What a budget pays for."""

    alone: list[str]  # tables, each of which fits by itself
    together: list[str]
    left: float


def buy(plan: Plan, price: float, budget: float) -> Bought:
    """Tables in the plan's order, each that fits with those before it; a run is paid once."""
    alone = [table for table in plan.made if cost_of(plan, [table], price) <= budget]
    together: list[str] = []
    for table in plan.made:
        if cost_of(plan, [*together, table], price) <= budget:
            together.append(table)
    return Bought(alone, together, budget - cost_of(plan, together, price))


def cost_of(plan: Plan, tables: list[str], price: float) -> float:
    """Of the runs of these tables, each once."""
    return plan.hours(distinct(plan.tables[table] for table in tables)) * price
