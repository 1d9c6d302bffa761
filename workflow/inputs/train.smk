# The questions of rules/train.smk: what a run is.
import json

from transformer.config.runs import RunName, parts


def experiment_parts(wildcards):
    """Return what config.yaml says of one run, as JSON for the resolve stage."""
    run = RunName(wildcards.task, wildcards.experiment, int(wildcards.seed))
    return json.dumps(parts(at(config, wildcards.scale), run))


def checked_subsets(wildcards):
    """Return what shows that a task's subsets are parts of its test set; nothing for those that have none."""
    checked = f"results/{wildcards.scale}/data/{wildcards.task}/test.subsets.json"
    return checked if "subsets" in task_of(wildcards) else []
