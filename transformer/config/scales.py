"""What a configuration builds: the scale with its tasks, their runs and corpora; no text is both learned and tested."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from transformer.config.experiment import contradiction

PARSER = "parser"  # the experiment of every parsing task, which `parsing` in config.yaml describes
TABLE_2 = ("base", "big")  # the experiments that are its rows; Table 3's are all
WHY = ("base", "dropout-0.0", "smoothing-0.0")  # the experiments whose trainings the table `why` compares
THREADS_PER_GPU = 4  # of a training: one starts the GPU's work, the others compile, plan and save
GRAMMAR = ("en", "de", "fr")  # the languages of the project's grammar
TESTED = ("dev", "test", "elsewhere")  # the splits that a task is tested on, each of which is one corpus


def at(config: dict, scale: str) -> dict:
    """Return the configuration as it is where it builds `scale`."""
    return config | {"scale": scale}


def scale_of(config: dict) -> dict:
    """Return the entry of the scale that is built."""
    return config["scales"][config["scale"]]


def parsing_of(config: dict) -> dict:
    """Return what the scale parses, which may be nothing."""
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
    """Return a run of each task and experiment with each of the experiment's seeds."""
    scale, experiments = scale_of(config), list(experiments)
    return [RunName(task, name, seed) for task in tasks for name in experiments for seed in seeds_of(scale, name)]


def parser_runs(config: dict) -> list[RunName]:
    """Return the trainings of parsers."""
    parsing = parsing_of(config)
    return [RunName(task, PARSER, seed) for task in parsing["tasks"] for seed in parsing["seeds"]]


def all_runs(config: dict) -> list[RunName]:
    """Return all trainings of a scale, each once: rows of Tables 3 and 5 are trained on the first task alone."""
    tasks = list(scale_of(config)["tasks"])
    rows = runs_of(config, tasks[:1], [*config["experiments"], *trained_claims(config)])
    return list(dict.fromkeys([*rows, *runs_of(config, tasks, TABLE_2), *parser_runs(config)]))


def trained_claims(config: dict) -> list[str]:
    """Return the rows of `claims` that test something: not those that contradict base, or change nothing of it.

    A row that contradicts itself is a mistake, and is among them: it is refused.
    """
    scale = scale_of(config)
    base = config["base"] | scale["base"]
    rows = {name: row | scale["experiments"].get(name, {}) for name, row in config["claims"].items()}
    tested = {name: row for name, row in rows.items() if base | row != base and not contradiction(base | row)}
    return [name for name, row in rows.items() if name in tested or contradiction(row)]


def seeds_of(scale: dict, experiment: str) -> list[int]:
    """Return the seeds of an experiment at a scale: its own, or those of all."""
    return scale.get("seeds_of", {}).get(experiment, scale["seeds"])


def experiments_of(config: dict) -> dict[str, dict]:
    """Return the rows of Tables 3 and 5, by name."""
    return config["experiments"] | config["claims"]


def parts(config: dict, run: RunName) -> dict:
    """Return what config.yaml says of one run, for `transformer.config.experiment.resolve`.

    The workflow passes them on as JSON, by which Snakemake knows whether a run has changed: their order is kept.
    """
    scale = scale_of(config)
    own = parser_parts(config, run.task) if run.experiment == PARSER else translator_parts(config, run)
    return own | {
        "scale": config["scale"],
        "task": run.task,
        "experiment": run.experiment,
        "seed": run.seed,
        "fidelity": config["fidelity"],
        "rows": [config["base"], scale["base"], *own["rows"]],
        "width": scale["width"],
        "depth": scale["depth"],
        "optimizer": config["optimizer"],
        "preparation": preparation_of(config, run.task),
        "running": config["running"] | scale.get("running", {}) | own["running"],
    }


