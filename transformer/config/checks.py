"""Checks of config.yaml: by its schema, and of names, numbers and files that do not fit each other, at every scale."""

import math
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from transformer.common.files import InputError
from transformer.config.corpora import languages_of
from transformer.config.runs import PARSER, TABLE_2, WHY
from transformer.config.scales import at, parsing_of, scale_of
from transformer.config.splits import shared_by_splits
from transformer.config.yamlfile import read_yaml

CONFIG = Path("config.yaml")  # of the project's folder
SCHEMA = Path(__file__).parents[2] / "workflow/schemas/config.schema.yaml"
MOST_ROWS = 65535  # of an embedding: ids have 16 bits

# To JSON Schema 6.0 is an integer; a run's settings take none for an int.
WHOLE = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
Validator = extend(Draft202012Validator, type_checker=WHOLE)


def refuse(where: str, problem: str) -> NoReturn:
    """Raise InputError for a fault of config.yaml."""
    raise InputError(f"{CONFIG}: {where}: {problem}")


def check(config: dict) -> None:
    """Raise InputError, which says where and what, at the first fault of a configuration."""
    check_finite(config)
    error = best_match(validator().iter_errors(config))
    if error:
        refuse(".".join(map(str, error.absolute_path)) or "top level", error.message)
    check_names(config)
    for scale in config["scales"]:
        chosen = at(config, scale)
        check_names_of_scale(config, scale)
        for name, task in scale_of(chosen)["tasks"].items():
            check_translator(config, scale, task, f"scales.{scale}.tasks.{name}")
        for name, task in parsing_of(chosen)["tasks"].items():
            check_parser(config, scale, task, f"scales.{scale}.parsing.tasks.{name}")
        for run in scale_of(chosen).get("from", {}):
            check_run(chosen, run, f"scales.{scale}.from.{run}")


@cache
def validator() -> Any:
    """Return what compares a configuration with the schema."""
    return Validator(read_yaml(SCHEMA))


def check_finite(config: dict) -> None:
    """Refuse NaN and infinity, which are above or below no maximum."""
    for path, value in leaves(config):
        if isinstance(value, float) and not math.isfinite(value):
            refuse(path, f"expected a finite number, found {value}")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of everything that is no mapping and no list."""
    if isinstance(value, dict | list):
        items: Iterable = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def check_names(config: dict) -> None:
    """Refuse names of a scale and of downloads that are not there, and tables without the experiments they compare."""
    named(config, "scales", config["scale"], "scale")
    for experiment in dict.fromkeys((*TABLE_2, *WHY)):
        if experiment not in config["experiments"]:
            refuse(
                "experiments",
                f"expected {experiment!r}, which the tables compare, found {list_of(config['experiments'])}",
            )
    for name, corpus in config["corpora"].items():
        for place, entry in places_of(name, corpus):
            if "download" in entry:
                named(config, "downloads", entry["download"], place)


def places_of(name: str, corpus: dict) -> Iterator[tuple[str, dict]]:
    """Yield what a corpus is read from, each with its place in config.yaml."""
    if "treebank" in corpus:
        yield f"corpora.{name}.treebank", corpus["treebank"]
    for language, entry in corpus.get("files", {}).items():
        yield f"corpora.{name}.files.{language}", entry


def check_names_of_scale(config: dict, scale: str) -> None:
    """Refuse unknown experiments, and a task that translates here and parses at some scale: rules go by its name."""
    entry = config["scales"][scale]
    for experiment in entry["experiments"]:
        named(config, "experiments", experiment, f"scales.{scale}.experiments")
    for task in entry["tasks"]:
        for other in config["scales"]:
            if task in parsing_of(at(config, other))["tasks"]:
                refuse(f"scales.{other}.parsing.tasks", f"'{task}' is a task of scale {scale} already")


def check_translator(config: dict, scale: str, task: dict, where: str) -> None:
    """Refuse corpora that lack a task's languages or are learned from and tested on, and too large a vocabulary."""
    for experiment in task.get("experiments", {}):
        named(config, "experiments", experiment, f"{where}.experiments")
    for name in [*task["train"], task["dev"], task["test"], *task.get("subsets", {}).values()]:
        corpus = named(config, "corpora", name, where)
        languages = languages_of(corpus)
        for language in (task["source"], task["target"]):
            if language not in languages:
                refuse(where, f"corpus '{name}' has no '{language}', only {list_of(languages) or 'trees'}")
            if "files" in corpus:
                check_file(config, scale, task, corpus["files"][language], f"corpora.{name}.files.{language}")
    check_splits(config, task, where)
    if task["vocabulary"] > task["embedding_rows"]:
        refuse(where, f"vocabulary {task['vocabulary']} exceeds embedding_rows {task['embedding_rows']}")


