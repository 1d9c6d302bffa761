"""One scale of a configuration: its tasks, its trainings, and which of their files are there."""

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from msgspec.structs import asdict

from transformer.config.experiment import Model, load, resolve
from transformer.config.scales import RunName, absent_treebank, parsing_of, parts, scale_of, seeds_of, tasks_of
from transformer.layout import Resources, Run, Scale

RESOURCES = Resources("resources")
_BASE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "epsilon_ls")  # what Table 3 says of base
_UNTOLD = ("checkpoint_every", "averaged_checkpoints")


class Pipeline:
    """A scale, as the configuration has it: its entry, its tasks, and the folder of its results."""

    def __init__(self, config: dict, project: str = ""):
        """Take a configuration with the scale's name under `scale`, and the project's folder if it is not here."""
        self.config, self.project = config, project
        self.name, self.entry = config["scale"], scale_of(config)
        self.files = Scale(f"{config['results']}/{self.name}")
        self.partial = config["partial"]  # tables and page show finished runs alone, and name the others
        self.tasks = tasks_of(config)  # of translation and of parsing
        self.parsing = parsing_of(config)["tasks"]
        self.first_task = next(iter(self.entry["tasks"]))  # that of Tables 3 and 5: en-de in the paper
        self.label = self.entry["label"]  # of the test set, in tables
        self.dev_label = f"{self.name}: {self.tasks[self.first_task]['dev']}"  # in Tables 3 and 5
        self.absent_treebank = absent_treebank(config)  # the folder of the Penn Treebank, if the scale lacks it
        self.data_of_paper = self.entry.get("data_of_paper", False)  # then scores are compared with the paper's

    def values(self, experiments: Iterable[str]) -> dict[str, str]:
        """Return the settings of the first task's runs, by experiment: of base all, of others what differs."""
        settings = {}
        for name in ("base", *experiments):
            run = resolve(parts(self.config, self.base(name)))
            settings[name] = asdict(run.model) | asdict(run.training)
        base = settings["base"]
        changed = {
            name: {key: value for key, value in own.items() if value != base[key] and key not in _UNTOLD}
            for name, own in settings.items()
        }
        changed["base"] = {key: base[key] for key in _BASE}
        texts = {name: ", ".join(f"{key}={value}" for key, value in own.items()) for name, own in changed.items()}
        kept = {name: "h" in own and not {"d_k", "d_v"} & own.keys() for name, own in changed.items()}
        return {name: text + " (d_k and d_v as in base)" * kept[name] for name, text in texts.items()}

    @property
    def probes(self) -> dict:
        """Return the settings of the analyses at this scale."""
        return self.config["probes"] | self.entry.get("probes", {})

    def paper(self, table: str) -> Path:
        """Return the file with the numbers that the paper printed."""
        return Path(self.project, f"workflow/paper/{table}.csv")

    def run(self, run: RunName) -> Run:
        return self.files.run(*run)

    def text(self, task: str, split: str, side: str) -> list[Path]:
        """Return the plain text of one side of a split; `trees` is the side of treebanks."""
        entry = self.tasks[task]
        corpora = entry[split] if isinstance(entry[split], list) else [entry[split]]
        return [RESOURCES.corpus(corpus, entry.get(side, side)) for corpus in corpora]

    def fixed(self, path: Path) -> Path:
        """Return the path; of a partial page's finished file in a spelling of no rule, so that it is not made anew."""
        if not (self.partial and path.exists()):
            return path
        return Path(os.path.relpath(path)) if self.files.folder.is_absolute() else path.absolute()

    def of_runs(self, runs: Iterable[RunName], file: Callable[[Run], Path]) -> list[Path]:
        """Return this file of each run; of a partial page those that are there."""
        paths = [self.fixed(file(self.run(run))) for run in runs]
        return [path for path in paths if not self.partial or path.exists()]

    def base(self, experiment: str = "base") -> RunName:
        """Return the run that stands for an experiment: of the first task, with its first seed."""
        return RunName(self.first_task, experiment, seeds_of(self.entry, self.first_task, experiment)[0])

    def base_file(self, file: Callable[[Run], Path]) -> Path:
        return self.fixed(file(self.run(self.base())))

    @cached_property
    def base_model(self) -> Model:
        """Return the settings of the base model: those of the run that is there on a partial page."""
        path = self.base_file(lambda run: run.experiment)
        return (load(path) if self.partial and path.exists() else resolve(parts(self.config, self.base()))).model

    @property
    def base_is_trained(self) -> bool:
        """Return true if the base model is trained, or will be."""
        return not self.partial or self.base_file(lambda run: run.average).exists()

    @property
    def attention_is_known(self) -> bool:
        """Return true if the attention of the base model is there, or can be computed."""
        return self.base_is_trained or self.files.attention.exists()


def names(runs: Iterable[RunName]) -> list[str]:
    return ["/".join(map(str, run)) for run in runs]
