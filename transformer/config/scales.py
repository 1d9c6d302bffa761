"""A scale of the configuration: its sections, its tasks, and which runs there are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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

PARSER = "parser"  # the experiment of every parsing task, which `parsing` in config.yaml describes
TABLE_2 = ("base", "big")  # the experiments that are its rows, beside all baselines; Table 3's are all
BLEU_VARIANTS = ("base", "dropout-0.0", "smoothing-0.0")  # the experiments that the table `bleu_variants` compares
# Keys of the preprocessing that a task may have.
_OF_TASK = ("decapitalize", "lowercase", "max_words", "max_ratio", "tokenizer")
_DIVIDED = {"width": ("d_model", "d_ff", "d_k", "d_v"), "depth": ("N",)}  # by these keys of a scale
_THREADS_PER_GPU = 4  # of a training: one starts the GPU's work, the others compile
SectionKind = TypeVar("SectionKind", bound=Struct)


class RunName(NamedTuple):
    """A run's folder in results/{scale}/runs."""

    task: str
    experiment: str
    seed: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class RowFault(InputError):
    """A value that a run cannot have. `places`: the keys that may give the value, the one that counts first."""

    def __init__(self, problem: str, places: list[Place]):
        super().__init__(problem)
        self.places = places


def laid_over(section: SectionKind, *changes: Struct | None) -> SectionKind:
    """Return a section with the keys that changes give, of several the last."""
    given = {key: value for each in changes if each is not None for key, value in set_keys(each).items()}
    return structs.replace(section, **given)


def set_keys(section: Struct) -> dict[str, Any]:
    """Return the keys that a section gives with their values."""
    return {key: value for key, value in structs.asdict(section).items() if value is not UNSET}


