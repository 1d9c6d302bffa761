"""config.yaml as the workflow reads it: which runs each table takes, and what is said of each run. No torch here.

The rules (workflow/rules/common.smk, runs.smk) answer Snakemake the same; neither side imports the other, and
tests/test_plan.py compares the two.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from transformer.common.files import InputError
from transformer.config.experiment import read_yaml

CONFIG, SCHEMA = Path("config.yaml"), Path("workflow/schemas/config.schema.yaml")  # of the project's folder
PARSER = "parser"  # the experiment of every parsing task
TABLE_2 = ("base", "big")
WHY = ("base", "dropout-0.0", "smoothing-0.0")
SUMS = "SHA256SUMS"  # the list in a folder that was made elsewhere
PREPARED = {"data.json", "train.source.tok"}  # with one of them in its data, a task's training text is not read here
GRAMMAR = ("en", "de", "fr", "trees")  # the endings of its corpora
TABLES = ("table1", "why", "table2", "table4", "table3")  # in the order in which a budget is spent on them


class RunName(NamedTuple):
    """A run's folder in results/{scale}/runs."""

    task: str
    experiment: str
    seed: int


def read(files: list[str], entries: list[str]) -> dict:
    """config.yaml under other `files` and `key=value` entries, as Snakemake's --configfile and --config lay them.

    Raises InputError naming the file, the entry or the key.
    """
    if not CONFIG.exists():
        raise InputError(f"{CONFIG}: no such file: expected in the working folder, which must be the project's")
    config = mapping(read_yaml(CONFIG), CONFIG)
    for file in files:
        config = laid_over(config, mapping(read_yaml(file), file))
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals:
            raise InputError(f"--config: expected key=value, found {entry}")
        config = laid_over(config, {key: value_of(value, entry)})
    check(config)
    return config


def mapping(value: Any, where: str | Path) -> dict:
    """`value` if it is a mapping. Raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a mapping, found {type(value).__name__}")
    return value


def value_of(text: str, entry: str) -> Any:
    """A value of the command line, as YAML. Raises InputError naming the entry."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--config: not YAML: {entry}") from None


def laid_over(below: Any, above: Any) -> Any:
    """`above`, and of mappings what `below` says besides."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: laid_over(below.get(key), value) for key, value in above.items()}


def check(config: dict) -> None:
    """Raises InputError where the schema refuses the configuration, or its scale names what is not there."""
    error = best_match(Draft202012Validator(read_yaml(SCHEMA)).iter_errors(config))
    if error:
        raise InputError(f"{CONFIG}: {'.'.join(map(str, error.absolute_path)) or 'top level'}: {error.message}")
    scale = config["scale"]
    named(config, "scales", scale, "scale")
    where = f"scales.{scale}"
    for experiment in config["scales"][scale]["experiments"]:
        named(config, "experiments", experiment, f"{where}.experiments")
    for name, task in tasks_of(config).items():
        for experiment in task.get("experiments", {}):
            named(config, "experiments", experiment, f"{where}.tasks.{name}.experiments")
        for corpus, ending in files_of(task):
            check_corpus(config, corpus, ending, f"{where}: {name}")
    check_silver(config, f"{where}.parsing.tasks")
    for run in scale_of(config).get("from", {}):
        if run_name(run) not in known_runs(config):
            raise InputError(f"{CONFIG}: {where}.from.{run}: no run of this scale")


def check_corpus(config: dict, corpus: str, ending: str, where: str) -> None:
    """Raises InputError where there is no such corpus, it lacks the language, or its downloads are not named."""
    about = named(config, "corpora", corpus, where)
    files = about.get("files", GRAMMAR)
    if ending not in files:
        raise InputError(f"{CONFIG}: {where}: corpus {corpus!r} has no {ending!r}, only {', '.join(files)}")
    for download in downloads_of(entries_of(about)):
        named(config, "downloads", download, f"corpora.{corpus}")


def check_silver(config: dict, where: str) -> None:
    """Raises InputError where silver trees are not made by a parser that does without."""
    makers = [name for name, task in parsing_of(config)["tasks"].items() if "silver" not in task]
    for name, task in parsing_of(config)["tasks"].items():
        maker = task.get("silver", {}).get("parser")
        if maker is not None and maker not in makers:
            expected = f"expected a task without silver ({', '.join(makers)})"
            raise InputError(f"{CONFIG}: {where}.{name}.silver.parser: {expected}, found {maker!r}")


def named(config: dict, section: str, name: str, where: str) -> Any:
    """The entry `name` of a section. Raises InputError."""
    if name not in config[section]:
        choices = ", ".join(config[section])
        raise InputError(f"{CONFIG}: {where}: expected one of {section} ({choices}), found {name!r}")
    return config[section][name]


def scale_of(config: dict) -> dict:
    """What is said of the scale that is built."""
    return config["scales"][config["scale"]]


def parsing_of(config: dict) -> dict:
    """What the scale parses, which may be nothing."""
    return scale_of(config).get("parsing", {"seeds": [], "parser": {}, "tasks": {}})


def tasks_of(config: dict) -> dict[str, dict]:
    """All of the scale's tasks, whether they translate or parse."""
    return scale_of(config)["tasks"] | parsing_of(config)["tasks"]


