"""The scale that a configuration builds: its tasks, their runs and corpora."""

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

from transformer.config.experiment import RECIPES, contradiction
from transformer.storage.files import InputError

PARSER = "parser"  # the experiment of every parsing task, which `parsing` in config.yaml describes
TABLE_2 = ("base", "big")  # the experiments that are its rows; Table 3's are all
WHY = ("base", "dropout-0.0", "smoothing-0.0")  # the experiments whose trainings the table `why` compares
OF_TASK = ("decapitalize", "lowercase", "max_words", "max_ratio", "tokenizer")  # what a task may say of its preparation
_THREADS_PER_GPU = 4  # of a training: one starts the GPU's work, the others compile


def at(config: dict, scale: str) -> dict:
    """Return the configuration as it is where it builds `scale`."""
    return config | {"scale": scale}


def scale_of(config: dict) -> dict:
    return config["scales"][config["scale"]]


def parsing_of(config: dict) -> dict:
    """Return the parsing section of the scale, or an empty one."""
    return scale_of(config).get("parsing", {"seeds": [], "parser": {}, "tasks": {}})


def tasks_of(config: dict) -> dict[str, dict]:
    """Return all of the scale's tasks, whether they translate or parse."""
    return scale_of(config)["tasks"] | parsing_of(config)["tasks"]


# Runs.


class RunName(NamedTuple):
    """A run's folder in results/{scale}/runs."""

    task: str
    experiment: str
    seed: int


def runs_of(config: dict, tasks: Iterable[str], experiments: Iterable[str]) -> list[RunName]:
    """Return a run of each task and experiment with each of the experiment's seeds, if it is a row of the scale."""
    scale = scale_of(config)
    rows = [name for name in experiments if name in scale.get("rows", [name])]
    return [RunName(task, row, seed) for task, row in product(tasks, rows) for seed in seeds_of(scale, task, row)]


def parser_runs(config: dict) -> list[RunName]:
    parsing = parsing_of(config)
    return [RunName(task, PARSER, seed) for task in parsing["tasks"] for seed in parsing["seeds"]]


def all_runs(config: dict) -> list[RunName]:
    """Return all trainings of a scale, each once: rows of Tables 3 and 5 are trained on the first task alone."""
    tasks = list(scale_of(config)["tasks"])
    rows = runs_of(config, tasks[:1], [*config["experiments"], *trained_claims(config)])
    return list(dict.fromkeys([*rows, *runs_of(config, tasks, TABLE_2), *parser_runs(config)]))


def trained_claims(config: dict) -> list[str]:
    """Return the rows of `claims` that test something: none that contradicts base, or equals it or an earlier one."""
    scale = scale_of(config)
    base = config["base"] | scale["base"]
    rows = {name: row | scale["experiments"].get(name, {}) for name, row in config["claims"].items()}
    tested: dict[str, dict] = {}
    for name, row in rows.items():
        if base | row not in (base, *tested.values()) and not contradiction(base | row):
            tested[name] = base | row
    return [name for name, row in rows.items() if name in tested or contradiction(row)]  # the latter is refused later


def seeds_of(scale: dict, task: str, experiment: str) -> list[int]:
    """Return the seeds of an experiment: its own in the task or at the scale, or those of all."""
    own = scale.get("seeds_of", {}) | scale["tasks"][task].get("seeds_of", {})
    return own.get(experiment, scale["seeds"])


def experiments_of(config: dict) -> dict[str, dict]:
    """Return the rows of Tables 3 and 5, by name."""
    return config["experiments"] | config["claims"]


def parts(config: dict, run: RunName) -> dict:
    """Return the parts of config.yaml for one run, as input of `transformer.config.experiment.resolve`."""
    # Their order stays: the workflow passes them on as JSON, by which Snakemake knows whether a run has changed.
    scale, running = scale_of(config), config["running"] | scale_of(config).get("running", {})
    if run.experiment == PARSER:
        parsing = parsing_of(config)
        task = parsing["tasks"][run.task]
        own = {"label": task["label"], "source": "en", "target": "trees"}
        rows = [config["parsing"]["parser"], parsing["parser"], *([task["parser"]] if "parser" in task else [])]
        sizes = task["symbols"] + task["vocabulary"], task["symbols"]  # symbols are the first rows
        running |= {"bleu_sentences": 0}
    else:
        task = scale["tasks"][run.task]
        own = {"label": scale["label"], "source": task["source"], "target": task["target"]}
        tables = experiments_of(config), scale["experiments"], task.get("experiments", {})
        rows = [table.get(run.experiment, {}) for table in tables]
        sizes = task["embedding_rows"], task["embedding_rows"]
    return own | {
        "rows": [config["base"], scale["base"], *rows],
        "embedding_rows": sizes[0],
        "output_rows": sizes[1],
        "running": running,
        "scale": config["scale"],
        "task": run.task,
        "experiment": run.experiment,
        "seed": run.seed,
        "fidelity": RECIPES[config["recipe"]],
        "width": scale["width"],
        "depth": scale["depth"],
        "optimizer": config["optimizer"],
        "preparation": preparation_of(config, run.task),
    }


def preparation_of(config: dict, task: str) -> dict:
    """Return the preparation of a task's text: the common one, under the scale's, under a translation task's own."""
    scale = scale_of(config)
    own = scale["tasks"].get(task, {})
    return config["preparation"] | scale.get("preparation", {}) | {key: own[key] for key in OF_TASK if own.get(key)}


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


# Corpora.


def places_of(corpus: dict) -> dict[str, dict]:
    """Return the sources of a corpus's files, each a `download` or a `path`, by their keys; none of the grammar's."""
    if "treebank" in corpus:
        return {"treebank": corpus["treebank"]}
    return {f"files.{language}": entry for language, entry in corpus.get("files", {}).items()}


def source_of(entry: dict) -> str:
    """Return the path of what is named as download or path."""
    return entry["path"] if "path" in entry else f"resources/downloads/{entry['download']}"


def downloads_of(entries: Iterable[dict]) -> list[str]:
    """Return the downloads among these sources, each once."""
    return list(dict.fromkeys(entry["download"] for entry in entries if "download" in entry))


def files_of(task: dict) -> list[tuple[str, str]]:
    """Return corpus and ending of the files that a task learns from and is tested on."""
    sides = ("trees",) if "symbols" in task else (task["source"], task["target"])
    corpora = [*task["train"], *tested_on(task).values()]
    silver = task.get("silver", {}).get("text", [])  # English, of which trees are made
    return [*product(corpora, sides), *((name, "en") for name in silver)]


def sources(config: dict, tasks: Iterable[str]) -> list[dict]:
    """Return the sources of the files of these tasks: of a corpus only the languages of a task."""
    files = dict.fromkeys(file for task in tasks for file in files_of(tasks_of(config)[task]))
    corpora = [(config["corpora"][corpus], ending) for corpus, ending in files]
    return [corpus.get("files", {}).get(ending) or corpus.get("treebank", {}) for corpus, ending in corpora]


def absent_treebank(config: dict) -> str | None:
    """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
    banks = [entry for entry in sources(config, parsing_of(config)["tasks"]) if "sections" in entry]
    return next((bank["path"] for bank in banks if not Path(bank["path"]).exists()), None)


def tested_on(task: dict) -> dict[str, str]:
    """Return the corpora that a task is tested on, by split."""
    subsets = {f"subsets.{subset}": name for subset, name in task.get("subsets", {}).items()}
    return {split: task[split] for split in ("dev", "test", "elsewhere") if split in task} | subsets
