"""Checks of config.yaml: by its schema, and of names and numbers that do not fit each other, at every scale."""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from transformer.config.corpora import (
    TESTED,
    all_places,
    files_of,
    languages_of,
    places_of,
    places_of_systems,
    systems_of,
)
from transformer.config.experiment import resolve
from transformer.config.runs import PARSER, TABLE_2, WHY, RunName, experiments_of, parts, runs_of_tables, seeds_of
from transformer.config.scales import at, parsing_of, scale_of, tasks_of
from transformer.config.splits import shared_by_splits
from transformer.config.yamlfile import read_yaml
from transformer.files import InputError, endless

CONFIG = Path("config.yaml")  # of the project's folder
SCHEMA = Path(__file__).with_name("config.schema.yaml")  # a link to the workflow's, which a package takes along
LONGEST = 200  # characters of a message of the schema, which may show a whole section
DOUBLED = "-2N"  # how the names of claims end whose models have twice base's layers
MOST_ROWS = 65535  # of an embedding: ids have 16 bits

# To JSON Schema 6.0 is an integer; a run's settings take none for an int.
WHOLE = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
Validator = extend(Draft202012Validator, type_checker=WHOLE)


def refuse(where: str, problem: str) -> NoReturn:
    """Raise InputError for a fault of config.yaml."""
    raise InputError(f"{CONFIG}: {where}: {problem}")


def check(config: dict) -> None:
    """Raise InputError, which says where and what, at the first fault of a configuration, at whichever scale."""
    check_schema(config)
    check_names(config)
    for scale in config["scales"]:
        check_scale(at(config, scale), f"scales.{scale}")
    check_models(config, f"scales.{config['scale']}")


def check_schema(config: dict) -> None:
    """Refuse NaN, which is beyond no bound, and infinity; then what the schema refuses."""
    for where, value in leaves(config):
        if isinstance(value, float) and not math.isfinite(value):
            refuse(where, f"expected a finite number, found {value}")
    if error := best_match(validator().iter_errors(config)):
        message = error.message
        if len(message) > LONGEST:
            message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
        refuse(".".join(map(str, error.absolute_path)) or "top level", message)


@cache
def validator() -> Any:
    """Return the validator of the schema."""
    return Validator(read_yaml(SCHEMA))


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of everything that is no mapping and no list."""
    if not isinstance(value, dict | list):
        yield where, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(inner, f"{where}.{key}" if where else str(key))


def check_names(config: dict) -> None:
    """Refuse names of a scale and of downloads that are not there, and tables without the experiments they compare."""
    named(config, "scales", config["scale"], "scale")
    for table, experiments in (("table2", TABLE_2), ("why", WHY)):
        for experiment in experiments:
            if experiment not in config["experiments"]:
                known = ", ".join(config["experiments"])
                refuse("experiments", f"expected '{experiment}', which {table} compares, found {known}")
    for claim in config["claims"]:
        if claim in config["experiments"]:
            refuse("claims", f"expected a name that is none of the experiments, found '{claim}'")
    for name, system in config["systems"].items():
        for side in ("source", "target"):
            check_language(config, system["test"], system[side], f"systems.{name}")
    for where, entry in all_places(config).items():
        if "download" in entry:
            named(config, "downloads", entry["download"], where)


def check_scale(config: dict, where: str) -> None:
    """Refuse the faults of the scale that `config` builds."""
    scale, parsing = scale_of(config), parsing_of(config)
    for key in ("experiments", "seeds_of"):
        for experiment in scale.get(key, {}):
            check_experiment(config, experiment, f"{where}.{key}")
    for name, task in scale["tasks"].items():
        check_translator(config, task, f"{where}.tasks.{name}")
        for other in config["scales"]:  # the rules tell translators from parsers by their names
            if name in parsing_of(at(config, other))["tasks"]:
                refuse(f"scales.{other}.parsing.tasks", f"'{name}' is a task of scale {config['scale']} already")
    for name, task in parsing["tasks"].items():
        check_parser(config, task, f"{where}.parsing.tasks.{name}")
    for run in scale.get("from", {}):
        check_run(config, run, f"{where}.from.{run}")
    if "measures" in scale:
        for name in scale["measures"]["systems"]:
            named(config, "systems", name, f"{where}.measures.systems")
        for name, language in scale["measures"]["quotes"].items():
            check_language(config, name, language, f"{where}.measures.quotes")


def check_translator(config: dict, task: dict, where: str) -> None:
    """Refuse corpora that lack a task's languages or are learned from and tested on, and too large a vocabulary."""
    for experiment in task.get("experiments", {}):
        check_experiment(config, experiment, f"{where}.experiments")
    for name, language in files_of(task):
        check_language(config, name, language, where)
    if shared := shared_by_splits(config, task):
        refuse(where, shared)
    if task["vocabulary"] > task["embedding_rows"]:
        refuse(where, f"vocabulary {task['vocabulary']} exceeds embedding_rows {task['embedding_rows']}")


