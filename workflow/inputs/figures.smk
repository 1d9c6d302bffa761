# The questions of rules/figures.smk: what each figure is drawn from. Those of tables.smk come before.
import json
import os

from transformer.config.experiment import load, resolve

# As on the page.
FIGURES = [
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "positions",
    "schedule",
    "curves",
    "bleu_parameters",
    "bleu_flops",
    "timing",
    "head_importance",
    "bleu_length",
]
OF_SENTENCES = {"figure3", "figure4", "figure5"}  # which config.yaml names


def base_run(scale, *files, experiments=("base",)):
    """Return these files of the run that stands for an experiment: on the first task, with the first seed."""
    task, seed = first_task(scale)[0], config["scales"][scale]["seeds"][0]
    first = [
        run for run in runs_of("table2", scale) if (run.task, run.seed) == (task, seed)
    ]
    chosen = [run for run in first if run.experiment in experiments]
    return [path for file in files for path in files_of(chosen, scale, file)]


def base_is_trained(scale):
    """Return whether there is, or will be, a base model to look into: on a partial page it may be missing."""
    return not config["partial"] or all(
        map(is_there, base_run(scale, "average.safetensors"))
    )


def attention_is_known(scale):
    """Return whether the attention of the base model is there, or can be worked out."""
    return base_is_trained(scale) or is_there(f"results/{scale}/attention.json")


def base_model(scale):
    """Return the configuration of the base model; on a partial page that of the run which is there."""
    (path,) = base_run(scale, "experiment.yaml")
    if config["partial"] and os.path.exists(moved(path)):
        return load(moved(path)).model
    task, seed = first_task(scale)[0], config["scales"][scale]["seeds"][0]
    return resolve(parts(at(config, scale), RunName(task, "base", seed))).model


@cache
def not_drawn(scale):
    """Return why figures, and the page's attention, cannot be shown: by name those of which this is so."""
    reasons, model = {}, base_model(scale)
    if not present(base_run(scale, "heads.json")):
        reasons["head_importance"] = (
            "the base model is trained, but its heads were not measured"
        )
    if not base_is_trained(scale):
        of_attention = [] if attention_is_known(scale) else [*OF_SENTENCES, "attention"]
        untrained = "the base model that it shows is not trained"
        reasons |= dict.fromkeys([*of_attention, "positions", *reasons], untrained)
    for figure in OF_SENTENCES - set(config["scales"][scale].get("figures", {})):
        reasons[figure] = "config.yaml has no sentence for it at this scale"
    if model.positions == "none":
        reasons["positions"] = "the base model has none"
    if model.attention != "dot":
        reasons["figure2"] = (
            f"it shows dot products, and attention in the base model is {model.attention}"
        )
    return reasons


def figures_of_scale(scale):
    """Return the figures that can be drawn."""
    return [figure for figure in FIGURES if figure not in not_drawn(scale)]


def text_of_attention(wildcards):
    """Return the first task's test set in its source language."""
    _, task = first_task(wildcards.scale)
    return f"resources/corpora/{task['test']}.{task['source']}"


def runs_of_curves(scale):
    """Return the runs of Tables 2 to 4, each once; the parsers where there is a Table 4."""
    tables = [table for table in CURVES if table in tables_of_scale(scale)]
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
            experiment, weights = base_run(
                scale, "experiment.yaml", "average.safetensors"
            )
            return {"experiment": [experiment], "weights": [weights]}, []
        case "schedule":
            return {
                "experiment": base_run(scale, "experiment.yaml", experiments=TABLE_2)
            }, []
        case "curves":
            runs, task = runs_of_curves(scale), first_task(scale)[0]
            files = {
                "metrics": present(files_of(runs, scale, "metrics.jsonl")),
                "paper": paper("table3"),
            }
            return files, [
                *(["--task", task] if data_of_paper(scale) else []),
                f"--label={label_of_table_3(scale)}",
                "--expected",
                *names(runs),
            ]
        case "bleu_parameters":
            files = {
                "score": scores("table3", "dev.last.json"),
                "paper": paper("table3"),
            }
            return files, [
                f"--label={label_of_table_3(scale)}",
                "--expected",
                *names(runs_of("table3", scale)),
            ]
        case "bleu_flops":
            files = {
                "score": scores("table2", "test.json"),
                "dev": scores("table3", "dev.last.json"),
            }
            label, expected = config["scales"][scale]["label"], names(
                runs_of("table2", scale)
            )
            return files | {"paper": paper("table2")}, [
                f"--label={label}",
                "--expected",
                *expected,
            ]
        case "bleu_length":
            files, expected = {"lengths": files_of_probe("lengths", scale)}, names(
                probed("lengths", scale)
            )
            return files, [
                f"--label={label_of_table_3(scale)}",
                "--expected",
                *expected,
            ]
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