@dataclass(frozen=True)
class ScaleSettings:
    """A scale as the configuration has it, with all that it takes over from the configuration's common sections."""

    config: Config
    name: str = ""  # of the configuration's scale, if not given

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
        """Return all tasks by name, those of translation first."""
        return {**self.entry.tasks, **self.parsing}

    @property
    def first_task(self) -> str:
        """Return the task of Tables 3 and 5: en-de in the paper."""
        return next(iter(self.entry.tasks))

    # ------------------------------------------------------------------ sections

    def section(self, name: str) -> Any:
        """Return a section of the configuration with the values of the scale's own section of this name."""
        return laid_over(getattr(self.config, name), getattr(self.entry, name))

    def preprocessing(self, task: str) -> Preprocessing:
        """Return the preprocessing of a task's text: the scale's, with what a translation task says of its own."""
        entry = self.tasks[task]
        own = {key: value for key in _OF_TASK if (value := getattr(entry, key, None)) is not None}
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
        """Return a run of each task and experiment with each of the experiment's seeds, if it is a row of the scale."""
        rows = [name for name in experiments if self.entry.rows is None or name in self.entry.rows]
        return [RunName(task, row, seed) for task, row in product(tasks, rows) for seed in self.seeds(task, row)]

    def seeds(self, task: str, experiment: str) -> list[int]:
        """Return the seeds of an experiment: its own in the task or at the scale, or those of all."""
        own = (self.entry.seeds_of or {}) | (self.entry.tasks[task].seeds_of or {})
        return own.get(experiment, self.entry.seeds)

    def parser_runs(self) -> list[RunName]:
        return [RunName(task, PARSER, seed) for task in self.parsing for seed in self.entry.parsing.seeds]

    def table_2_runs(self) -> list[RunName]:
        return self.runs(self.entry.tasks, [*TABLE_2, *self.config.baselines])

    def table_3_runs(self) -> list[RunName]:
        """Return the rows of Table 3, which are trained on the first task only."""
        return self.runs([self.first_task], self.config.experiments)

    def table_5_runs(self) -> list[RunName]:
        """Return the rows of Tables 3 and 5: the seed variance is estimated from all."""
        return self.runs([self.first_task], [*self.config.experiments, *self.trained_ablations])

    def all_runs(self) -> list[RunName]:
        """Return all trainings, each once."""
        return list(dict.fromkeys([*self.table_5_runs(), *self.table_2_runs(), *self.parser_runs()]))

    @cached_property
    def trained_ablations(self) -> list[str]:
        """Return the ablations that contradict nothing in base and differ from base and from each other."""
        base = set_keys(self.config.base) | set_keys(self.entry.base)
        tested: dict[str, dict] = {}
        for name, row in self.config.ablations.items():
            own = set_keys(row) | set_keys(self.entry.experiments.get(name, row))
            whole = base | own
            # A row that contradicts itself is kept: it is refused where it is resolved.
            if contradiction(own) or (whole not in (base, *tested.values()) and not contradiction(whole)):
                tested[name] = whole
        return list(tested)

    # ------------------------------------------------------------------ one run

    def experiment(self, run: RunName) -> Experiment:
        """Return a run: the rows that it consists of laid over each other, then divided by the scale's width and depth.

        Raises RowFault naming the key.
        """
        rows = self._rows(run)
        values = _merged(map(set_keys, rows.values()))
        for divisor, keys in _DIVIDED.items():
            by = getattr(self.entry, divisor)
            for key in values.keys() & keys:
                if values[key] % by:
                    problem = f"{values[key]} cannot be divided by {by}; give another, or leave it out of `rows`"
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
        """Return the rows that a run consists of by their places in config.yaml; a later one wins."""
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
            (*scale, "experiments"): entry.experiments,
            (*scale, "tasks", run.task, "experiments"): entry.tasks[run.task].experiments or {},
        }
        return rows | {
            (*place, run.experiment): table[run.experiment]
            for place, table in tables.items()
            if run.experiment in table
        }

    def _embedding(self, name: str) -> dict[str, int]:
        """Return the rows of a task's embedding, and how many of them can be written."""
        task = self.tasks[name]
        if task.parses:  # symbols are the first rows
            return {"embedding_rows": task.symbols + task.vocabulary, "output_rows": task.symbols}
        return {"embedding_rows": task.embedding_rows, "output_rows": task.embedding_rows}

    def _about(self, run: RunName) -> dict[str, Any]:
        """Return the fields of an Experiment other than its model and its training."""
        task, logging = self.tasks[run.task], self.section("logging")
        if task.parses:  # whose output BLEU does not measure
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
        """Return the sources of the files of these tasks: of a corpus only the languages of a task."""
        files = dict.fromkeys(file[1:] for task in tasks for file in self.tasks[task].files())
        found = (self.config.corpora[corpus].source_of(ending) for corpus, ending in files)
        return [source for source in found if source is not None]

    def downloads(self, tasks: Iterable[str]) -> dict[str, Download]:
        """Return the downloads of the files of these tasks by their names."""
        return {
            source.download: self.config.downloads[source.download] for source in self.sources(tasks) if source.download
        }

    @property
    def absent_treebank(self) -> str | None:
        """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
        banks = [source.path for source in self.sources(self.parsing) if getattr(source, "sections", None)]
        return next((path for path in banks if not Path(path).exists()), None)


def _merged(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Lay rows over each other. A row that changes the architecture takes over nothing that only the former one has."""
    values: dict[str, Any] = {}
    for row in rows:
        if row.get("architecture", former := values.get("architecture", "transformer")) != former:
            values = {key: value for key, value in values.items() if key not in PARTS[former]}
        values |= row
    return values


def _sources(rows: dict[Place, Struct], key: str) -> list[Place]:
    """Return the places that may give a run this key, the one that counts first."""
    return [(*place, key) for place in reversed(rows)]


def training_threads(resources: Mapping[str, object]) -> int | None:
    """Return the processor threads of a training on each node; None where no profile has Slurm start it.

    resources: `launch`, `gpu` and `nodes`, as a profile gives them. Raises InputError if the last two are no numbers.
    """
    if resources.get("launch", "here") == "here":
        return None
    asked = {name: resources.get(name, 1) for name in ("gpu", "nodes")}
    if wrong := [name for name, count in asked.items() if not str(count).isdecimal()]:
        raise InputError(f"{wrong[0]}: expected a whole number, found {asked[wrong[0]]!r}")
    gpus, nodes = (int(str(count)) for count in asked.values())
    return _THREADS_PER_GPU * max(1, gpus // max(1, nodes))