def check_parser(config: dict, task: dict, where: str) -> None:
    """Refuse corpora that hold no trees or are learned from and tested on, and more symbols and subwords than ids."""
    for name in [*task["train"], *(task[split] for split in TESTED if split in task)]:
        corpus = named(config, "corpora", name, where)
        if "files" in corpus:
            refuse(where, f"corpus '{name}' has no trees, only {', '.join(corpus['files'])}")
    if (rows := task["symbols"] + task["vocabulary"]) > MOST_ROWS:
        refuse(where, f"symbols and vocabulary are {rows} together, over {MOST_ROWS}")
    if "parser" in (silver := task.get("silver", {})):
        for name in silver["text"]:
            check_language(config, name, "en", f"{where}.silver.text")
        makers = [name for name, other in parsing_of(config)["tasks"].items() if "silver" not in other]
        if silver["parser"] not in makers:
            expected = f"expected a task without silver ({', '.join(makers)})"
            refuse(f"{where}.silver.parser", f"{expected}, found '{silver['parser']}'")
    if shared := shared_by_splits(config, task):
        refuse(where, shared)


def check_language(config: dict, name: str, language: str, where: str) -> None:
    """Refuse a corpus that is not there, or not in a language."""
    languages = languages_of(named(config, "corpora", name, where))
    if language not in languages:
        refuse(where, f"corpus '{name}' has no '{language}', only {', '.join(languages) or 'trees'}")


def check_run(config: dict, run: str, where: str) -> None:
    """Refuse a run made elsewhere that is none of the scale's: it would be trained here, and its folder passed over."""
    task, experiment, seed = run.split("/")
    scale, parsing = scale_of(config), parsing_of(config)
    parses = task in parsing["tasks"]
    seeds = parsing["seeds"] if parses else seeds_of(scale, [experiment])[experiment]
    for kind, name, expected in (
        ("tasks", task, [*scale["tasks"], *parsing["tasks"]]),
        ("experiments", experiment, [PARSER] if parses else experiments_of(config)),
        ("seeds", seed, list(map(str, seeds))),
    ):
        if name not in expected:
            refuse(where, f"expected one of the {kind} ({', '.join(expected)}), found '{name}'")


def check_models(config: dict, where: str) -> None:
    """Refuse values of a row that do not go together at the scale that is built, though they may at another."""
    runs = [run for of_table in runs_of_tables(config).values() for run in of_table]
    for task, experiment in dict.fromkeys((run.task, run.experiment) for run in runs):
        try:
            model = resolve(parts(config, RunName(task, experiment, seed=0))).model
            check_depth(config, task, experiment, model.N)
        except InputError as error:
            refuse(f"{where}: {task}", str(error))


def check_depth(config: dict, task: str, experiment: str, layers: int) -> None:
    """Raise InputError where a row of `claims` is called 2N, and has not twice as many layers as base."""
    if experiment in config["claims"] and experiment.endswith(DOUBLED):
        expected, depth = 2 * resolve(parts(config, RunName(task, "base", seed=0))).model.N, scale_of(config)["depth"]
        if layers != expected:
            problem = f"expected {expected * depth}, twice that of base, as its name says, found {layers * depth}"
            raise InputError(f"{experiment}: N: {problem}")


def check_files(config: dict) -> None:
    """Refuse files that are not on this machine, where the scale that is built reads them.

    A task whose data were made elsewhere may do without: if not, Snakemake names the missing input. The Penn Treebank
    is not everybody's: its reader says what is missing, and `all` does without.
    """
    for name, task in tasks_of(config).items():
        places = {
            f"corpora.{corpus}.{place}": entry
            for corpus, ending in files_of(task)
            for place, entry in places_of(config["corpora"][corpus]).items()
            if place in ("treebank", f"files.{ending}")
        }
        places[f"scales.{config['scale']}.parsing.tasks.{name}.silver"] = task.get("silver", {})
        for where, entry in places.items():
            path = entry.get("path", ".")
            if "from" not in task and "sections" not in entry and not Path(path).exists():
                refuse(where, f"no such file: {path}")
            if found := endless(path):  # Snakemake itself would read a device
                refuse(where, f"{path}: expected a file, found {found}")
    for where, entry in places_of_systems(systems_of(config)).items():
        if not Path(entry.get("path", ".")).exists():
            refuse(where, f"no such file: {entry['path']}")


def check_experiment(config: dict, name: str, where: str) -> None:
    """Refuse values for an experiment that is in neither Table 3 nor Table 5."""
    if name not in (experiments := experiments_of(config)):
        refuse(where, f"expected one of experiments and claims ({', '.join(experiments)}), found '{name}'")


def named(config: dict, section: str, name: str, where: str) -> Any:
    """Return the entry `name` of a section. Raises InputError where there is none."""
    if name not in config[section]:
        refuse(where, f"expected one of {section} ({', '.join(config[section])}), found '{name}'")
    return config[section][name]
