# Validates config.yaml, then answers the rules' questions about it.
import json
import sys
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

TABLE_2 = ["base", "big"]  # the experiments that are its rows; Table 3's are all

# Which weights translate, by what they add to a translation's name.
WEIGHTS = {
    "": "average.safetensors",  # Table 2 averages (§6.1),
    ".last": "last.safetensors",  # Table 3 does not (§6.2)
}


def refuse(where, problem):
    """End with one line, rather than with a traceback, on a configuration that cannot be run."""
    sys.exit(f"config.yaml: {where}: {problem}")


def check_config():
    """Refuse what the schema refuses, then names and numbers that do not fit each other."""
    schema = Path(workflow.basedir, "workflow/schemas/config.schema.yaml")
    validator = Draft202012Validator(yaml.safe_load(schema.read_text()))
    error = best_match(validator.iter_errors(config))
    if error:
        refuse(".".join(map(str, error.absolute_path)) or "top level", error.message)
    named(config["scale"], "scales", "scale")
    for scale, settings in config["scales"].items():
        for experiment in settings["experiments"]:
            named(experiment, "experiments", f"scales.{scale}.experiments")
        for task, about in settings["tasks"].items():
            check_task(scale, about, f"scales.{scale}.tasks.{task}")


def check_task(scale, task, where):
    """A task's corpora exist, have its languages and are not tested on; its embedding holds its vocabulary."""
    for experiment in task.get("experiments", {}):
        named(experiment, "experiments", f"{where}.experiments")
    for split in ("dev", "test"):
        for corpus in task["train"]:
            if task[split] == corpus or overlap(task[split], corpus):
                refuse(where, f"{split} corpus '{task[split]}' shares sentences with '{corpus}' in train")
    for corpus in [*task["train"], task["dev"], task["test"]]:
        # The grammar's languages are those of its rule.
        files = named(corpus, "corpora", where).get("files", {"en": {}, "de": {}, "fr": {}})
        for language in (task["source"], task["target"]):
            if language not in files:
                refuse(where, f"corpus '{corpus}' has no '{language}', only {', '.join(files)}")
            if "download" in files[language]:
                named(files[language]["download"], "downloads", f"corpora.{corpus}")
            if scale == config["scale"] and not Path(files[language].get("path", ".")).exists():
                refuse(f"corpora.{corpus}.files.{language}", f"no such file: {files[language]['path']}")
    if task["vocabulary"] > task["embedding_rows"]:
        refuse(where, f"vocabulary {task['vocabulary']} exceeds embedding_rows {task['embedding_rows']}")


def overlap(*names):
    """Whether two corpora are slices of the grammar's sentences that share some."""
    one, two = (config["corpora"].get(name, {}).get("grammar") for name in names)
    if not one or not two or one["seed"] != two["seed"]:
        return False
    return one["skip"] < two["skip"] + two["take"] and two["skip"] < one["skip"] + one["take"]


def named(name, section, where):
    """The entry `name` of a section of config.yaml."""
    if name not in config[section]:
        refuse(where, f"expected one of {section} ({', '.join(config[section])}), found '{name}'")
    return config[section][name]


check_config()


def any_of(names):
    """A wildcard constraint: one of these names, literally."""
    return "|".join(name.replace(".", r"\.") for name in names)


wildcard_constraints:
    scale=any_of(config["scales"]),
    task=any_of({task for scale in config["scales"].values() for task in scale["tasks"]}),
    experiment=any_of(config["experiments"]),
    seed=r"\d+",
    split="train|dev|test",
    weights=any_of(WEIGHTS),
    file=any_of(config["downloads"]),
    language="[A-Za-z][A-Za-z0-9_-]*",


def task_of(wildcards):
    """A task's entry in config.yaml at the scale of `wildcards`."""
    return config["scales"][wildcards.scale]["tasks"][wildcards.task]


def corpora_of(wildcards):
    """The corpora of one split of a task."""
    corpora = task_of(wildcards)[wildcards.split]
    return corpora if isinstance(corpora, list) else [corpora]


def url_options(wildcards):
    """The addresses of a download, as options of the fetch stage."""
    return [word for url in config["downloads"][wildcards.file]["urls"] for word in ("--url", url)]


def side(name):
    """An input function: the files of one side (source or target) of a split's corpora."""

    def files(wildcards):
        language = task_of(wildcards)[name]
        return [f"resources/corpora/{corpus}.{language}" for corpus in corpora_of(wildcards)]

    return files


