"""Data and runs that were made elsewhere, and what the other runs need all the same."""

from pathlib import Path

from transformer.config.runs import PARSER, RunName, runs_of_tables
from transformer.config.scales import parsing_of, scale_of, tasks_of
from transformer.files import open_input

SUMS = "SHA256SUMS"  # the list in a folder that was made elsewhere, as sha256sum writes it
PREPARED = {"data.json", "train.source.tok"}  # with one of them in its data, a task's training text is not read here


def taken(config: dict) -> set[RunName]:
    """Return the runs that were made elsewhere; they are not trained here."""
    folders = (folder.split("/") for folder in scale_of(config).get("from", {}))
    return {RunName(task, experiment, int(seed)) for task, experiment, seed in folders}


def read_list(path: Path) -> bytes:
    """Return the content of such a list. Raises InputError where it cannot be read, or reading might never end."""
    with open_input(path) as file:
        return file.read()


def listed(folder: dict | None) -> set[str]:
    """Return the files of a folder that was made elsewhere, by its list. Raises InputError where there is none."""
    if folder is None:
        return set()
    lines = read_list(Path(folder["path"], SUMS)).decode("utf-8").splitlines()
    return {line[66:].removeprefix("./") for line in lines}  # after the sum and two characters


def tasks_read(config: dict) -> dict[str, dict]:
    """Return the scale's tasks, without what is learned from where no training here reads it.

    That is so where it was prepared elsewhere, or all of a task's runs were made elsewhere. Raises InputError where the
    list of a folder cannot be read.
    """
    runs = {run for of_table in runs_of_tables(config).values() for run in of_table} - taken(config)
    trained = {run.task for run in runs}
    tasks = tasks_of(config).items()
    spared = {name for name, task in tasks if name not in trained or PREPARED & listed(task.get("from"))}
    return {name: task | ({"train": [], "silver": {}} if name in spared else {}) for name, task in tasks}


def makers(config: dict) -> dict[RunName, RunName]:
    """Return the run whose trees a parser learns from, and which must end first, by the name of each such parser."""
    seeds, tasks = parsing_of(config)["seeds"], tasks_read(config)
    return {
        RunName(name, PARSER, seed): RunName(task["silver"]["parser"], PARSER, seeds[0])
        for name, task in tasks.items()
        if "parser" in task.get("silver", {})
        for seed in seeds
    }
