"""config.yaml, read and checked. The structs check each value; this module, that names and numbers fit each other.

Needs no torch: Snakemake imports it at each start, and each of its jobs does.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import yaml

from transformer.config import scales
from transformer.config.experiment import RECIPES, resolve
from transformer.config.schema import Config
from transformer.storage.files import InputError
from transformer.storage.reading import hint, located, read_yaml, structured

CONFIG = Path("config.yaml")  # of the project's folder


def read(files: Iterable[str], entries: Iterable[str]) -> dict:
    """Return config.yaml under `files` and `key=value` entries, as by Snakemake's options. Raises InputError."""
    if not CONFIG.exists():
        raise InputError(f"{CONFIG}: no such file: expected in the working folder, which must be the project's")
    files, given = [CONFIG, *files], _given(entries)
    config = _laid_over(_content(files), given)
    _complete(config, files, given)
    return config


def changes(files: Iterable[str], entries: Iterable[str]) -> dict:
    """Return the changes of config.yaml that files and `key=value` entries make. Raises InputError."""
    return _laid_over(_content(files), _given(entries))


def _content(files: Iterable[str | Path]) -> dict:
    config: dict = {}
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise InputError(f"{file}: expected a mapping, found {type(content).__name__}")
        config = _laid_over(config, content)
    return config


def _given(entries: Iterable[str]) -> dict:
    given: dict = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        try:
            given = _laid_over(given, {key: yaml.safe_load(value)})
        except yaml.YAMLError:
            equals = ""
        if not equals:
            raise InputError(f"--config: expected key=value, the value in YAML, found {entry}")
    return given


def options(files: Iterable[str] | None, entries: Iterable[str] | None) -> list[str]:
    """Return files and entries as options of Snakemake, each list before an option."""
    return [
        word for name, words in (("--configfile", files), ("--config", entries)) if words for word in (name, *words)
    ]


