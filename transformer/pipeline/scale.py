"""One scale of a configuration with its files, for the tables, figures and rules."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import asdict

from transformer.config.experiment import Model, load
from transformer.config.scales import RunName, ScaleSettings
from transformer.layout import RESOURCES, Results, Run

_BASE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "epsilon_ls")  # settings of base that Table 3 lists
_OMITTED = ("checkpoint_every", "averaged_checkpoints")


@dataclass(frozen=True)
class Pipeline(ScaleSettings):
    """A scale and its results folder. project: the project's folder, if it is not the working folder."""

    project: str = ""

    @cached_property
    def files(self) -> Results:
        return Results(f"{self.config.results}/{self.name}")

    def values(self, experiments: Iterable[str]) -> dict[str, str]:
        """Return the settings of the first task's runs by experiment: main settings of base, changes of the others."""
        settings = {}
        for name in ("base", *experiments):
            run = self.experiment(self.base(name))
            settings[name] = asdict(run.model) | asdict(run.training)
        base = settings["base"]
        changed = {
            name: {key: value for key, value in own.items() if value not in (base[key], UNSET) and key not in _OMITTED}
            for name, own in settings.items()
        }
        changed["base"] = {key: base[key] for key in _BASE if base[key] is not UNSET}
        texts = {name: ", ".join(f"{key}={value}" for key, value in own.items()) for name, own in changed.items()}
        kept = {name: "h" in own and not {"d_k", "d_v"} & own.keys() for name, own in changed.items()}
        return {name: text + " (d_k and d_v as in base)" * kept[name] for name, text in texts.items()}

    def paper(self, table: str) -> Path:
        """Return the file with the paper's numbers for a table."""
        return Path(self.project, f"workflow/paper/{table}.csv")

    def run(self, run: RunName) -> Run:
        return self.files.run(*run)

    def text(self, task: str, split: str, side: str) -> list[Path]:
        """Return the plain text files of one side of a split, `source` or `target`, or the `trees` of treebanks."""
        entry = self.tasks[task]
        corpora = getattr(entry, entry.FORMER.get(split, split))  # a split keeps its key's former name
        corpora = corpora if isinstance(corpora, list) else [corpora]
        return [RESOURCES.corpus(corpus, getattr(entry, side, side)) for corpus in corpora]

    # ------------------------------------------------------------------ partial pages

    def fixed(self, path: Path) -> Path:
        """Return the path. With `partial`, return an existing file's path in a form that no rule matches.

        Snakemake then does not rebuild the file.
        """
        if not (self.config.partial and path.exists()):
            return path
        return Path(os.path.relpath(path)) if self.files.folder.is_absolute() else path.absolute()

    def available(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths. For a partial page, return only existing files."""
        return [self.fixed(path) for path in paths if not self.config.partial or path.exists()]

    def of_runs(self, runs: Iterable[RunName], file: Callable[[Run], Path]) -> list[Path]:
        """Return this file of each run. For a partial page, return only existing files."""
        return self.available(file(self.run(run)) for run in runs)

    def base(self, experiment: str = "base") -> RunName:
        """Return the run that represents an experiment: the first task's run with the first seed."""
        return RunName(self.first_task, experiment, self.seeds(self.first_task, experiment)[0])

    def base_file(self, file: Callable[[Run], Path]) -> Path:
        return self.fixed(file(self.run(self.base())))

    @cached_property
    def base_model(self) -> Model:
        """Return the settings of the base model. For a partial page, read a finished run's file."""
        path = self.base_file(lambda run: run.experiment)
        return (load(path) if self.config.partial and path.exists() else self.experiment(self.base())).model
