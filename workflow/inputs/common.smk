# The questions of all rules: names, tasks and their corpora, and what jobs may use of a machine.
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from transformer.config.corpora import absent_treebank
from transformer.config.runs import (
    CURVES,
    PARSER,
    PROBED,
    TABLE_2,
    experiments_of,
    runs_of_tables,
    training_threads,
)
from transformer.config.scales import at, tasks_of
from transformer.config.scales import parsing_of as parsing_at

# The code of beam search; the rest of its package exports.
SEARCH = [
    "model",
    "translation/decoder.py",
    "translation/search.py",
    "translation/translator.py",
]
# The names of these rules, also where another workflow uses them under others.
NAMES = {
    name: workflow.modifier.modify_rulename(name) for name in ("train", "train_parser")
}
FIRST = 10  # priority of what long chains of jobs wait for


def refuse(where, problem):
    """End with one line, rather than with a traceback, where what config.yaml names cannot be used."""
    sys.exit(f"config.yaml: {where}: {problem}")


def check_python():
    """End with one line where the `python` that rules call is not of this environment, nor one with its packages.

    With --software-deployment-method conda, rules call another.
    """
    python = shutil.which("python")
    deployed = {
        str(method) for method in workflow.deployment_settings.deployment_method
    }
    if (
        "conda" in deployed
        or python
        and os.path.samefile(os.path.dirname(python), os.path.dirname(sys.executable))
    ):
        return
    packages = "import importlib.util as util, sys; sys.exit(not all(map(util.find_spec, ('torch', 'sentencepiece'))))"
    if (
        not python
        or subprocess.run([python, "-c", packages], capture_output=True).returncode
    ):
        found = (
            f"{python}, which lacks the project's packages"
            if python
            else "none on PATH"
        )
        expected = (
            f"expected `python` on PATH to be that of {os.path.dirname(sys.executable)}"
        )
        sys.exit(
            f"Snakefile: {expected}, found {found}: activate the environment first"
        )


def any_of(names):
    """Return a wildcard constraint: one of these names, literally."""
    return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"


def package(*names):
    """Return the code in these folders and files of the package, templates too: where it changes, a rule runs again."""
    files = []
    for place in (ROOT / "transformer" / name for name in names):
        code = (
            [place]
            if place.is_file()
            else [
                path for path in place.rglob("*.*") if "__pycache__" not in path.parts
            ]
        )
        files += code or sys.exit(
            f"Snakefile: {place}: expected code there, on which rules depend, found none"
        )
    return sorted(own(str(path.relative_to(ROOT))) for path in files)


def parsing_of(scale):
    """Return what a scale parses, which may be nothing."""
    return parsing_at(at(config, scale))


def names_of_tasks(kind):
    """Return the names at any scale of its `tasks` that translate, or of those of its `parsing`."""
    of_kind = parsing_of if kind == "parsing" else config["scales"].get
    return {name for scale in config["scales"] for name in of_kind(scale)["tasks"]}


def task_of(wildcards):
    """Return a task's entry in config.yaml, whether it translates or parses."""
    return tasks_of(at(config, wildcards.scale))[wildcards.task]


def corpora_of(wildcards, split=None):
    """Return the corpora of one split of a task: the one that is named, or else that of the wildcards."""
    corpora = task_of(wildcards)[split or wildcards.split]
    return corpora if isinstance(corpora, list) else [corpora]


def side(name, split=None):
    """Return an input function: the files of one side (source or target) of a split's corpora (see `corpora_of`)."""

    def files(wildcards):
        language = task_of(wildcards)[name]
        return [
            f"resources/corpora/{corpus}.{language}"
            for corpus in corpora_of(wildcards, split)
        ]

    return files


@cache
def tables_of_scale(scale):
    """Return the scale's tables; without Table 4, and saying so, where its treebank has to be bought and is not here."""
    if absent := absent_treebank(at(config, scale)):
        print(
            f"`all` leaves out table4: no folder {absent} with the Penn Treebank",
            file=sys.stderr,
        )
    made = runs_of_tables(at(config, scale))
    return [
        table
        for table in TABLES
        if table in made and not (table == "table4" and absent)
    ]


def memory(small, large=None, each_thread=0):
    """Return an input function: megabytes that a job needs at most, Snakemake's own in it.

    large: those at the paper's own size of models.
    """

    def megabytes(wildcards, threads):
        paper = large and config["scales"][wildcards.scale]["width"] == 1
        return (large if paper else small) + each_thread * threads

    return megabytes


def shared_cores():
    """Return how many processors all jobs share; None on a cluster, where each job has its own."""
    return None if workflow.remote_exec else workflow.global_resources["_cores"].value


def train_threads(wildcards):
    """Return the processors of a training: where a profile has Slurm start it, those of its GPUs on each node."""
    name = NAMES["train_parser" if wildcards.experiment == PARSER else "train"]
    # What a profile says, or the command line.
    own = workflow.resource_settings._parsed_overwrite_resources.get(name, {})
    try:
        threads = training_threads({key: entry.raw for key, entry in own.items()})
    except ValueError as problem:
        sys.exit(f"Snakefile: {name}: {problem}")
    return threads or share_of_processors(wildcards)


def share_of_processors(wildcards):
    """Return a run's share: small models train faster side by side than in turn on all cores."""
    runs = {
        run
        for of_table in runs_of_tables(at(config, wildcards.scale)).values()
        for run in of_table
    }
    return max(1, (shared_cores() or 1) // len(runs))


@cache
def gpus_of_run(wildcards):
    """Return how many of this machine's GPUs a run takes: one, where there are any. A cluster's profile says its own."""
    count = [sys.executable, ROOT / "workflow/scripts/gpus", "count"]
    return min(1, int(subprocess.run(count, capture_output=True, check=True).stdout))
