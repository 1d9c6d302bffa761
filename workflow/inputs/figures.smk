# The questions of rules/figures.smk: what each figure is drawn from. Those of tables.smk come before.
import json
import os

FIGURES = ["figure1", "figure2", "figure3", "figure4", "figure5", "positions", "schedule", "curves"]
FIGURES += ["bleu_parameters", "bleu_flops", "timing", "head_importance", "bleu_length"]  # as on the page
OF_SENTENCES = {"figure3", "figure4", "figure5"}  # which config.yaml names


def base_run(scale, *files, experiments=("base",)):
    """Return these files of the run that stands for an experiment: on the first task, with the first seed."""
    task, seed = first_task(scale)[0], config["scales"][scale]["seeds"][0]
    first = [run for run in runs_of("table2", scale) if (run.task, run.seed) == (task, seed)]
    chosen = [run for run in first if run.experiment in experiments]
    return [path for file in files for path in files_of(chosen, scale, file)]


def base_is_trained(scale):
    """Return whether there is, or will be, a base model to look into: on a partial page it may be missing."""
    return not config["partial"] or all(map(os.path.exists, base_run(scale, "average.safetensors")))


def figures_of_scale(scale):
    """Return the figures that can be drawn: Figures 3 to 5 need sentences, and they and `positions` a trained base."""
    left_out = OF_SENTENCES - set(config["scales"][scale].get("figures", {}))
    if not base_is_trained(scale):
        left_out |= OF_SENTENCES | {"positions"}
    if not present(base_run(scale, "heads.json")):
        left_out |= {"head_importance"}
    return [figure for figure in FIGURES if figure not in left_out]


def text_of_attention(wildcards):
    """Return the first task's test set in its source language."""
    _, task = first_task(wildcards.scale)
    return f"resources/corpora/{task['test']}.{task['source']}"


def runs_of_curves(scale):
    """Return every run; the parsers where there is a Table 4."""
    tables = ["table3", "table2", *(["table4"] if "table4" in tables_of_scale(scale) else [])]
    return list(dict.fromkeys(run for table in tables for run in runs_of(table, scale)))


def sources_of_figure(figure, scale):
    """Return what a figure is drawn from, by the option of the figure stage that takes it, and further options."""

    def scores(table, file):
        return present(files_of(runs_of(table, scale), scale, file))

    match figure:
        case "figure1" | "figure2":
            return {"experiment": base_run(scale, "experiment.yaml")}, []
        case "figure3" | "figure4" | "figure5":
            return {"attention": [f"results/{scale}/attention.json"]}, []
        case "positions":
            experiment, weights = base_run(scale, "experiment.yaml", "average.safetensors")
            return {"experiment": [experiment], "weights": [weights]}, []
        case "schedule":
            return {"experiment": base_run(scale, "experiment.yaml", experiments=TABLE_2)}, []
        case "curves":
            runs, task = runs_of_curves(scale), first_task(scale)[0]
            files = {"metrics": present(files_of(runs, scale, "metrics.jsonl")), "paper": paper("table3")}
            return files, ["--task", task, "--label", label_of_table_3(scale), "--expected", *names(runs)]
        case "bleu_parameters":
            files = {"score": scores("table3", "dev.last.json"), "paper": paper("table3")}
            return files, ["--label", label_of_table_3(scale), "--expected", *names(runs_of("table3", scale))]
        case "bleu_flops":
            files = {"score": scores("table2", "test.json"), "dev": scores("table3", "dev.last.json")}
            label, expected = config["scales"][scale]["label"], names(runs_of("table2", scale))
            return files | {"paper": paper("table2")}, ["--label", label, "--expected", *expected]
        case "bleu_length":
            runs = probed("lengths", scale)
            files = {"lengths": present(files_of(runs, scale, "lengths.json"))}
            return files, ["--label", label_of_table_3(scale), "--expected", *names(runs)]
        case "head_importance":
            return {"heads": base_run(scale, "heads.json")}, []
        case "timing":
            return {"measured": [f"results/{scale}/layers.json"]}, []


def inputs_of_figure(wildcards):
    """Return what a figure is drawn from, by option."""
    return sources_of_figure(wildcards.figure, wildcards.scale)[0]


def options_of_figure(wildcards, input):
    """Return all options of the figure stage: the inputs, and what the figure says of them."""
    files, options = sources_of_figure(wildcards.figure, wildcards.scale)
    return [word for name in files for word in (f"--{name}", *input[name])] + options
