"""config.yaml, read and checked. The structs check each value; this module, that names and numbers fit each other.

Needs no torch: Snakemake imports it at each start, and each of its jobs does.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from transformer.config.experiment import resolve
from transformer.config.reading import hint, read_yaml, structured
from transformer.config.scales import (
    RunName,
    all_runs,
    at,
    experiments_of,
    files_of,
    parsing_of,
    parts,
    places_of,
    scale_of,
    tested_on,
)
from transformer.config.schema import Config
from transformer.files import InputError

CONFIG = Path("config.yaml")  # of the project's folder


def read(files: Iterable[str], entries: Iterable[str]) -> dict:
    """Return config.yaml under `files` and `key=value` entries, as by Snakemake's options. Raises InputError."""
    if not CONFIG.exists():
        raise InputError(f"{CONFIG}: no such file: expected in the working folder, which must be the project's")
    config: dict = {}
    for file in (CONFIG, *files):
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise InputError(f"{file}: expected a mapping, found {type(content).__name__}")
        config = _laid_over(config, content)
    for entry in entries:
        key, equals, value = entry.partition("=")
        try:
            config = _laid_over(config, {key: yaml.safe_load(value)})
        except yaml.YAMLError:
            equals = ""
        if not equals:
            raise InputError(f"--config: expected key=value, the value in YAML, found {entry}")
    check(config)
    return config


def accept(config: dict) -> None:
    """Check what Snakemake has made of files and command line. Exits with one line where that is refused."""
    if config.get("partial") in ("true", "false"):  # from the command line, where these are texts to Snakemake
        config["partial"] = config["partial"] == "true"
    try:
        check(config)
    except InputError as error:
        sys.exit(str(error))


def completed(file: Path, changes: dict) -> dict:
    """Return the configuration in a file with another workflow's changes."""
    return _laid_over(read_yaml(file), changes)


def _laid_over(below: Any, above: Any) -> Any:
    """Return `above`, and of mappings what `below` says besides."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid_over(below.get(key), value) for key, value in above.items()}


def refuse(where: str, problem: str) -> NoReturn:
    """Raise InputError for a fault of config.yaml."""
    raise InputError(f"{CONFIG}: {where}: {problem}")


def check(config: dict) -> None:
    """Raise InputError with place and problem at the first fault of a configuration, at whichever scale."""
    structured(config, Config, CONFIG)
    _require_named(config["scales"], config["scale"], "scales", "scale")
    for claim in config["claims"].keys() & config["experiments"].keys():
        refuse("claims", f"expected a name that is none of the experiments, found '{claim}'")
    for name, corpus in config["corpora"].items():
        for place, entry in places_of(corpus).items():
            if "download" in entry:
                _require_named(config["downloads"], entry["download"], "downloads", f"corpora.{name}.{place}")
    for scale in config["scales"]:
        _check_scale(at(config, scale), f"scales.{scale}")
    # At the scale that is built alone: values of a row that contradict each other there may go together at another.
    where, layers = f"scales.{config['scale']}", {}
    for task, experiment in dict.fromkeys((run.task, run.experiment) for run in all_runs(config)):  # claims come last
        try:
            layers[experiment] = resolve(parts(config, RunName(task, experiment, seed=0))).model.N
        except InputError as error:
            refuse(f"{where}: {task}", str(error))
        if experiment in config["claims"] and experiment.endswith("-2N"):
            found, twice = layers[experiment], 2 * layers["base"]
            if found != twice:
                refuse(where, f"{experiment}: N: expected {twice} layers, twice base's, found {found}")


def _check_scale(config: dict, where: str) -> None:
    """Refuse the faults of the scale that `config` builds."""
    scale, parsing, rows = scale_of(config), parsing_of(config), experiments_of(config)
    for key in ("experiments", "seeds_of", "rows"):
        for experiment in scale.get(key, ()):
            _require_named(rows, experiment, "experiments and claims", f"{where}.{key}")
    if "base" not in scale.get("rows", ["base"]):
        refuse(f"{where}.rows", "expected base among them, with which the others are compared")
    for name, task in scale["tasks"].items():
        for key in ("experiments", "seeds_of"):
            for experiment in task.get(key, ()):
                _require_named(rows, experiment, "experiments and claims", f"{where}.tasks.{name}.{key}")
        for other in config["scales"]:  # the rules tell translators from parsers by their names
            if name in parsing_of(at(config, other))["tasks"]:
                refuse(f"scales.{other}.parsing.tasks", f"'{name}' is a task of scale {config['scale']} already")
        if task["vocabulary"] > task["embedding_rows"]:
            refuse(f"{where}.tasks.{name}", "expected a vocabulary of embedding_rows at most")
        _check_corpora(config, task, f"{where}.tasks.{name}")
    for name, task in parsing["tasks"].items():
        place = f"{where}.parsing.tasks.{name}"
        if "parser" in (silver := task.get("silver", {})):
            makers = [other for other in parsing["tasks"] if "silver" not in parsing["tasks"][other]]
            _require_named(makers, silver["parser"], "the tasks without silver", f"{place}.silver.parser")
        _check_corpora(config, task, place)


def _check_corpora(config: dict, task: dict, where: str) -> None:
    """Refuse corpora that are not there, lack a language or trees, or are both learned from and tested on."""
    for name, ending in files_of(task):
        corpus = _require_named(config["corpora"], name, "corpora", where)
        languages = ["en", "de", "fr", "trees"] if "grammar" in corpus else [*corpus.get("files", ["trees"])]
        if ending not in languages:
            refuse(where, f"corpus '{name}' has no '{ending}', only {', '.join(languages)}")
    learned = [*task["train"], *task.get("silver", {}).get("text", [])]
    for split, name in tested_on(task).items():
        for other in learned:
            if name == other or _parts_of(config, name) & _parts_of(config, other):
                also = f", which shares sentences with '{other}'" if name != other else ""
                refuse(f"{where}.{split}", f"expected a corpus that is not learned from, found '{name}'{also}")


def _parts_of(config: dict, name: str) -> set[tuple]:
    """Return what a corpus reads: its files, or parts of a treebank or of the grammar. Names of one file are alike."""
    corpus = config["corpora"][name]
    if "grammar" in corpus:
        seed, skip, take = (corpus["grammar"][key] for key in ("seed", "skip", "take"))
        return {(seed, number) for number in range(skip, skip + take)}

    def file(entry: dict) -> str:
        download = config["downloads"].get(entry.get("download"), {})
        return os.path.realpath(entry["path"]) if "path" in entry else download.get("sha256", entry["download"])

    if "treebank" in corpus:
        bank = corpus["treebank"]
        first, last = bank.get("sections", (0, 0))
        return {(file(bank), bank.get("split"), section) for section in range(first, last + 1)}
    return {(file(entry), entry.get("member")) for entry in corpus["files"].values()}


def _require_named(names: Any, name: str, kind: str, where: str) -> Any:
    """Return the entry of a name. Raises InputError where there is none."""
    if name not in names:
        refuse(where, f"expected one of {kind} ({', '.join(names)}), found '{name}'{hint(name, names)}")
    return names[name] if isinstance(names, dict) else name