def tasks_read(config: dict) -> dict[str, dict]:
    """The same without what is learned from, where that was prepared elsewhere or all of a task's runs were made there.

    Raises InputError where the list of a folder cannot be read.
    """
    runs = {run for of_table in runs_of_tables(config).values() for run in of_table} - taken(config)
    trained = {run.task for run in runs}
    tasks = tasks_of(config).items()
    spared = {name for name, task in tasks if name not in trained or PREPARED & listed(task.get("from"))}
    return {name: task | ({"train": [], "silver": {}} if name in spared else {}) for name, task in tasks}


def listed(folder: dict | None) -> set[str]:
    """The files of a folder that was made elsewhere, by its list. Raises InputError."""
    if folder is None:
        return set()
    path = Path(folder["path"], SUMS)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return {line[66:].removeprefix("./") for line in lines}  # after the sum and two characters


def taken(config: dict) -> set[RunName]:
    """The runs that were made elsewhere; they are not trained here."""
    return set(map(run_name, scale_of(config).get("from", {})))


def run_name(text: str) -> RunName:
    """A run by its folder, task/experiment/seed."""
    task, experiment, seed = text.split("/")
    return RunName(task, experiment, int(seed))


def known_runs(config: dict) -> list[RunName]:
    """All runs that the rules could make, whether or not a table takes them."""
    scale, parsing = scale_of(config), parsing_of(config)
    translators = crossed(scale["tasks"], config["experiments"], scale["seeds"])
    return translators + crossed(parsing["tasks"], [PARSER], parsing["seeds"])


def corpora_of(task: dict) -> list[str]:
    """What a task learns from, and is tested on."""
    single = [task[split] for split in ("dev", "test", "elsewhere") if split in task]
    return [*task["train"], *single, *task.get("subsets", {}).values(), *task.get("silver", {}).get("text", [])]


def entries_of(corpus: dict) -> list[dict]:
    """What the files of a corpus are read from, a `download` or a `path`; nothing where they are made here."""
    return [corpus["treebank"]] if "treebank" in corpus else list(corpus.get("files", {}).values())


def downloads_of(entries: Iterable[dict]) -> list[str]:
    """The downloads among what files are read from, each once."""
    return list(dict.fromkeys(entry["download"] for entry in entries if "download" in entry))


def files_of(task: dict) -> list[tuple[str, str]]:
    """Corpus and ending of a task's files; trees hold their words, and others are made of English."""
    sides = (task.get("source", "en"), task.get("target", "trees"))
    made_of = task.get("silver", {}).get("text", [])
    return [(corpus, side) for corpus in corpora_of(task) for side in (("en",) if corpus in made_of else sides)]


