# Which runs each table, figure and page takes, and which of their files.
TRAININGS = ["base", "dropout-0.0", "smoothing-0.0"]  # the experiments of Table 3 that are compared


def runs_of_table_2(file):
    """An input function: this file of every run of Table 2, which are base and big on every task of the scale."""
    return lambda wildcards: run_files(wildcards.scale, config["scales"][wildcards.scale]["tasks"], TABLE_2, file)


def runs_of_table_3(file):
    """An input function: this file of every run of Table 3, which are all experiments on the scale's first task."""
    return lambda wildcards: run_files(wildcards.scale, first_task(wildcards)[0], config["experiments"], file)


def run_files(scale, tasks, experiments, file, seeds=None):
    """A file of the runs with every seed, those of the scale if not given."""
    return collect(
        "results/{scale}/runs/{task}/{experiment}/{seed}/{file}",
        scale=scale,
        task=tasks,
        experiment=experiments,
        seed=seeds or config["scales"][scale]["seeds"],
        file=file,
    )


def runs_of_table_4(file, needs="test"):
    """An input function: this file of every run of Table 4, which are the parsers of the tasks that have such a split."""

    def files(wildcards):
        parsing = parsing_of(wildcards.scale)
        tasks = [name for name, task in parsing["tasks"].items() if needs in task]
        return run_files(wildcards.scale, tasks, PARSER, file, parsing["seeds"])

    return files


def runs_of_table_4_elsewhere(file):
    """The same, of the parsers that are tested on other trees, too."""
    return runs_of_table_4(file, needs="elsewhere")


def present(runs, file, beside=None):
    """An input function: this file of the runs of a table; of a partial one, where it and `beside` are there already."""

    def files(wildcards):
        pairs = zip(runs(file)(wildcards), runs(beside or file)(wildcards))
        return [path for path, *other in pairs if not config["partial"] or all(map(os.path.exists, (path, *other)))]

    return files


def names(runs):
    """A params function: the runs of a table as task/experiment/seed."""
    return lambda wildcards: [Path(*Path(path).parts[-4:-1]).as_posix() for path in runs("x")(wildcards)]


def table_files(name):
    """A table's files: all digits, then three for readers, of which Snakemake's own report takes the last."""
    path = f"results/{{scale}}/tables/{name}"
    page = report(f"{path}.html", caption=f"../report/{name}.rst", category="Tables", labels={"table": name})
    return [f"{path}.csv", f"{path}.md", f"{path}.tex", page]


def rows_of_table_4(wildcards):
    """What Table 4 says of our parsers' training and test trees, as JSON for its stage."""
    tasks = parsing_of(wildcards.scale)["tasks"]
    return json.dumps(
        {
            name: {"training": task["training"], "label": task["label"], "silver": "silver" in task}
            for name, task in tasks.items()
        }
    )


def elsewhere_options(wildcards, input):
    """The scores on other trees, with the trees' name, as options of the table4 stage."""
    if not input.elsewhere:
        return []
    tasks = parsing_of(wildcards.scale)["tasks"].values()
    label = " and ".join(dict.fromkeys(task["elsewhere"] for task in tasks if "elsewhere" in task))
    return ["--elsewhere", *input.elsewhere, "--elsewhere-label", label]


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


def base_runs(file):
    """An input function: this file of every run of the base model on the scale's first task."""
    return lambda wildcards: run_files(wildcards.scale, first_task(wildcards)[0], "base", file)


def compared_runs(file):
    """The same, of the trainings that are compared."""
    return lambda wildcards: run_files(wildcards.scale, first_task(wildcards)[0], TRAININGS, file)


def translations(name):
    """An input function: these translations of the base runs that are scored; of a partial page all of them, or none."""

    def files(wildcards):
        scores = present(base_runs, "test.json")(wildcards)
        found = [f"{score.removesuffix('test.json')}{name}.hyp" for score in scores]
        return [] if config["partial"] and not all(Path(path).exists() for path in found) else found

    return files


def translations_otherwise(wildcards):
    """The translations by other searches."""
    return [path for change in CHANGES if change for path in translations(f"test{change}")(wildcards)]


def otherwise_options(wildcards):
    """What each of these searches does otherwise, and its translations, as options of the why stage."""
    options = []
    for change in filter(None, CHANGES):
        options += ["--otherwise", json.dumps(CHANGES[change]), *translations(f"test{change}")(wildcards)]
    return options


def test_references(wildcards):
    """The references of the scale's first task."""
    _, task = first_task(wildcards)
    return f"resources/corpora/{task['test']}.{task['target']}"
