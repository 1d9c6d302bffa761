# The questions of rules/report.smk: what is on the page of a scale. Those of tables.smk and figures.smk come before.

# The code of the page; the rest of its package serves a model.
PAGE = [
    "report/page/cards.py",
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
