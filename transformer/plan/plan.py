"""The cost of a scale: FLOPs, hours and disk space of each table, and of all that Snakemake's `all` makes."""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from transformer.config.corpora import absent_treebank
from transformer.config.experiment import Experiment, resolve
from transformer.config.runs import CURVES, PARSER, RunName, parts, runs_of_tables
from transformer.config.scales import parsing_of, scale_of
from transformer.model.cost import Lengths, training_flops
from transformer.plan import storage
from transformer.plan.speed import Speed

SENTENCE = 30  # tokens, of WMT's mean sentence
HOUR = 3600  # seconds


@dataclass(frozen=True)
class Plan:
    """The runs of a scale, the tables that take them, and the machine that trains them."""

    runs: dict[RunName, Experiment]
    tables: dict[str, list[RunName]]
    base: RunName  # the run that figures of a single training show
    absent: str | None  # the treebank's folder where table4 needs it and it does not exist
    after: dict[RunName, RunName]  # the run that a run has to wait for
    speed: Speed
    units: int  # GPUs or cores

    @property
    def made(self) -> list[str]:
        """The tables that `all` makes."""
        return [table for table in self.tables if table != "table4" or not self.absent]

    @property
    def all(self) -> list[RunName]:
        """The runs that `all` needs, each once."""
        return distinct(self.tables[table] for table in self.made)

    @property
    def figures(self) -> dict[str, list[RunName]]:
        """Return the runs of the figures that show trainings of Tables 2 to 4; those of probes show Table 5's."""
        drawn = distinct(self.tables[table] for table in CURVES if table in self.made)
        return {"attention, positions": [self.base], "curves, BLEU by FLOPs": drawn}

    def shared(self, table: str) -> list[RunName]:
        """Return those of a table's runs that another table takes, too."""
        elsewhere = {run for name, runs in self.tables.items() if name != table for run in runs}
        return [run for run in self.tables[table] if run in elsewhere]

    def steps(self, runs: Collection[RunName]) -> int:
        """Return the training steps of `runs`."""
        return sum(self.runs[run].training.steps for run in runs)

    def flops(self, runs: Collection[RunName]) -> float:
        """Return the FLOPs of `runs`."""
        return sum(flops(self.runs[run]) for run in runs)

    def disk(self, runs: Collection[RunName]) -> int:
        """Return the bytes that `runs` keep."""
        return sum(storage.run_bytes(self.runs[run]) for run in runs)

    @property
    def saving(self) -> int:
        """The bytes of states that are being written while the states before them still exist."""
        states = sorted((storage.state_bytes(self.runs[run]) for run in self.all), reverse=True)
        return sum(states[: self.units])

    def hours(self, runs: Collection[RunName]) -> float:
        """Return the hours that one GPU, or one core, takes for `runs`."""
        return self.flops(runs) / self.speed.flops_per_second / HOUR

    def wall(self, runs: Collection[RunName]) -> float:
        """Return the hours until all runs are trained: each on one GPU, or one after another on all cores."""
        if self.speed.unit != "GPU":
            return self.hours(runs) / self.units
        return side_by_side({run: self.hours([run]) for run in runs}, self.after, self.units)


def make_plan(config: dict, speed: Speed, units: int) -> Plan:
    """Return the plan of a configuration's scale on `units` GPUs or cores of a `speed`."""
    tables, scale = runs_of_tables(config), scale_of(config)
    runs = {run: resolve(parts(config, run)) for run in distinct(tables.values())}
    base = RunName(next(iter(scale["tasks"])), "base", scale["seeds"][0])
    return Plan(runs, tables, base, absent_treebank(config), makers(config), speed, units)


def makers(config: dict) -> dict[RunName, RunName]:
    """Return the parser whose trees another parser learns from, and which must end first, by the name of the other."""
    parsing = parsing_of(config)
    return {
        RunName(name, PARSER, seed): RunName(task["silver"]["parser"], PARSER, parsing["seeds"][0])
        for name, task in parsing["tasks"].items()
        if "parser" in task.get("silver", {})
        for seed in parsing["seeds"]
    }


def distinct(groups: Iterable[list[RunName]]) -> list[RunName]:
    """Return each run of the groups once, in their order."""
    return list(dict.fromkeys(run for runs in groups for run in runs))


def flops(run: Experiment) -> float:
    """Return the FLOPs of a training whose batches are all full, of sentences of WMT's mean length."""
    source, target = run.training.source_tokens, run.training.target_tokens
    lengths = Lengths(source, target, SENTENCE * source, SENTENCE * target, SENTENCE * target)
    return run.training.steps * training_flops(run.model, lengths)


def side_by_side(hours: dict[RunName, float], after: dict[RunName, RunName], gpus: int) -> float:
    """Return the hours until all runs are done, each on one of the GPUs.

    Runs start longest first, together with the run that waits for them. `after` names the run that a run waits for.
    """
    chain = {run: own + max((hours[o] for o in hours if after.get(o) == run), default=0) for run, own in hours.items()}
    waiting, ends, free = sorted(hours, key=chain.get, reverse=True), {}, [0.0] * gpus
    while waiting:
        now = free[0]
        ready = [run for run in waiting if after.get(run) not in hours or ends.get(after[run], now + 1) <= now]
        if not ready:  # this GPU has to wait until a run on another one ends
            heapq.heapreplace(free, min(end for end in ends.values() if end > now))
            continue
        waiting.remove(ready[0])
        ends[ready[0]] = now + hours[ready[0]]
        heapq.heapreplace(free, ends[ready[0]])
    return max(ends.values(), default=0.0)
