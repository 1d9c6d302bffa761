"""The runs that each table takes, and what config.yaml says of each run."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from transformer.config.experiment import contradiction
from transformer.config.scales import parsing_of, scale_of

PARSER = "parser"  # the experiment of every parsing task, which `parsing` in config.yaml describes
TABLE_2 = ("base", "big")  # the experiments that are its rows; Table 3's are all
WHY = ("base", "dropout-0.0", "smoothing-0.0")  # the experiments whose trainings the table `why` compares
THREADS_PER_GPU = 4  # of a training: one starts the GPU's work, the others compile, plan and save


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
    rows = runs_of(config, tasks[:1], [*config["experiments"], *tested_claims(config)])
    return list(dict.fromkeys([*rows, *runs_of(config, tasks, TABLE_2), *parser_runs(config)]))


def tested_claims(config: dict) -> list[str]:
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
