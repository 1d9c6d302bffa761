# The questions of rules/translate.smk: how a run decodes, and with which weights.
import json

# Which weights translate, by what they add to a translation's name.
WEIGHTS = {
    "": "average.safetensors",  # Table 2 averages (§6.1),
    ".last": "last.safetensors",  # Table 3 does not (§6.2)
}

# How a translation decodes otherwise than is configured, by what it adds to the translation's name (table_why in tables.smk).
CHANGES = {
    "": {},
    ".beam-1": {"beam": 1},
    ".alpha-0": {"alpha": 0.0},
    ".extra_length-0": {"extra_length": 0},
}


def weights_of(wildcards):
    """Return the weights that a translation is made with."""
    run = f"results/{wildcards.scale}/runs/{wildcards.task}/{wildcards.experiment}/{wildcards.seed}"
    return f"{run}/{WEIGHTS[wildcards.weights]}"


def weights_of_score(wildcards):
    """Return the weights behind a score; none where a run was taken without them (take.smk)."""
    name = WEIGHTS[wildcards.get("weights", "")]
    path = f"{wildcards.scale}/runs/{wildcards.task}/{wildcards.get('experiment', PARSER)}/{wildcards.seed}/{name}"
    return [] if path in LACKING else f"results/{path}"
