# The questions of rules/parse.smk: treebanks, and the trees that no person made.
from pathlib import Path

from transformer.config.corpora import source_of

# How parsers search, by what it adds to the names of their parses.
SEARCHES = {
    "": "",  # anything may be written, as in the paper, and is repaired,
    ".constrained": "--constrained",  # or trees only
}


def download_of_treebank(wildcards):
    """Return what a treebank is read from; of the Penn Treebank the files that are there: its reader names the others."""
    treebank = config["corpora"][wildcards.corpus]["treebank"]
    return (
        sorted(map(str, Path(treebank["path"]).rglob("*.mrg")))
        if "sections" in treebank
        else source_of(treebank)
    )


def treebank_options(wildcards):
    """Return how a treebank is read, as options of its stage."""
    corpus = config["corpora"][wildcards.corpus]
    treebank = corpus["treebank"]
    options = ["--input", moved(source_of(treebank))]
    if "sections" in treebank:
        options += ["--format", "ptb", "--sections", *treebank["sections"]]
    elif "split" in treebank:
        options += ["--format", "gum", "--split", treebank["split"]]
    else:
        options += ["--format", "lines"]
    for key, holder in (("lines", corpus), ("sha256", treebank)):
        options += [f"--{key}", holder[key]] if key in holder else []
    return options


def trees_of(wildcards):
    """Return the treebanks of one split of a parsing task."""
    return [f"resources/corpora/{corpus}.trees" for corpus in corpora_of(wildcards)]


def silver_of(wildcards):
    """Return the trees that no person made and that a parsing task trains on, too; none for most."""
    silver = task_of(wildcards).get("silver")
    if silver is None or wildcards.split != "train":
        return []
    return silver.get(
        "path", f"results/{wildcards.scale}/data/{wildcards.task}/silver.trees"
    )


def mix_options(wildcards, input):
    """Return the mix of treebanks, their phrases and silver trees, as options of the linearize stage."""
    task, options = task_of(wildcards), []
    if "phrases" in task and wildcards.split == "train":
        options += ["--phrases", task["phrases"]]
    if input.silver:
        options += ["--repeat", task["silver"]["repeat"], "--silver", input.silver]
    return options


def parser_of_silver(wildcards, *files):
    """Return files of the run that makes a task's silver trees, which is that with the first seed."""
    seed = parsing_of(wildcards.scale)["seeds"][0]
    run = f"results/{wildcards.scale}/runs/{task_of(wildcards)['silver']['parser']}/{PARSER}/{seed}"
    return [f"{run}/{file}" for file in files]
