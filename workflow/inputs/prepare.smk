# The questions of rules/prepare.smk: languages, subsets of a test set, and vocabularies.
import json

from transformer.config.runs import preparation_of


def preparation(wildcards):
    """Return how a task's text is prepared, as JSON for the tokenize stage."""
    return json.dumps(preparation_of(at(config, wildcards.scale), wildcards.task))


def subsets_of(wildcards):
    """Return the corpora that are parts of the test set and scored beside it, by name; other splits have none."""
    return task_of(wildcards).get("subsets", {}) if wildcards.split == "test" else {}


def references_of_subsets(wildcards):
    """Return the files of these corpora in the target language."""
    language = task_of(wildcards)["target"]
    return [
        f"resources/corpora/{corpus}.{language}"
        for corpus in subsets_of(wildcards).values()
    ]


def subset_options(wildcards, input):
    """Return names and files of these corpora, as options of the score stage."""
    pairs = zip(subsets_of(wildcards), input.subsets, strict=True)
    return [word for name, path in pairs for word in ("--subset", name, path)]


def prepare_threads(wildcards):
    """Return half the machine: what needs all of it waits until nothing else runs. 4 on a cluster. 1 for short texts."""
    if getattr(wildcards, "split", "train") != "train":
        return 1
    return max(1, min(16, shared_cores() // 2)) if shared_cores() else 4


def vocabulary_options(wildcards, input):
    """Return what a vocabulary is learned on and how large it is, as options of its stage; parsers write no subwords."""
    task = task_of(wildcards)
    if "symbols" not in task:
        return ["--text", input.source, input.target, "--size", task["vocabulary"]]
    size = task["symbols"] + task["vocabulary"]
    return [
        "--text",
        input.source,
        "--symbols",
        input.target,
        "--rows",
        task["symbols"],
        "--size",
        size,
    ]
