# The questions of rules/report.smk: what is on the page of a scale. Those of tables.smk and figures.smk come before.
import json
import os

from transformer.config.corpora import (
    downloads_of,
    files_of as files_of_task,
    places_of,
)

# The code of the page and of REPRODUCIBILITY.md; the rest of its package serves a model.
PAGE = [
    "report/page/cards.py",
    "report/page/chain.py",
    "report/page/page.py",
    "report/page/samples.py",
    "report/page/summary.py",
    "report/page/templates/provenance.js",
    "report/page/templates/report.css",
    "report/page/templates/report.html",
    "report/page/templates/viewer.html",
    "report/page/templates/viewer.js",
    "commands/report.py",
]
REPRODUCIBILITY = [
    "report/page/accounts.py",
    "report/page/datasets.py",
    "report/page/energy.py",
    "report/page/page.py",
    "report/page/reproducibility.py",
    "report/page/setup.py",
    "report/page/summary.py",
    "report/page/templates/reproducibility.md",
    "evaluation/records.py",
    "evaluation/significance.py",
    "commands/reproducibility.py",
    "report/tables/cells.py",
    "report/tables/render.py",
]

# The scores of the runs of these tables.
SCORES = {
    "table2": "test.json",
    "table3": "dev.last.json",
    "table4": "test.json",
    "table5": "dev.last.json",
}


def tables_of_page(wildcards):
    """Return the tables that can be made at this scale, in the page's order."""
    return [
        f"results/{wildcards.scale}/tables/{table}.json"
        for table in tables_of_scale(wildcards.scale)
    ]


def files_of_page(scale, file=None):
    """Return this file of every run in a table; if None, its score there."""
    tables = [table for table in SCORES if table in tables_of_scale(scale)]
    paths = [
        path
        for table in tables
        for path in files_of(runs_of(table, scale), scale, file or SCORES[table])
    ]
    return list(dict.fromkeys(paths))


def samples_of_page(scale):
    """Return files by option: of every task its first run's output on the test set, and what it is compared with."""
    corpora, tasks = "resources/corpora", config["scales"][scale]["tasks"]

    def first_output(table, task, file):  # that of the base model with the first seed
        return files_of(
            [run for run in runs_of(table, scale) if run.task == task][:1], scale, file
        )

    translations = [
        [
            ours,
            *(
                f"{corpora}/{tasks[task]['test']}.{tasks[task][side]}"
                for side in ("source", "target")
            ),
        ]
        for task in tasks
        for ours in first_output("table2", task, "test.hyp")
    ]
    parsed = parsing_of(scale)["tasks"] if "table4" in tables_of_scale(scale) else {}
    parses = [
        [ours, f"{corpora}/{parsed[task]['test']}.trees"]
        for task in parsed
        for ours in first_output("table4", task, "test.trees")
    ]
    return {"--translations": translations, "--parses": parses}


def files_of_samples(wildcards):
    """Return the files of samples; on a partial page those whose output is there already."""
    sets = [
        files
        for option in samples_of_page(wildcards.scale).values()
        for files in option
    ]
    return [path for files in sets if present(files[:1]) for path in files]


def why_not_made(scale, part):
    """Return what a part of the page lacks."""
    if part == "table4":
        return "this scale has no treebank, or it is not on this machine"
    if part == "measures":
        return "this scale scores no other systems, whose translations come from the network; multi30k and paper do"
    return not_drawn(scale)[part]


def parts_not_made(scale):
    """Return the tables, figures and attention that this scale does not have, with the reasons, as options."""
    attention = ["attention"] if attention_is_known(scale) else []
    made = [*tables_of_scale(scale), *figures_of_scale(scale), *attention]
    missing = [part for part in [*TABLES, *FIGURES, "attention"] if part not in made]
    return [
        word
        for part in missing
        for word in ("--missing", part, why_not_made(scale, part))
    ]


def options_of_page(wildcards):
    """Return what should be there besides the inputs, what cannot be made, and an hour's cost, as options."""
    scale = wildcards.scale
    options = [
        "--samples",
        config["report"]["samples"],
        f"--currency={config['report']['currency']}",
    ]
    options += [*data_of_paper(scale), *parts_not_made(scale)]
    options += [
        "--run",
        *map(moved, files_of_page(scale, "run.json")),
        "--score",
        *map(moved, files_of_page(scale)),
    ]
    for option, sets in samples_of_page(scale).items():
        options += [word for files in sets for word in (option, *map(moved, files))]
    for unit in ("core_hour", "gpu_hour"):
        if config["report"][unit] != "unknown":
            options += [f"--{unit.replace('_', '-')}", config["report"][unit]]
    return options


