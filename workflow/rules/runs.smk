# Which runs each table, figure and page takes, and which of their files.
from types import SimpleNamespace

TRAININGS = ["base", "dropout-0.0", "smoothing-0.0"]  # the experiments of Table 3 that the table `why` compares

FIGURES = ["figure1", "figure2", "figure3", "figure4", "figure5", "positions", "schedule", "curves"]
FIGURES += ["bleu_parameters", "bleu_flops", "timing"]


def runs_of_table_2(file):
    """An input function: this file of every run of Table 2, which are base and big on every task of the scale."""
    return lambda wildcards: run_files(wildcards.scale, config["scales"][wildcards.scale]["tasks"], TABLE_2, file)


def runs_of_table_3(file):
    """An input function: this file of every run of Table 3, which are all experiments on the scale's first task."""
    return lambda wildcards: run_files(wildcards.scale, first_task(wildcards)[0], config["experiments"], file)


def run_files(scale, tasks, experiments, file, seeds=None):
    """A file of the runs with every seed, those of the scale if not given."""
    paths = collect(
        "results/{scale}/runs/{task}/{experiment}/{seed}/{file}",
        scale=scale,
        task=tasks,
        experiment=experiments,
        seed=seeds or config["scales"][scale]["seeds"],
        file=file,
    )
    # Of a partial page, what is there is taken as it is, whatever config.yaml says now: no rule makes an absolute path.
    return [os.path.abspath(path) if config["partial"] and os.path.exists(path) else path for path in paths]


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


def figures_of_scale(scale):
    """The figures that can be drawn: Figures 3 to 5 need sentences; where runs may be missing, some need a trained base."""
    left_out = {"figure3", "figure4", "figure5"} - set(config["scales"][scale].get("figures", {}))
    base = base_run("average.safetensors")(SimpleNamespace(scale=scale))
    if config["partial"] and not all(Path(path).exists() for path in base):
        left_out |= {"figure3", "figure4", "figure5", "positions"}
    return [figure for figure in FIGURES if figure not in left_out]


def base_run(*files, experiments=("base",)):
    """An input function: these files of a run that stands for its experiment: on the first task, with the first seed."""

    def paths(wildcards):
        scale, seeds = wildcards.scale, config["scales"][wildcards.scale]["seeds"]
        task = first_task(wildcards)[0]
        return [path for file in files for path in run_files(scale, [task], experiments, file, seeds[:1])]

    return paths


def runs_of_curves(file):
    """An input function: this file of every run; of the parsers where there is a Table 4."""

    def files(wildcards):
        parsers = runs_of_table_4(file)(wildcards) if "table4" in tables_of_scale(wildcards.scale) else []
        return list(dict.fromkeys(runs_of_table_3(file)(wildcards) + runs_of_table_2(file)(wildcards) + parsers))

    return files


def text_of_attention(wildcards):
    """The first task's test set in its source language."""
    _, task = first_task(wildcards)
    return f"resources/corpora/{task['test']}.{task['source']}"


def inputs_of_figure(wildcards):
    """What a figure is drawn from, by the option of the figure stage that takes it."""
    paper = "workflow/paper/{}.csv".format
    match wildcards.figure:
        case "figure1" | "figure2":
            return {"experiment": base_run("experiment.yaml")(wildcards)}
        case "figure3" | "figure4" | "figure5":
            return {"attention": f"results/{wildcards.scale}/attention.json"}
        case "positions":
            experiment, weights = base_run("experiment.yaml", "average.safetensors")(wildcards)
            return {"experiment": experiment, "weights": weights}
        case "schedule":
            return {"experiment": base_run("experiment.yaml", experiments=TABLE_2)(wildcards)}
        case "curves":
            return {"metrics": present(runs_of_curves, "metrics.jsonl")(wildcards), "paper": paper("table3")}
        case "bleu_parameters":
            return {"score": present(runs_of_table_3, "dev.last.json")(wildcards), "paper": paper("table3")}
        case "bleu_flops":
            score, dev = present(runs_of_table_2, "test.json"), present(runs_of_table_3, "dev.last.json")
            return {"score": score(wildcards), "dev": dev(wildcards), "paper": paper("table2")}
    return {"measured": f"results/{wildcards.scale}/layers.json"}


def options_of_figure(wildcards, input):
    """The same as options, and what the figure says of them."""
    options = []
    for option in inputs_of_figure(wildcards):
        files = input[option]
        options += [f"--{option}", *([files] if isinstance(files, str) else files)]
    match wildcards.figure:
        case "curves":
            options += ["--task", first_task(wildcards)[0], "--label", label_of_table_3(wildcards)]
            options += ["--expected", *names(runs_of_curves)(wildcards)]
        case "bleu_parameters":
            options += ["--label", label_of_table_3(wildcards), "--expected", *names(runs_of_table_3)(wildcards)]
        case "bleu_flops":
            label = config["scales"][wildcards.scale]["label"]
            options += ["--label", label, "--expected", *names(runs_of_table_2)(wildcards)]
    return options
