# Answers the rules' questions about config.yaml.
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from snakemake.io import IOFile

TABLE_2 = ["base", "big"]  # the experiments that are its rows; Table 3's are all
PARSER = "parser"  # the experiment of every parsing task, which `parsing` in config.yaml describes

FIRST = 10  # priority of what long chains of jobs wait for

# Which weights translate, by what they add to a translation's name.
WEIGHTS = {
    "": "average.safetensors",  # Table 2 averages (§6.1),
    ".last": "last.safetensors",  # Table 3 does not (§6.2)
}

# How parsers search, by what it adds to the names of their parses.
SEARCHES = {
    "": "",  # anything may be written, as in the paper, and is repaired,
    ".constrained": "--constrained",  # or trees only
}


def any_of(names):
    """A wildcard constraint: one of these names, literally."""
    return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"


def package(*names):
    """The code and the templates in these folders of the package: where one of them changes, a rule runs again."""
    folders = [Path("transformer", name) for name in names]
    return sorted(str(path) for folder in folders for path in folder.rglob("*.*") if "__pycache__" not in path.parts)


def names_of_tasks(kind):
    """The names at any scale of its `tasks` that translate, or of those of its `parsing`."""
    of_kind = parsing_of if kind == "parsing" else config["scales"].get
    return {name for scale in config["scales"] for name in of_kind(scale)["tasks"]}


wildcard_constraints:
    scale=any_of(config["scales"]),
    task=any_of(names_of_tasks("tasks") | names_of_tasks("parsing")),
    experiment=any_of([*config["experiments"], PARSER]),
    seed=r"\d+",
    split="train|dev|test|elsewhere",
    weights=any_of(WEIGHTS),
    search=any_of(SEARCHES),
    part=r"\d+",
    parts=r"\d+",
    file=any_of(config["downloads"]),
    language="[A-Za-z][A-Za-z0-9_-]*",


def task_of(wildcards):
    """A task's entry in config.yaml at the scale of `wildcards`, whether it translates or parses."""
    scale = wildcards.scale
    return {**config["scales"][scale]["tasks"], **parsing_of(scale)["tasks"]}[wildcards.task]


def corpora_of(wildcards):
    """The corpora of one split of a task."""
    corpora = task_of(wildcards)[wildcards.split]
    return corpora if isinstance(corpora, list) else [corpora]


def wanted_sum(wildcards):
    """The checksum of a download, if one is known."""
    about = config["downloads"][wildcards.file]
    return about.get("sha256", about.get("md5", ""))


def fetch_options(wildcards, output):
    """The addresses of a download and what it is, as options of the fetch stage.

    As they take `output`, Snakemake fetches nothing anew because they changed: another address gives the same bytes.
    """
    about = config["downloads"][wildcards.file]
    options = [word for url in about["urls"] for word in ("--url", url)]
    options += [word for key in ("sha256", "md5", "size") if key in about for word in (f"--{key}", about[key])]
    options += [word for other in about.get("alternatives", []) for word in ("--or", json.dumps(other))]
    options += ["--mirror", config["mirror"]] if config["mirror"] else []
    return [*options, "--output", output[0]]


def side(name):
    """An input function: the files of one side (source or target) of a split's corpora."""

    def files(wildcards):
        language = task_of(wildcards)[name]
        return [f"resources/corpora/{corpus}.{language}" for corpus in corpora_of(wildcards)]

    return files


def subsets_of(wildcards):
    """The corpora that are parts of the test set and scored beside it, by name; other splits have none."""
    return task_of(wildcards).get("subsets", {}) if wildcards.split == "test" else {}


def references_of_subsets(wildcards):
    """The files of these corpora in the target language."""
    language = task_of(wildcards)["target"]
    return [f"resources/corpora/{corpus}.{language}" for corpus in subsets_of(wildcards).values()]


def subset_options(wildcards, input):
    """Names and files of these corpora, as options of the score stage."""
    pairs = zip(subsets_of(wildcards), input.subsets, strict=True)
    return [word for name, path in pairs for word in ("--subset", name, path)]


def file_of(wildcards):
    """A corpus file's entry in config.yaml."""
    return config["corpora"][wildcards.corpus]["files"][wildcards.language]


def archive_of(wildcards):
    """The download or the local file that a corpus file lies in."""
    return source_of(file_of(wildcards))


def other_of(wildcards):
    """Another language's entry, where both are in WMT's format, which says of sentences which they are; or none."""
    files = config["corpora"][wildcards.corpus]["files"]
    others = [about for language, about in files.items() if language != wildcards.language and "format" in about]
    return others[:1] if "format" in file_of(wildcards) else []


def beside(wildcards):
    """What that lies in."""
    return [source_of(other) for other in other_of(wildcards)]


def source_of(about):
    """The path of what an entry of config.yaml names as download or path."""
    return about["path"] if "path" in about else f"resources/downloads/{about['download']}"