# What REPRODUCIBILITY.md is made from, of the files beside a run.json.
BESIDE_RUN = ["experiment.yaml", "decoding.yaml", "metrics.jsonl"]


def data_of_page(scale):
    """Return data.json of the tasks of all runs in a table.

    Where no run of a task will be trained here, only if it is there, or beside what was measured elsewhere: it is no
    reason to prepare and train again.
    """
    tables = [table for table in SCORES if table in tables_of_scale(scale)]
    runs = dict.fromkeys(run for table in tables for run in runs_of(table, scale))
    to_train = {
        run.task
        for run, name in zip(runs, names(runs), strict=True)
        if f"{scale}/runs/{name}" not in FOLDERS
        and not os.path.exists(moved(f"results/{scale}/runs/{name}/run.json"))
    }
    paths = {run.task: f"results/{scale}/data/{run.task}/data.json" for run in runs}
    beside = config["scales"][scale].get("measured", {"path": os.devnull})["path"]
    found = []
    for task, path in paths.items():
        recorded = os.path.abspath(f"{beside}/data/{task}/data.json")
        if config["partial"] and os.path.exists(moved(path)):
            found.append(os.path.abspath(moved(path)))
        elif os.path.exists(moved(path)) or path.removeprefix("results/") in TAKEN:
            found.append(path)
        elif os.path.exists(recorded) and (config["partial"] or task not in to_train):
            found.append(recorded)
        elif task in to_train:
            found.append(path)
    return found


def files_of_reproducibility(wildcards):
    """Return what REPRODUCIBILITY.md is made from: on a partial page what is there; of taken runs what they have."""
    scale = wildcards.scale
    beside = [
        path
        for file in BESIDE_RUN
        for path in files_of_page(scale, file)
        if not lacking(path)
    ]
    return {
        "runs": present(files_of_page(scale, "run.json")),
        "beside": present(beside),
        "scores": present(files_of_page(scale)),
        "data": present(data_of_page(scale)),
    }


def lacking(path):
    """Return whether a file belongs to a run that was taken without it, so that asking for it would end all."""
    return path.removeprefix("results/") in LACKING


def entries_of_data(scale):
    """Return what config.yaml says of a scale's data and of the settings that were tried, as JSON."""
    tasks, entry = tasks_of(at(config, scale)), config["scales"][scale]
    used = {corpus for task in tasks.values() for corpus, _ in files_of_task(task)}
    corpora = {
        name: corpus for name, corpus in config["corpora"].items() if name in used
    }
    downloads = downloads_of(
        place for corpus in corpora.values() for place in places_of(corpus).values()
    )
    entries = {
        "tasks": tasks,
        "corpora": corpora,
        "downloads": {name: config["downloads"][name] for name in downloads},
    }
    return json.dumps(entries | ({"tried": entry["tried"]} if "tried" in entry else {}))


def options_of_reproducibility(wildcards):
    """Return what should be there, what cannot be made, what the data are, and what is assumed of power, as options."""
    scale, energy = wildcards.scale, config["report"]["energy"]
    options = [
        "--run",
        *map(moved, files_of_page(scale, "run.json")),
        "--score",
        *map(moved, files_of_page(scale)),
    ]
    options += [
        "--data",
        *map(moved, data_of_page(scale)),
        f"--described={entries_of_data(scale)}",
        *parts_not_made(scale),
    ]
    made = [f"tables/{table}.md" for table in tables_of_scale(scale)]
    made += [f"figures/{figure}.svg" for figure in figures_of_scale(scale)]
    options += ["--target", *(moved(f"results/{scale}/{file}") for file in made)]
    options += ["--module"] if IN_MODULE else []
    options += ["--configfile", *map(os.path.relpath, workflow.overwrite_configfiles)]
    for key in ("core_watts", "gpu_watts", "pue"):
        options += [f"--{key.replace('_', '-')}", energy[key]]
    return [
        *options,
        f"--estimate={energy['estimate']}",
        f"--source={energy['source']}",
    ]
