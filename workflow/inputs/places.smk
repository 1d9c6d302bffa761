# Where files lie, also where another workflow uses this one as a `module`: in another folder, below a prefix.
import os
import shlex

from transformer.config.corpora import all_places
from transformer.config.scales import at
from transformer.config.scales import parsing_of as parsing_at

# What `prefix` or `replace_prefix` of the module says.
PATHS = workflow.modifier.path_modifier


def moved(path):
    """Return where an input or output lies; Snakemake moves these by itself, and no params."""
    return PATHS.replace_prefix(path)


def own(path):
    """Return the path of a file of the project: relative in its own folder, where finished jobs have recorded that."""
    return (
        path if ROOT.samefile(os.curdir) and moved(path) == path else str(ROOT / path)
    )


def keep_in_place(config):
    """Make the paths that a configuration gives absolute where the module's prefix would move them."""
    tasks = [
        task
        for scale in config["scales"]
        for task in parsing_at(at(config, scale))["tasks"].values()
    ]
    for entry in [
        *all_places(config).values(),
        *(task.get("silver", {}) for task in tasks),
    ]:
        if "path" in entry and moved(entry["path"]) != entry["path"]:
            entry["path"] = os.path.abspath(entry["path"])


# For the beginning of a `shell:`, in which braces are Snakemake's.
SCRIPTS = shlex.quote(own("workflow/scripts")).replace("{", "{{").replace("}", "}}")