def checked_subsets(wildcards):
    """What shows that a task's subsets are parts of its test set; nothing for those that have none."""
    found = f"results/{wildcards.scale}/data/{wildcards.task}/test.subsets.json"
    return found if "subsets" in task_of(wildcards) else []


def unpack_options(wildcards):
    """How to get a corpus file out of its archive, as options of the unpack stage."""
    about = file_of(wildcards)
    options = ["--format", about.get("format", "text")]
    if "member" in about:
        options += ["--member", about["member"]]
    for other in other_of(wildcards):
        options += ["--beside", source_of(other), *([other["member"]] if "member" in other else [])]
    if "lines" in config["corpora"][wildcards.corpus]:
        options += ["--lines", config["corpora"][wildcards.corpus]["lines"]]
    return options


def languages_of(wildcards):
    """A task's two languages, source first."""
    return [task_of(wildcards)[name] for name in ("source", "target")]


def clean_option(wildcards):
    """Only training text is cleaned."""
    return "--clean" if wildcards.split == "train" else ""


def parts_of(names, last):
    """An input function: these files of each part that a training set is prepared in; none where one job does it all.

    If `last`, which the job writes last, is there, the parts are those that Snakemake has recorded with it: another
    number makes nothing anew.
    """

    def files(wildcards):
        scale, task = wildcards.scale, wildcards.task
        if wildcards.get("split", "train") != "train" or task not in config["scales"][scale]["tasks"]:
            return []
        data = f"results/{scale}/data/{task}"
        if os.path.exists(f"{data}/{last}"):
            recorded = workflow.persistence.input(IOFile(f"{data}/{last}"))
            return [path for path in recorded or [] if "/parts/" in path]
        number = config["scales"][scale].get("scatter", config["scatter"])
        parts = range(1, number + 1) if number > 1 else []
        return collect("{data}/parts/{part}-of-{number}/{name}", data=data, part=parts, number=number, name=names)

    return files


def gather_option(wildcards, input):
    """That a training set is put together from its parts, as an option of the tokenize and encode stages."""
    parts = {os.path.dirname(path) for path in input.parts}
    return f"--parts {len(parts)}" if parts else ""


def gather_threads(wildcards, input):
    """Putting parts together is no work that could be shared."""
    return 1 if input.parts else prepare_threads(wildcards)


def download_of_treebank(wildcards):
    """What a treebank is read from; of the Penn Treebank the files that are there: the reader says what is missing."""
    about = config["corpora"][wildcards.corpus]["treebank"]
    return sorted(map(str, Path(about["path"]).rglob("*.mrg"))) if "sections" in about else source_of(about)


def treebank_options(wildcards):
    """How a treebank is read, as options of its stage."""
    corpus = config["corpora"][wildcards.corpus]
    about = corpus["treebank"]
    options = ["--input", source_of(about)]
    if "sections" in about:
        options += ["--format", "ptb", "--sections", *about["sections"]]
    elif "split" in about:
        options += ["--format", "gum", "--split", about["split"]]
    else:
        options += ["--format", "lines"]
    for key, holder in (("lines", corpus), ("sha256", about)):
        options += [f"--{key}", holder[key]] if key in holder else []
    return options


def trees_of(wildcards):
    """The treebanks of one split of a parsing task."""
    return [f"resources/corpora/{corpus}.trees" for corpus in corpora_of(wildcards)]


def silver_of(wildcards):
    """The trees that no person made and that a parsing task trains on, too; none for most."""
    silver = task_of(wildcards).get("silver")
    if silver is None or wildcards.split != "train":
        return []
    return silver.get("path", f"results/{wildcards.scale}/data/{wildcards.task}/silver.trees")


def mix_options(wildcards, input):
    """The mix of treebanks, their phrases and silver trees, as options of the linearize stage."""
    task, options = task_of(wildcards), []
    if "phrases" in task and wildcards.split == "train":
        options += ["--phrases", task["phrases"]]
    if input.silver:
        options += ["--repeat", task["silver"]["repeat"], "--silver", input.silver]
    return options


def text_of_silver(wildcards):
    """What a parser labels for a task's silver trees."""
    return [f"resources/corpora/{corpus}.en" for corpus in task_of(wildcards)["silver"]["text"]]


def parser_of_silver(wildcards, *files):
    """Files of the run that makes a task's silver trees: with the first seed."""
    seed = parsing_of(wildcards.scale)["seeds"][0]
    run = f"results/{wildcards.scale}/runs/{task_of(wildcards)['silver']['parser']}/{PARSER}/{seed}"
    return [f"{run}/{file}" for file in files]


def vocabulary_options(wildcards, input):
    """What a vocabulary is learned on and how large it is, as options of its stage; a parser writes no subwords."""
    task = task_of(wildcards)
    if "symbols" not in task:
        return ["--text", input.source, input.target, "--size", task["vocabulary"]]
    size = task["symbols"] + task["vocabulary"]
    return ["--text", input.source, "--symbols", input.target, "--rows", task["symbols"], "--size", size]