def check_parser(config: dict, scale: str, task: dict, where: str) -> None:
    """Refuse corpora that hold no trees or are learned from and tested on, and more symbols and subwords than ids."""
    for name in [*task["train"], *(task[split] for split in ("dev", "test", "elsewhere") if split in task)]:
        corpus = named(config, "corpora", name, where)
        if "files" in corpus:
            refuse(where, f"corpus '{name}' has no trees, only {list_of(corpus['files'])}")
        # The Penn Treebank is not everybody's: its reader says what is missing, and `all` does without.
        if "treebank" in corpus and "sections" not in corpus["treebank"]:
            check_file(config, scale, task, corpus["treebank"], f"corpora.{name}.treebank")
    if (rows := task["symbols"] + task["vocabulary"]) > MOST_ROWS:
        refuse(where, f"symbols and vocabulary are {rows} together, over {MOST_ROWS}")
    if "silver" in task:
        check_silver(config, scale, task, f"{where}.silver")
    check_splits(config, task, where)


def check_silver(config: dict, scale: str, task: dict, where: str) -> None:
    """Refuse silver trees that are not on this machine, nor made of English by a parser that learns from none."""
    silver = task["silver"]
    if "path" in silver:
        check_file(config, scale, task, silver, where)
        return
    for name in silver["text"]:
        corpus = named(config, "corpora", name, f"{where}.text")
        if "en" not in languages_of(corpus):
            refuse(f"{where}.text", f"corpus '{name}' has no 'en', only {list_of(languages_of(corpus)) or 'trees'}")
        if "files" in corpus:
            check_file(config, scale, task, corpus["files"]["en"], f"corpora.{name}.files.en")
    makers = [name for name, other in parsing_of(at(config, scale))["tasks"].items() if "silver" not in other]
    if silver["parser"] not in makers:
        expected = f"expected a task without silver ({list_of(makers)})"
        refuse(f"{where}.parser", f"{expected}, found '{silver['parser']}'")


def check_splits(config: dict, task: dict, where: str) -> None:
    """Refuse sentences that are both learned from and tested on."""
    if shared := shared_by_splits(config, task):
        refuse(where, shared)


def check_file(config: dict, scale: str, task: dict, entry: dict, where: str) -> None:
    """Refuse a file of this machine that is not there, where the chosen scale needs it.

    A task whose data were made elsewhere may do without: if not, Snakemake names the missing input.
    """
    if scale == config["scale"] and "from" not in task and not Path(entry.get("path", ".")).exists():
        refuse(where, f"no such file: {entry['path']}")


def check_run(config: dict, run: str, where: str) -> None:
    """Refuse a run made elsewhere that is none of the scale's: it would be trained here, and its folder passed over."""
    task, experiment, seed = run.split("/")
    scale, parsing = scale_of(config), parsing_of(config)
    parses = task in parsing["tasks"]
    for what, found, expected in (
        ("tasks", task, [*scale["tasks"], *parsing["tasks"]]),
        ("experiments", experiment, [PARSER] if parses else config["experiments"]),
        ("seeds", seed, list(map(str, (parsing if parses else scale)["seeds"]))),
    ):
        if found not in expected:
            refuse(where, f"expected one of the {what} ({list_of(expected)}), found '{found}'")


def named(config: dict, section: str, name: str, where: str) -> Any:
    """Return the entry `name` of a section. Raises InputError where there is none."""
    if name not in config[section]:
        refuse(where, f"expected one of {section} ({list_of(config[section])}), found '{name}'")
    return config[section][name]


def list_of(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    return ", ".join(names)
