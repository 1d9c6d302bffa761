"""A scale of the configuration: its sections, its tasks and its runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, structs, to_builtins

from transformer.config.experiment import (
    PARTS,
    RECIPES,
    Decoding,
    Experiment,
    Model,
    Preprocessing,
    Training,
    contradiction,
)
from transformer.config.schema import Config, Download, ParsingTask, Scale, Source, TranslationTask
from transformer.storage.files import InputError
from transformer.storage.reading import Misfit, Place, structured

PARSER = "parser"  # the experiment of every parsing task; `parsing` in config.yaml has its settings
TABLE_2 = ("base", "big")  # Table 2 has these experiments and all baselines; Table 3 has all experiments
BLEU_VARIANTS = ("base", "dropout-0.0", "smoothing-0.0")  # the table `bleu_variants` compares these experiments
# A task may replace these keys of the preprocessing.
OF_TASK = ("decapitalize", "lowercase", "max_words", "max_ratio", "tokenizer")
_DIVIDED = {"width": ("d_model", "d_ff", "d_k", "d_v"), "depth": ("N",)}  # divisor: divided keys
_THREADS_PER_GPU = 4  # per training: one thread launches the GPU's kernels, the other threads compile


class RunName(NamedTuple):
    """The name of a run: its folder in results/{scale}/runs."""

    task: str
    experiment: str
    seed: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class RowFault(InputError):
    """An invalid value of a run. `places`: all keys that may set the value; the first key takes precedence."""

    def __init__(self, problem: str, places: list[Place]):
        super().__init__(problem)
        self.places = places


def set_keys(section: Struct) -> dict[str, Any]:
    """Return the set keys of a section with their values."""
    return {key: value for key, value in structs.asdict(section).items() if value is not UNSET}


@dataclass(frozen=True)
class ScaleSettings:
    """A scale of the configuration, merged with the configuration's common sections."""

    config: Config
    name: str = ""  # the default is the configuration's scale

    def __post_init__(self):
        object.__setattr__(self, "name", self.name or self.config.scale)

    @property
    def entry(self) -> Scale:
        return self.config.scales[self.name]

    @property
    def parsing(self) -> dict[str, ParsingTask]:
        return self.entry.parsing.tasks if self.entry.parsing else {}

    @cached_property
    def tasks(self) -> dict[str, TranslationTask | ParsingTask]:
        """Return all tasks by name: translation tasks, then parsing tasks."""
        return {**self.entry.tasks, **self.parsing}

    @property
    def first_task(self) -> str:
        """Return the task of Tables 3 and 5: en-de in the paper."""
        return next(iter(self.entry.tasks))

    # ------------------------------------------------------------------ sections

    def section(self, name: str) -> Any:
        """Return a section of the configuration. Values of the scale's section of this name take precedence."""
        own = getattr(self.entry, name)
        return structs.replace(getattr(self.config, name), **(set_keys(own) if own else {}))

    def preprocessing(self, task: str) -> Preprocessing:
        """Return the preprocessing of a task's text: the scale's settings, with the task's changes."""
        entry = self.tasks[task]
        own = {key: value for key in OF_TASK if (value := getattr(entry, key, None)) is not None}
        return structs.replace(self.section("preprocessing"), **own)

    def decoding(self, task: str) -> Decoding:
        found = self.config.parsing.decoding if task in self.parsing else self.section("decoding")
        return Decoding(**set_keys(found))

    def silver_decoding(self) -> Decoding:
        return Decoding(**set_keys(self.config.parsing.silver))

    # ------------------------------------------------------------------ runs

    @property
    def experiments(self) -> dict[str, Struct]:
        """Return the rows of Tables 2, 3 and 5, by name."""
        return self.config.experiments | self.config.baselines | self.config.ablations

    def runs(self, tasks: Iterable[str], experiments: Iterable[str]) -> list[RunName]:
        """Return a run for each task, experiment and seed. Experiments that are not in the scale's rows are skipped."""
        names = filter(lambda name: self._trains(*name), product(tasks, experiments))
        return [RunName(task, row, seed) for task, row in names for seed in self.seeds(task, row)]

    def _trains(self, task: str, experiment: str) -> bool:
        limits = self.entry.rows, self.entry.tasks[task].rows
        return all(rows is None or experiment in rows for rows in limits)

    def seeds(self, task: str, experiment: str) -> list[int]:
        """Return the seeds of an experiment: from the task's `seeds_of`, the scale's `seeds_of` or its `seeds`."""
        own = (self.entry.seeds_of or {}) | (self.entry.tasks[task].seeds_of or {})
        return own.get(experiment, self.entry.seeds)

    def parser_runs(self) -> list[RunName]:
        return [RunName(task, PARSER, seed) for task in self.parsing for seed in self.entry.parsing.seeds]

    def table_2_runs(self) -> list[RunName]:
        return self.runs(self.entry.tasks, [*TABLE_2, *self.config.baselines])

    def table_3_runs(self) -> list[RunName]:
        """Return the runs of Table 3, which has only the first task."""
        return self.runs([self.first_task], self.config.experiments)

    def table_5_runs(self) -> list[RunName]:
        """Return the runs of Tables 3 and 5: all of them contribute to the estimate of the seed variance."""
        return self.runs([self.first_task], [*self.config.experiments, *self.trained_ablations])

    def all_runs(self) -> list[RunName]:
        """Return all runs without duplicates."""
        return list(dict.fromkeys([*self.table_5_runs(), *self.table_2_runs(), *self.parser_runs()]))

    @cached_property
    def trained_ablations(self) -> list[str]:
        """Return the ablations to train. Skip one that contradicts base, equals base, or equals an earlier ablation."""
        base = set_keys(self.config.base) | set_keys(self.entry.base)
        tested: dict[str, dict] = {}
        for name, row in self.config.ablations.items():
            own = set_keys(row) | set_keys((self.entry.experiments or {}).get(name, row))
            whole = base | own
            # A row that contradicts itself stays in the list, so that `experiment` refuses it.
            if contradiction(own) or (whole not in (base, *tested.values()) and not contradiction(whole)):
                tested[name] = whole
        return list(tested)

    # ------------------------------------------------------------------ one run

    def experiment(self, run: RunName) -> Experiment:
        """Return a run's settings: merge its rows, then divide by the scale's width and depth.

        Raises RowFault naming the key.
        """
        rows = self._rows(run)
        values = _merged(map(set_keys, rows.values()))
        for divisor, keys in _DIVIDED.items():
            by = getattr(self.entry, divisor)
            for key in values.keys() & keys:
                if values[key] % by:
                    problem = f"{values[key]} cannot be divided by {by}; change it, or remove the row from `rows`"
                    raise RowFault(f"{run.task}: {run.experiment}: {key}: {problem}", _sources(rows, key))
                values[key] //= by
        values |= self._embedding(run.task)
        fields = [field for kind in (Model, Training) for field in structs.fields(kind)]
        model, training = (
            {field.encode_name: values[field.name] for field in structs.fields(kind) if field.name in values}
            for kind in (Model, Training)
        )
        about = self._about(run) | {"model": model, "training": training}
        try:
            return structured(about, Experiment, "")
        except Misfit as fault:
            key = next((field.name for field in fields if field.encode_name == fault.place[-1]), str(fault.place[-1]))
            raise RowFault(f"{run.task}: {run.experiment}: {key}: {fault.problem}", _sources(rows, key)) from None

    def _rows(self, run: RunName) -> dict[Place, Struct]:
        """Return a run's rows by their places in config.yaml. A later row takes precedence."""
        config, entry, scale = self.config, self.entry, ("scales", self.name)
        rows = {("optimizer",): config.optimizer, ("base",): config.base, (*scale, "base"): entry.base}
        if run.experiment == PARSER:
            own = entry.parsing.tasks[run.task].parser
            rows |= {("parsing", "parser"): config.parsing.parser, (*scale, "parsing", "parser"): entry.parsing.parser}
            return rows | ({(*scale, "parsing", "tasks", run.task, "parser"): own} if own else {})
        tables = {
            ("experiments",): config.experiments,
            ("baselines",): config.baselines,
            ("ablations",): config.ablations,
            (*scale, "experiments"): entry.experiments or {},
            (*scale, "tasks", run.task, "experiments"): entry.tasks[run.task].experiments or {},
        }
        return rows | {
            (*place, run.experiment): table[run.experiment]
            for place, table in tables.items()
            if run.experiment in table
        }

    def _embedding(self, name: str) -> dict[str, int]:
        """Return the number of rows of a task's embedding, and the number of rows that can be output."""
        task = self.tasks[name]
        if task.parses:  # the first rows are the symbols
            return {"embedding_rows": task.symbols + task.vocabulary, "output_rows": task.symbols}
        return {"embedding_rows": task.embedding_rows, "output_rows": task.embedding_rows}

    def _about(self, run: RunName) -> dict[str, Any]:
        """Return all fields of an Experiment except its model and its training."""
        task, logging = self.tasks[run.task], self.section("logging")
        if task.parses:  # BLEU does not measure trees
            logging = structs.replace(logging, bleu_sentences=0)
        about = {
            "scale": self.name,
            "label": task.label if task.parses else self.entry.label,
            "fidelity": RECIPES[self.config.recipe],
            "source": task.languages[0],
            "target": task.languages[1],
            "preparation": self.preprocessing(run.task),
            "running": logging,
        }
        return run._asdict() | to_builtins(about)

    # ------------------------------------------------------------------ corpora

    def sources(self, tasks: Iterable[str]) -> list[Source]:
        """Return the sources of the corpus files that these tasks use. Files in other languages are left out."""
        files = dict.fromkeys(file[1:] for task in tasks for file in self.tasks[task].files())
        found = (self.config.corpora[corpus].sources().get(ending) for corpus, ending in files)
        return [source for source in found if source is not None]

    def downloads(self, tasks: Iterable[str]) -> dict[str, Download]:
        """Return the downloads of these tasks by name."""
        return {
            source.download: self.config.downloads[source.download] for source in self.sources(tasks) if source.download
        }

    @property
    def absent_treebank(self) -> str | None:
        """Return the Penn Treebank's folder if Table 4 needs it and it is missing. `all` then skips Table 4."""
        banks = [source.path for source in self.sources(self.parsing) if getattr(source, "sections", None)]
        return next((path for path in banks if not Path(path).exists()), None)


def _merged(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge rows. A row that changes the architecture drops the keys of the previous architecture."""
    values: dict[str, Any] = {}
    for row in rows:
        if row.get("architecture", former := values.get("architecture", "transformer")) != former:
            values = {key: value for key, value in values.items() if key not in PARTS[former]}
        values |= row
    return values


def _sources(rows: dict[Place, Struct], key: str) -> list[Place]:
    """Return the places that may set a run's key. The first place takes precedence."""
    return [(*place, key) for place in reversed(rows)]


def training_threads(resources: Mapping[str, object]) -> int | None:
    """Return a training's processor threads per node. Return None if the training is not started by Slurm.

    resources: the profile's `launch`, `gpu` and `nodes`. Raises InputError if `gpu` or `nodes` is no whole number.
    """
    if resources.get("launch", "here") == "here":
        return None
    asked = {name: resources.get(name, 1) for name in ("gpu", "nodes")}
    if wrong := [name for name, count in asked.items() if not str(count).isdecimal()]:
        raise InputError(f"{wrong[0]}: expected a whole number, found {asked[wrong[0]]!r}")
    gpus, nodes = (int(str(count)) for count in asked.values())
    return _THREADS_PER_GPU * max(1, gpus // max(1, nodes))