def experiment_parts(wildcards):
    """What config.yaml says of one run, as JSON for the resolve stage: rows that are laid over each other in order."""
    scale = config["scales"][wildcards.scale]
    own = parser_parts(wildcards) if wildcards.experiment == PARSER else translator_parts(wildcards)
    return json.dumps(
        own
        | {
            "scale": wildcards.scale,
            "task": wildcards.task,
            "experiment": wildcards.experiment,
            "seed": int(wildcards.seed),
            "fidelity": config["fidelity"],
            "rows": [config["base"], scale["base"], *own["rows"]],
            "width": scale["width"],
            "depth": scale["depth"],
            "optimizer": config["optimizer"],
            "preparation": config["preparation"],
            "running": config["running"] | scale.get("running", {}) | own["running"],
        }
    )


def translator_parts(wildcards):
    """What is a translator's own among the parts."""
    scale, task, experiment = config["scales"][wildcards.scale], task_of(wildcards), wildcards.experiment
    rows = [config["experiments"], scale["experiments"], task.get("experiments", {})]
    return {
        "label": scale["label"],
        "source": task["source"],
        "target": task["target"],
        "rows": [of_experiments.get(experiment, {}) for of_experiments in rows],
        "embedding_rows": task["embedding_rows"],
        "output_rows": task["embedding_rows"],
        "running": {},
    }


def parser_parts(wildcards):
    """What is a parser's own among the parts. Its symbols are the first of the embedding's rows."""
    task = task_of(wildcards)
    return {
        "label": task["label"],
        "source": "en",
        "target": "trees",
        "rows": [config["parsing"]["parser"], parsing_of(wildcards.scale)["parser"]],
        "embedding_rows": task["symbols"] + task["vocabulary"],
        "output_rows": task["symbols"],
        "running": {"bleu_sentences": 0},
    }


def decoding_of(wildcards):
    """How a run decodes, as JSON for the resolve stage."""
    return json.dumps(config["parsing"]["decoding"] if wildcards.experiment == PARSER else config["decoding"])


def weights_of(wildcards):
    """The weights that a translation is made with."""
    run = f"results/{wildcards.scale}/runs/{wildcards.task}/{wildcards.experiment}/{wildcards.seed}"
    return f"{run}/{WEIGHTS[wildcards.weights]}"


def weights_of_score(wildcards):
    """The weights behind a score; none where a taken run came without them (taken.smk)."""
    name = WEIGHTS[wildcards.get("weights", "")]
    path = f"{wildcards.scale}/runs/{wildcards.task}/{wildcards.get('experiment', PARSER)}/{wildcards.seed}/{name}"
    return [] if path in LACKING else f"results/{path}"


@cache
def tables_of_scale(scale):
    """All tables; without Table 4, and saying so, where its treebank has to be bought and is not here."""
    tasks = parsing_of(scale)["tasks"].values()
    corpora = [corpus for task in tasks for corpus in [*task["train"], task["dev"], task["test"]]]
    for about in (config["corpora"][corpus].get("treebank", {}) for corpus in corpora):
        if "sections" in about and not Path(about["path"]).exists():
            print(f"`all` leaves out table4: no folder {about['path']} with the Penn Treebank", file=sys.stderr)
            return ["table1", "table2", "table3", "why"]
    return ["table1", "table2", "table3", "why"] + (["table4"] if tasks else [])


def memory(small, large=None, each_thread=0):
    """An input function: megabytes that a job needs at most, Snakemake's own in it; `large` with the paper's models."""

    def megabytes(wildcards, threads):
        paper = large and config["scales"][wildcards.scale]["width"] == 1
        return (large if paper else small) + each_thread * threads

    return megabytes


def shared_cores():
    """The processors that all jobs share; None on a cluster, where each job has its own."""
    return None if workflow.remote_exec else workflow.global_resources["_cores"].value


def prepare_threads(wildcards):
    """Half the machine: what needs all of it waits until nothing else runs. 4 on a cluster. 1 for short texts."""
    if getattr(wildcards, "split", "train") != "train":
        return 1
    return max(1, min(16, shared_cores() // 2)) if shared_cores() else 4


def train_threads(wildcards):
    """Small models train faster side by side than one after the other on all cores."""
    runs = {run for table in ("table2", "table3", "table4") for run in runs_of(table, wildcards.scale)}
    return max(1, (shared_cores() or 1) // len(runs))


@cache
def gpus_of_run(wildcards):
    """How many GPUs of this machine a run takes: one, where there are any. A cluster's profile says how many of its own."""
    count = [sys.executable, f"{workflow.basedir}/workflow/scripts/gpus", "count"]
    return min(1, int(subprocess.run(count, capture_output=True, check=True).stdout))