def own_values(config: dict, task: str) -> dict[str, dict]:
    """Return by experiment of Table 3 what a scale and its task set in place of the paper's values.

    Those of base are all others', too. Left out is what `width` and `depth` divide.
    """
    scale = scale_of(config)
    rows = [scale["experiments"], scale["tasks"][task].get("experiments", {})]
    own = {name: rows[0].get(name, {}) | rows[1].get(name, {}) for name in config["experiments"]}
    return own | {"base": scale["base"] | own["base"]}


def translator_parts(config: dict, run: RunName) -> dict:
    """Return what is a translator's own among the parts."""
    scale = scale_of(config)
    task = scale["tasks"][run.task]
    rows = [experiments_of(config), scale["experiments"], task.get("experiments", {})]
    return {
        "label": scale["label"],
        "source": task["source"],
        "target": task["target"],
        "rows": [row.get(run.experiment, {}) for row in rows],
        "embedding_rows": task["embedding_rows"],
        "output_rows": task["embedding_rows"],
        "running": {},
    }


def preparation_of(config: dict, task: str) -> dict:
    """Return how the text of a task is prepared; a translation task may add to what holds for all."""
    own = scale_of(config)["tasks"].get(task, {})
    return config["preparation"] | {key: value for key, value in own.items() if key == "decapitalize"}


def parser_parts(config: dict, name: str) -> dict:
    """Return what is a parser's own among the parts. Its symbols are the first of the embedding's rows."""
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