def file_of(wildcards):
    """A corpus file's entry in config.yaml."""
    return config["corpora"][wildcards.corpus]["files"][wildcards.language]


def archive_of(wildcards):
    """The download or the local file that a corpus file lies in."""
    about = file_of(wildcards)
    return about["path"] if "path" in about else f"resources/downloads/{about['download']}"


def unpack_options(wildcards):
    """How to get a corpus file out of its archive, as options of the unpack stage."""
    about = file_of(wildcards)
    options = ["--format", about.get("format", "text")]
    if "member" in about:
        options += ["--member", about["member"]]
    if "lines" in config["corpora"][wildcards.corpus]:
        options += ["--lines", config["corpora"][wildcards.corpus]["lines"]]
    return options


def languages_of(wildcards):
    """A task's two languages, source first."""
    return [task_of(wildcards)[name] for name in ("source", "target")]


def clean_option(wildcards):
    """Only training text is cleaned."""
    return "--clean" if wildcards.split == "train" else ""


def experiment_parts(wildcards):
    """What config.yaml says of one run, as JSON for the resolve stage: rows that are laid over each other in order."""
    scale, task = config["scales"][wildcards.scale], task_of(wildcards)
    own = [scale["experiments"], task.get("experiments", {})]
    return json.dumps(
        {
            "scale": wildcards.scale,
            "label": scale["label"],
            "task": wildcards.task,
            "experiment": wildcards.experiment,
            "seed": int(wildcards.seed),
            "fidelity": config["fidelity"],
            "source": task["source"],
            "target": task["target"],
            "rows": [
                config["base"],
                scale["base"],
                config["experiments"][wildcards.experiment],
                *(rows.get(wildcards.experiment, {}) for rows in own),
            ],
            "width": scale["width"],
            "depth": scale["depth"],
            "embedding_rows": task["embedding_rows"],
            "optimizer": config["optimizer"],
            "preparation": config["preparation"],
            "running": config["running"] | scale.get("running", {}),
        }
    )


def weights_of(wildcards):
    """The weights that a translation is made with."""
    run = f"results/{wildcards.scale}/runs/{wildcards.task}/{wildcards.experiment}/{wildcards.seed}"
    return f"{run}/{WEIGHTS[wildcards.weights]}"


def runs_of_table_2(file):
    """An input function: this file of every run of Table 2, which are base and big on every task of the scale."""
    return lambda wildcards: run_files(wildcards.scale, config["scales"][wildcards.scale]["tasks"], TABLE_2, file)


def runs_of_table_3(file):
    """An input function: this file of every run of Table 3, which are all experiments on the scale's first task."""
    return lambda wildcards: run_files(wildcards.scale, first_task(wildcards)[0], config["experiments"], file)


def run_files(scale, tasks, experiments, file):
    """A file of the runs with every seed of the scale."""
    return collect(
        "results/{scale}/runs/{task}/{experiment}/{seed}/{file}",
        scale=scale,
        task=tasks,
        experiment=experiments,
        seed=config["scales"][scale]["seeds"],
        file=file,
    )


def first_task(wildcards):
    """Name and entry of the task that Table 3 is about: en-de in the paper."""
    return next(iter(config["scales"][wildcards.scale]["tasks"].items()))


def label_of_table_3(wildcards):
    """Names the dev set behind our numbers."""
    return f"{wildcards.scale}: {first_task(wildcards)[1]['dev']}"


def references_of_table_3(wildcards):
    """The dev set's other side."""
    _, task = first_task(wildcards)
    return f"resources/corpora/{task['dev']}.{task['target']}"


def train_threads(wildcards):
    """Small models train faster side by side than one after the other on all cores."""
    runs = {path for table in (runs_of_table_2, runs_of_table_3) for path in table("run.json")(wildcards)}
    return max(1, (workflow.cores or 1) // len(runs))


def launcher(gpus):
    """What starts a training: Python, or torchrun where it takes a process for each of several GPUs."""
    if gpus <= 1:
        return "python"
    # USR1 and USR2, which Slurm sends before the time is up, would end torchrun alone; and a big state takes a while.
    signals = "--signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGUSR1,SIGUSR2 --shutdown-timeout 600"
    return f"python -m torch.distributed.run --standalone {signals} --nproc-per-node {gpus}"
