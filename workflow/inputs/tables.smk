# The questions of rules/tables.smk: what each table is made from. A text of config.yaml is written --option=TEXT, as it
# may begin with a dash.
import json
import os
from pathlib import Path

from transformer.config.runs import own_values


def runs_of(table, scale):
    """Return the runs that a table takes, in its order."""
    return runs_of_tables(at(config, scale)).get(table, [])


def files_of(runs, scale, file):
    """Return this file of each run.

    On a partial page, what is there is taken as it is, whatever config.yaml says now: no rule makes an absolute path.
    """
    paths = [
        f"results/{scale}/runs/{run.task}/{run.experiment}/{run.seed}/{file}"
        for run in runs
    ]
    return [
        (
            os.path.abspath(moved(path))
            if config["partial"] and os.path.exists(moved(path))
            else path
        )
        for path in paths
    ]


def present(paths, beside=None):
    """Return all paths; of a partial page those for which `is_there`, also of their neighbours in `beside`."""
    pairs = zip(paths, beside or paths, strict=True)
    return [
        pair[0] for pair in pairs if not config["partial"] or all(map(is_there, pair))
    ]


def is_there(path):
    """Return whether a file is there, or follows without training or searching from what a run is taken with."""
    if os.path.exists(moved(path)):
        return True
    run, name = str(Path(path).parent), Path(path).name
    if not (folder := FOLDERS.get(run.removeprefix("results/"))):
        return False
    stem = name.removesuffix(".json")
    made_from = {name, f"{stem}.hyp", f"{stem}.trees"}
    settings = name in ("experiment.yaml", "decoding.yaml")
    return settings or not made_from.isdisjoint(folder.taken)


def names(runs):
    return ["/".join(map(str, run)) for run in runs]


def first_task(scale):
    """Return name and entry of the task that Table 3 is about: en-de in the paper."""
    return next(iter(config["scales"][scale]["tasks"].items()))


def label_of_table_3(scale):
    return f"{scale}: {first_task(scale)[1]['dev']}"


def paper(table):
    return [own(f"workflow/paper/{table}.csv")]


def data_of_paper(scale):
    """Return the option that says that the data are the paper's, where they are."""
    return ["--data-of-paper"] if config["scales"][scale].get("data_of_paper") else []


# Below, a function per table. It returns files by the option of the table stage that takes them, those that no option
# takes as `also`, and further options.


def table_2(scale):
    runs = runs_of("table2", scale)
    files = {
        "paper": paper("table2"),
        "score": present(files_of(runs, scale, "test.json")),
    }
    return files, [
        f"--label={config['scales'][scale]['label']}",
        *data_of_paper(scale),
        "--expected",
        *names(runs),
    ]


def table_3(scale):
    runs = runs_of("table3", scale)
    files = {
        "paper": paper("table3"),
        "score": present(files_of(runs, scale, "dev.last.json")),
    }
    settings, (task, _) = config["scales"][scale], first_task(scale)
    options = ["--width", settings["width"], "--depth", settings["depth"]]
    options += ["--own", json.dumps(own_values(at(config, scale), task))]
    return files, [
        f"--label={label_of_table_3(scale)}",
        *data_of_paper(scale),
        *options,
        "--expected",
        *names(runs),
    ]


def table_4(scale):
    runs, tasks = runs_of("table4", scale), parsing_of(scale)["tasks"]
    elsewhere = [run for run in runs if "elsewhere" in tasks[run.task]]
    files = {
        "paper": paper("table4"),
        "score": present(files_of(runs, scale, "test.json")),
        "constrained": present(files_of(runs, scale, "test.constrained.json")),
        "elsewhere": present(files_of(elsewhere, scale, "elsewhere.constrained.json")),
    }
    entries = {
        name: {
            "training": task["training"],
            "label": task["label"],
            "silver": "silver" in task,
        }
        for name, task in tasks.items()
    }
    options = ["--task", json.dumps(entries), *data_of_paper(scale)]
    options += ["--expected", *names(runs)]
    if files["elsewhere"]:
        labels = dict.fromkeys(tasks[run.task]["elsewhere"] for run in elsewhere)
        options += [f"--elsewhere-label={' and '.join(labels)}"]
    return files, options


