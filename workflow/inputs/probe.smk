# The questions of rules/probe.smk: how a trained run is measured.


def probes_at(scale):
    """Return the settings of all probes."""
    return config["probes"] | config["scales"][scale].get("probes", {})


def also_probed(wildcards):
    """Return what a probe reads besides a run's weights and the dev set."""
    run = f"results/{wildcards.scale}/runs/{wildcards.task}/{wildcards.experiment}/{wildcards.seed}"
    data = f"results/{wildcards.scale}/data/{wildcards.task}"
    match wildcards.probe:
        case "averaging":
            return [f"{run}/checkpoints"]
        case "lengths":
            return [f"{data}/train.source.offsets"]
    return []


def probe_options(wildcards):
    """Return a probe's own options."""
    settings = probes_at(wildcards.scale)
    match wildcards.probe:
        case "averaging":
            options = ["--checkpoints", *settings["checkpoints"]]
        case "heads":
            options = ["--choose", settings["choose"]]
        case "lengths":
            data = moved(f"results/{wildcards.scale}/data/{wildcards.task}")
            options = ["--data", data, "--times", *settings["times"]]
        case "smoothing":
            options = ["--beams", *settings["beams"]]
    return ["--sentences", settings["sentences"], *options]