def training_threads(resources: Mapping[str, object]) -> int | None:
    """Return the processor threads of a training on each node; None where no profile has Slurm start it.

    resources: `launch`, `gpu` and `nodes`, as a profile gives them, in words or numbers. Raises ValueError where `gpu`
    or `nodes` is no number.
    """
    if resources.get("launch", "here") == "here":
        return None
    for name in ("gpu", "nodes"):
        if not re.fullmatch("[0-9]+", str(resources.get(name, 1))):
            raise ValueError(f"{name}: expected a number, from which the threads follow, found {resources[name]}")
    gpus, nodes = (int(str(resources.get(name, 1))) for name in ("gpu", "nodes"))
    return THREADS_PER_GPU * max(1, gpus // max(1, nodes))


# Corpora.


def languages_of(corpus: dict) -> tuple[str, ...]:
    """Return the endings of a corpus's files: languages, or `trees`; the grammar's sentences have both."""
    if "grammar" in corpus:
        return (*GRAMMAR, "trees")
    return tuple(corpus.get("files", ["trees"]))


def places_of(corpus: dict) -> dict[str, dict]:
    """Return the sources of a corpus's files, each a `download` or a `path`, by their keys; none of the grammar's."""
    if "treebank" in corpus:
        return {"treebank": corpus["treebank"]}
    return {f"files.{language}": entry for language, entry in corpus.get("files", {}).items()}


def all_places(config: dict) -> dict[str, dict]:
    """Return the sources of all corpora's files, by their places in config.yaml."""
    return {
        f"corpora.{name}.{place}": entry
        for name, corpus in config["corpora"].items()
        for place, entry in places_of(corpus).items()
    }


def source_of(entry: dict) -> str:
    """Return the path of what is named as download or path."""
    return entry["path"] if "path" in entry else f"resources/downloads/{entry['download']}"


def downloads_of(entries: Iterable[dict]) -> list[str]:
    """Return the downloads among these sources, each once."""
    return list(dict.fromkeys(entry["download"] for entry in entries if "download" in entry))


def files_of(task: dict) -> list[tuple[str, str]]:
    """Return corpus and ending of the files that a task learns from and is tested on.

    Trees hold their words, and silver trees are made of English.
    """
    sides = ("trees",) if "symbols" in task else (task["source"], task["target"])
    corpora = [*task["train"], *(name for _, name in tested_on(task))]
    files = [(corpus, side) for corpus in corpora for side in sides]
    return files + [(corpus, "en") for corpus in task.get("silver", {}).get("text", [])]


def sources(config: dict, tasks: Iterable[str]) -> list[dict]:
    """Return the sources of the files of these tasks: of a corpus only the languages of a task."""
    files = dict.fromkeys(file for task in tasks for file in files_of(tasks_of(config)[task]))
    corpora = [(config["corpora"][corpus], ending) for corpus, ending in files]
    return [corpus.get("files", {}).get(ending) or corpus.get("treebank", {}) for corpus, ending in corpora]


def absent_treebank(config: dict) -> str | None:
    """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
    for task in parsing_of(config)["tasks"].values():
        for corpus in [*task["train"], task["dev"], task["test"]]:
            treebank = config["corpora"][corpus].get("treebank", {})
            if "sections" in treebank and not Path(treebank["path"]).exists():
                return treebank["path"]
    return None


def learned_from(config: dict, task: dict) -> Iterator[tuple[str, str, dict]]:
    """Yield the name, the place in the task and the entry of each corpus that a task learns from."""
    silver = task.get("silver", {})
    for place, names in (("train", task["train"]), ("silver.text", silver.get("text", []))):
        for name in names:
            yield name, place, config["corpora"][name]
    if "path" in silver:
        yield silver["path"], "silver.path", {"treebank": {"path": silver["path"]}}


def tested_on(task: dict) -> Iterator[tuple[str, str]]:
    """Yield the split and the name of each corpus that a task is tested on."""
    for split in TESTED:
        if split in task:
            yield split, task[split]
    for subset, name in task.get("subsets", {}).items():
        yield f"subsets.{subset}", name


def shared_by_splits(config: dict, task: dict) -> str | None:
    """Return the corpora that a task both learns from and is tested on, as a message; or None.

    Names do not matter: a corpus is the same if it reads the same file, or overlaps in the grammar or in a treebank.
    """
    sides = (task.get("source", "en"), task.get("target", "trees"))
    for learned, place, corpus in learned_from(config, task):
        for split, name in tested_on(task):
            tested = config["corpora"][name]
            first, second = (files_read(config, entry, sides) for entry in (corpus, tested))
            both = next((first[file] for file in first if file in second), None)
            if name == learned or both or meet(span_of(config, corpus), span_of(config, tested)):
                read = f": both read {both}" if both and name != learned else ""
                return f"{split} corpus '{name}' shares sentences with '{learned}' in {place}{read}"
    return None


def files_read(config: dict, corpus: dict, sides: tuple[str, ...]) -> dict[tuple, str]:
    """Return the names of the files that a corpus of text has in these languages, by the identity of each."""
    files = {}
    for entry in (corpus["files"][side] for side in sides if side in corpus.get("files", {})):
        archive = entry.get("path") or entry["download"]
        name = f"{entry['member']} in {archive}" if "member" in entry else archive
        files[*identity(config, entry), entry.get("member")] = name
    return files


def identity(config: dict, entry: dict) -> tuple[str, str]:
    """Return the file or the checksum behind a `path` or a `download`, whatever its name."""
    if "path" in entry:
        return "path", os.path.realpath(entry["path"])
    download = config["downloads"][entry["download"]]
    return "download", download.get("sha256") or download.get("md5") or entry["download"]


def span_of(config: dict, corpus: dict) -> tuple[tuple, int, int] | None:
    """Return what a corpus is cut from, the grammar or a treebank, with the first and the last number of the cut."""
    if "grammar" in corpus:
        grammar = corpus["grammar"]
        return ("grammar", grammar["seed"]), grammar["skip"], grammar["skip"] + grammar["take"] - 1
    if "treebank" in corpus:
        bank = corpus["treebank"]
        return (*identity(config, bank), bank.get("split")), *bank.get("sections", (0, 0))
    return None


def meet(one: tuple[tuple, int, int] | None, two: tuple[tuple, int, int] | None) -> bool:
    """Return whether two cuts of the same share any number."""
    return bool(one and two) and one[0] == two[0] and one[1] <= two[2] and two[1] <= one[2]
