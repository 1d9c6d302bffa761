"""The scale that a configuration builds, and its tasks."""


def at(config: dict, scale: str) -> dict:
    """Return the configuration as it is where it builds `scale`."""
    return config | {"scale": scale}


def scale_of(config: dict) -> dict:
    """Return the entry of the scale that is built."""
    return config["scales"][config["scale"]]


def parsing_of(config: dict) -> dict:
    """Return what the scale parses, which may be nothing."""
    return scale_of(config).get("parsing", {"seeds": [], "parser": {}, "tasks": {}})


def tasks_of(config: dict) -> dict[str, dict]:
    """Return all of the scale's tasks, whether they translate or parse."""
    return scale_of(config)["tasks"] | parsing_of(config)["tasks"]