def probed(probe, scale):
    """Return the runs of Table 5 that a probe should measure."""
    return [run for run in runs_of("table5", scale) if run.experiment in PROBED[probe]]


def files_of_probe(probe, scale):
    """Return what a probe wrote; a run that was taken without what the probe reads is not measured."""
    read = {"average.safetensors", "vocabulary.model"} | (
        {"checkpoints"} if probe == "averaging" else set()
    )
    runs = probed(probe, scale)
    folders = {
        run: FOLDERS.get(f"{scale}/runs/{name}")
        for run, name in zip(runs, names(runs), strict=True)
    }
    runs = [
        run
        for run in runs
        if folders[run] is None
        or f"{probe}.json" in folders[run].taken
        or read.isdisjoint(folders[run].lacking)
    ]
    return present(files_of(runs, scale, f"{probe}.json"))


def table_5(scale):
    runs = runs_of("table5", scale)
    files = {
        "paper": paper("table5"),
        "score": present(files_of(runs, scale, "dev.last.json")),
    }
    files |= {probe: files_of_probe(probe, scale) for probe in PROBED}
    probes = [
        f"{probe}:{run}" for probe in PROBED for run in names(probed(probe, scale))
    ]
    return files, [
        f"--label={label_of_table_3(scale)}",
        "--expected",
        *names(runs),
        "--probes",
        *probes,
    ]


def table_why(scale):
    """Return what the table `why` is made from; of a partial page, another search's translations all or none."""
    runs, (_, task) = runs_of("why", scale), first_task(scale)
    base = [run for run in runs if run.experiment == "base"]
    scores = files_of(base, scale, "test.json")
    scored = present(scores)

    def translations(name):
        paths = [str(Path(path).with_name(f"{name}.hyp")) for path in scored]
        return paths if len(present(paths)) == len(paths) else []

    otherwise = {change: translations(f"test{change}") for change in CHANGES if change}
    vocabularies = present(files_of(base, scale, "vocabulary.model"), scores)
    files = {
        "paper": paper("table2"),
        "score": scored,
        "hyp": present(files_of(base, scale, "test.hyp"), scores),
        "last": translations("test.last"),
        "ref": [f"resources/corpora/{task['test']}.{task['target']}"],
        "dev_score": present(files_of(runs, scale, "dev.last.json")),
        "measures": paper("measures"),
        "also": [
            *vocabularies,
            *(path for paths in otherwise.values() for path in paths),
        ],
    }
    options = [
        f"--label={scale}: {task['test']}",
        f"--dev-label={label_of_table_3(scale)}",
    ]
    options += [
        "--run",
        moved(str(Path([*scored, *scores][0]).parent)),
        "--expected",
        *names(runs),
    ]
    for change, paths in otherwise.items():
        options += ["--otherwise", json.dumps(CHANGES[change]), *map(moved, paths)]
    return files, options


# As on the page.
TABLES = {
    "table1": lambda scale: (
        {"paper": paper("table1"), "measured": [f"results/{scale}/layers.json"]},
        [],
    ),
    "table2": table_2,
    "table3": table_3,
    "table4": table_4,
    "table5": table_5,
    "why": table_why,
}


def inputs_of_table(wildcards):
    """Return the files that a table is made from, by the option that takes them."""
    return TABLES[wildcards.table](wildcards.scale)[0]


def options_of_table(wildcards, input):
    """Return all options of the table stage."""
    files, options = TABLES[wildcards.table](wildcards.scale)
    taken = [name for name in files if name != "also"]
    return [
        word for name in taken for word in (f"--{name.replace('_', '-')}", *input[name])
    ] + options