def sources(config: dict, tasks: Iterable[str]) -> list[dict]:
    """What the files of these tasks are read from, as `entries_of`: of a corpus only the languages of a task."""
    entries, read = [], tasks_read(config)
    for corpus, ending in dict.fromkeys(file for task in tasks for file in files_of(read[task])):
        about = config["corpora"][corpus]
        entries += [about["files"][ending]] if ending in about.get("files", {}) else [about.get("treebank", {})]
    return entries


def absent_treebank(config: dict) -> str | None:
    """The folder of the Penn Treebank if Table 4 needs it and it is not here; `all` leaves out that table then."""
    for task in parsing_of(config)["tasks"].values():
        for corpus in [*task["train"], task["dev"], task["test"]]:
            treebank = config["corpora"][corpus].get("treebank", {})
            if "sections" in treebank and not Path(treebank["path"]).exists():
                return treebank["path"]
    return None


def runs_of_tables(config: dict) -> dict[str, list[RunName]]:
    """The trainings that each table takes; Table 1 takes none, and Table 4 is there where the scale parses."""
    scale, parsing = scale_of(config), parsing_of(config)
    first, seeds = next(iter(scale["tasks"])), scale["seeds"]
    runs = {
        "table1": [],
        "why": crossed([first], WHY, seeds),
        "table2": crossed(scale["tasks"], TABLE_2, seeds),
        "table4": crossed(parsing["tasks"], [PARSER], parsing["seeds"]),
        "table3": crossed([first], config["experiments"], seeds),
    }
    return {table: runs[table] for table in TABLES if runs[table] or table != "table4"}


def crossed(tasks: Any, experiments: Any, seeds: list[int]) -> list[RunName]:
    """A run of each task and experiment with each seed."""
    return [RunName(task, experiment, seed) for task in tasks for experiment in experiments for seed in seeds]


def makers(config: dict) -> dict[RunName, RunName]:
    """Of each parser that learns from another's trees, that other run, which must end first."""
    seeds, tasks = parsing_of(config)["seeds"], tasks_read(config)
    return {
        RunName(name, PARSER, seed): RunName(task["silver"]["parser"], PARSER, seeds[0])
        for name, task in tasks.items()
        if "parser" in task.get("silver", {})
        for seed in seeds
    }


def parts(config: dict, run: RunName) -> dict:
    """What is said of one run, for `transformer.config.resolve`."""
    scale = scale_of(config)
    own = parser_parts(config, run.task) if run.experiment == PARSER else translator_parts(config, run)
    shared = {key: config[key] for key in ("scale", "fidelity", "optimizer", "preparation")}
    shared |= {key: scale[key] for key in ("width", "depth")}
    layers = {
        "rows": [config["base"], scale["base"], *own["rows"]],
        "running": config["running"] | scale.get("running", {}) | own["running"],
    }
    return run._asdict() | shared | own | layers


def translator_parts(config: dict, run: RunName) -> dict:
    """What is a translator's own among the parts."""
    scale = scale_of(config)
    task = scale["tasks"][run.task]
    rows = [config["experiments"], scale["experiments"], task.get("experiments", {})]
    return {
        "label": scale["label"],
        "source": task["source"],
        "target": task["target"],
        "rows": [row.get(run.experiment, {}) for row in rows],
        "embedding_rows": task["embedding_rows"],
        "output_rows": task["embedding_rows"],
        "running": {},
    }


def parser_parts(config: dict, name: str) -> dict:
    """What is a parser's own among the parts."""
    parsing = parsing_of(config)
    task = parsing["tasks"][name]
    return {
        "label": task["label"],
        "source": "en",
        "target": "trees",
        "rows": [config["parsing"]["parser"], parsing["parser"]],
        "embedding_rows": task["symbols"] + task["vocabulary"],
        "output_rows": task["symbols"],
        "running": {"bleu_sentences": 0},
    }