def accept(config: dict, files: Iterable[str | Path] = (), given: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Check what Snakemake has made of files and command line. Exits with one line where that is refused."""
    if config.get("partial") in ("true", "false"):  # from the command line, where these are texts to Snakemake
        config["partial"] = config["partial"] == "true"
    try:
        for file in files:
            read_yaml(file)  # Snakemake takes the last of equal keys
        _complete(config, files, given)
        for folder in map(Path, (f"{config['results']}/{config['scale']}", "resources/corpora", "logs")):
            for place in (folder, *folder.parents):
                if place.is_file():
                    raise InputError(f"{place}: expected a folder or none, found a file")
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


def _complete(config: dict, files: Iterable[str | Path], given: Mapping[str, Any]) -> None:
    """Check a configuration, lay its recipe over it, and check what comes out. Errors name file and line."""
    within = ""
    try:
        check(config)
        if changes := config["recipes"].get(config["recipe"]):
            config.update(_laid_over(config, changes))
            within = f"recipes.{config['recipe']}."
            check(config)
    except InputError as error:
        sources = [(str(file).removeprefix(f"{Path.cwd()}/"), Path(file).read_bytes()) for file in files]
        sources += [("--config", yaml.safe_dump(dict(given), default_flow_style=True, width=10**6))] if given else []
        problem = within + str(error).removeprefix(f"{CONFIG}: ")
        found = located(problem, sources).replace("--config, line 1: ", "--config: ")
        raise InputError(str(error) if found == problem else found) from None


def refuse(where: str, problem: str) -> NoReturn:
    """Raise InputError for a fault of config.yaml."""
    raise InputError(f"{CONFIG}: {where}: {problem}")


def check(config: dict) -> None:
    """Raise InputError with place and problem at the first fault of a configuration, at whichever scale."""
    structured(config, Config, CONFIG)
    _require_named(config["scales"], config["scale"], "scales", "scale")
    _check_recipes(config["recipes"])
    for experiment in (*scales.TABLE_2, *scales.WHY):
        if experiment not in config["experiments"]:
            refuse("experiments", f"expected '{experiment}', which a table compares, found none")
    for claim in config["claims"].keys() & config["experiments"].keys():
        refuse("claims", f"expected a name that is none of the experiments, found '{claim}'")
    for name, corpus in config["corpora"].items():
        for place, entry in scales.places_of(corpus).items():
            if "download" in entry:
                _require_named(config["downloads"], entry["download"], "downloads", f"corpora.{name}.{place}")
    for scale in config["scales"]:
        _check_scale(scales.at(config, scale), f"scales.{scale}")
    # At the scale that is built alone: values of a row that contradict each other there may go together at another.
    where, depth, layers = f"scales.{config['scale']}", scales.scale_of(config)["depth"], {}
    runs = dict.fromkeys((run.task, run.experiment) for run in scales.all_runs(config))
    for task, experiment in runs:  # claims come last
        try:
            layers[experiment] = resolve(scales.parts(config, scales.RunName(task, experiment, seed=0))).model.N
        except InputError as error:
            refuse(f"{where}: {task}", str(error))
        if experiment in config["claims"] and experiment.endswith("-2N"):
            found, twice = layers[experiment] * depth, 2 * layers["base"] * depth
            if found != twice:
                refuse(where, f"{experiment}: N: expected {twice}, twice base's, found {found}")


def _check_recipes(recipes: dict[str, dict]) -> None:
    """Refuse a recipe that nothing asks for, and what would choose a recipe or scale once it is laid over."""
    for recipe, changes in recipes.items():
        _require_named(RECIPES, recipe, "recipes", "recipes")
        for key in ("recipe", "recipes", "scale"):
            if key in changes:
                refuse(f"recipes.{recipe}", f"expected keys that a recipe may change, found '{key}'")


def _check_scale(config: dict, where: str) -> None:
    """Refuse the faults of the scale that `config` builds."""
    scale, parsing, rows = scales.scale_of(config), scales.parsing_of(config), scales.experiments_of(config)
    places = {where: scale} | {f"{where}.tasks.{name}": task for name, task in scale["tasks"].items()}
    for (place, entry), key in product(places.items(), ("experiments", "seeds_of", "rows")):
        for experiment in entry.get(key, ()):
            _require_named(rows, experiment, "experiments and claims", f"{place}.{key}")
    if "base" not in scale.get("rows", ["base"]):
        refuse(f"{where}.rows", "expected base among them, with which the others are compared")
    for name, task in scale["tasks"].items():
        for other in config["scales"]:  # the rules tell translators from parsers by their names
            if name in scales.parsing_of(scales.at(config, other))["tasks"]:
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
    if "source" in task and task["source"] == task["target"]:
        refuse(f"{where}.target", f"expected another language than the source's, found '{task['target']}'")
    for name, ending in scales.files_of(task):
        corpus = _require_named(config["corpora"], name, "corpora", where)
        languages = ["en", "de", "fr", "trees"] if "grammar" in corpus else [*corpus.get("files", ["trees"])]
        if ending not in languages:
            refuse(where, f"corpus '{name}' has no '{ending}', only {', '.join(languages)}")
    silver = task.get("silver", {})
    learned = {name: _parts_of(config, config["corpora"][name]) for name in [*task["train"], *silver.get("text", [])]}
    if "path" in silver:
        learned[silver["path"]] = _parts_of(config, {"treebank": {"path": silver["path"]}})
    for split, name in scales.tested_on(task).items():
        tested = _parts_of(config, config["corpora"][name])
        for other, parts_of_other in learned.items():
            both = [(tested[key], parts_of_other[key]) for key in tested.keys() & parts_of_other.keys()]
            if any(max(one.start, two.start) < min(one.stop, two.stop) for one, two in both):
                also = f", which shares sentences with '{other}'" if name != other else ""
                refuse(f"{where}.{split}", f"expected a corpus that is not learned from, found '{name}'{also}")


def _parts_of(config: dict, corpus: dict) -> dict[tuple, range]:
    """Return a corpus's sources, whatever its name: ranges of the grammar's sentences or of sections, whole files."""
    if "grammar" in corpus:
        seed, skip, take = (corpus["grammar"][key] for key in ("seed", "skip", "take"))
        return {("grammar", seed): range(skip, skip + take)}
    parts = {}
    for entry in scales.places_of(corpus).values():
        download = config["downloads"].get(entry.get("download"), {})
        file = os.path.realpath(entry["path"]) if "path" in entry else entry["download"]
        first, last = entry.get("sections", (0, 0))
        key = download.get("sha256", download.get("md5", file)), entry.get("split"), entry.get("member")
        parts[key] = range(first, last + 1)
    return parts


def _require_named(names: Any, name: str, kind: str, where: str) -> Any:
    """Return the entry of a name. Raises InputError where there is none."""
    if name not in names:
        refuse(where, f"expected one of {kind} ({', '.join(names)}), found '{name}'{hint(name, names)}")
    return names[name] if isinstance(names, dict) else name
