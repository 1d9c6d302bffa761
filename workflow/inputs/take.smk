# The questions of rules/take.smk: which files were made elsewhere, and which files a taken run lacks.
import hashlib
import os
import re
from pathlib import Path
from types import SimpleNamespace

from transformer.config.elsewhere import SUMS, read_list

ARRAYS = collect(
    "{split}.{side}.{kind}",
    split=["train", "dev"],
    side=["source", "target"],
    kind=["ids", "offsets"],
)
# By training alone.
TRAINED = [
    "run.json",
    "last.safetensors",
    "metrics.jsonl",
    "vocabulary.model",
    "checkpoints",
]

# The files that are taken from a folder of data and of a run, and those of either that are always made here.
TAKEN_OF = {
    "data": rf"(train|dev|test|elsewhere)\.((source|target)\.tok|json)|{any_of([*ARRAYS, 'data.json'])}"
    r"|vocabulary\.model|parsed\.(trees|json)|silver\.trees",
    "runs": r"run\.json|metrics\.jsonl|vocabulary\.model|(last|average|checkpoints/\w+)\.safetensors"
    rf"|({any_of(PROBED)})\.json"
    rf"|(dev|test)({any_of(WEIGHTS)})({any_of(CHANGES)})\.hyp"
    rf"|(dev|test|elsewhere)({any_of(SEARCHES)})\.(trees|parses\.json)",
    "measured": r"(attention|layers)\.json",
}
MADE_HERE = (
    rf"{SUMS}|(checkpoints/)?\.snakemake_timestamp|(experiment|decoding)\.yaml|state/.*"
)
MADE_HERE += r"|(dev|test|elsewhere)(\.[a-z]+)?\.json"


def folders_elsewhere(scale):
    """Yield for each folder made elsewhere what it is in results/, its entry in config.yaml and where that stands."""
    entry, parsing = config["scales"][scale], parsing_of(scale)
    for section, tasks in (
        ("tasks", entry["tasks"]),
        ("parsing.tasks", parsing["tasks"]),
    ):
        for task in (task for task in tasks if "from" in tasks[task]):
            yield f"{scale}/data/{task}", tasks[task][
                "from"
            ], f"scales.{scale}.{section}.{task}.from"
    for run, folder in entry.get("from", {}).items():
        yield f"{scale}/runs/{run}", folder, f"scales.{scale}.from.{run}"
    if "measured" in entry:
        yield scale, entry["measured"], f"scales.{scale}.measured"


def read_sums(folder, where):
    """Return the SHA-256 of each file of a folder by its name, from its list, whose own SHA-256 config.yaml gives."""
    kept = Path(".snakemake/taken", folder["sha256"])
    path = kept if workflow.remote_exec else Path(folder["path"], SUMS)
    try:
        content = read_list(path)
    except settings.InputError as error:
        refuse(where, error)
    if (found := hashlib.sha256(content).hexdigest()) != folder["sha256"]:
        refuse(where, f"{path}: expected SHA-256 {folder['sha256']}, found {found}")
    if not kept.exists():  # on a cluster, nodes need not see the folder
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_bytes(content)
        aside.replace(kept)
    sums = {}
    for number, line in enumerate(
        content.decode("utf-8", "replace").splitlines(), start=1
    ):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](?:\./)*(.+)", line)
        if not match:
            refuse(
                where,
                f"{path}, line {number}: expected a sum and a path, found '{line}'",
            )
        sums[match[2]] = match[1]
    return sums


def check_files(sums, path, kind, where):
    """Refuse a list that names files which no rule makes, or lacks some that belong to those that it names."""
    for name in sums:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            refuse(where, f"{path}: '{name}' leads out of the folder")
        if re.fullmatch(TAKEN_OF[kind], name):
            for other in BESIDE[kind](name):
                if other not in sums:
                    refuse(where, f"{path}: expected {other} beside {name}")
        elif not re.fullmatch(MADE_HERE, name):
            refuse(where, f"{path}: no rule makes '{name}'")


def beside_data(name):
    """Return what a folder of data with this file must hold, too: what the same job makes, and arrays' vocabulary."""
    if name in [*ARRAYS, "data.json"]:
        return [*ARRAYS, "data.json", "vocabulary.model"]
    if name.startswith("parsed."):
        return ["parsed.trees", "parsed.json"]
    if name in ("silver.trees", "vocabulary.model"):
        return []
    split = name.partition(".")[0]
    return [f"{split}.source.tok", f"{split}.target.tok", f"{split}.json"]


def beside_run(name):
    """Return what a folder of a run with this file must hold, too.

    run.json shows that the file is this run's, and decoding.yaml how it was decoded.
    """
    stem, kind = re.fullmatch(r"(.*?)\.(parses\.json|\w+)", name).groups()
    if kind == "hyp":
        return ["run.json", "decoding.yaml"]
    if kind in ("trees", "parses.json"):
        return ["run.json", "decoding.yaml", f"{stem}.trees", f"{stem}.parses.json"]
    return ["run.json", "decoding.yaml"] if stem in PROBED else ["run.json"]


BESIDE = {"data": beside_data, "runs": beside_run, "measured": lambda name: []}


def read_folder(what, folder, where):
    """Return what is taken from a folder made elsewhere, and what it lacks; at another scale it lacks everything."""
    scale, kind, *_ = *Path(what).parts, "measured"
    found = SimpleNamespace(
        where=where, path=folder["path"], sums={}, files={}, taken=set(), lacking=set()
    )
    if scale == config["scale"]:
        found.sums = read_sums(folder, where)
        check_files(found.sums, Path(found.path, SUMS), kind, where)
        found.files = {
            name: sum
            for name, sum in found.sums.items()
            if re.fullmatch(TAKEN_OF[kind], name)
        }
        found.taken = {Path(name).parts[0] for name in found.files}
    if kind == "runs":
        averaged = (
            {"average.safetensors"}
            if found.taken.isdisjoint(["average.safetensors", "checkpoints"])
            else set()
        )
        found.lacking = (set(TRAINED) | averaged) - found.taken
    elif kind == "data" and scale != config["scale"]:
        found.lacking = {"data.json"}
    return found


# The folders, by what each is in results/; then the paths that are taken, and those that can neither be taken nor made.
FOLDERS = {
    what: read_folder(what, *of)
    for scale in config["scales"]
    for what, *of in folders_elsewhere(scale)
}
TAKEN = [f"{what}/{name}" for what, folder in FOLDERS.items() for name in folder.taken]
LACKING = [
    f"{what}/{name}" for what, folder in FOLDERS.items() for name in folder.lacking
]


def folder_of(path):
    """Return the folder that a path in results/ is taken from, and the path in it."""
    what = next(what for what in FOLDERS if Path(path).is_relative_to(what))
    return FOLDERS[what], Path(path).relative_to(what).as_posix()


def before_taking(wildcards):
    """Return what a file is compared with before it is taken, which is made here, or taken before."""
    folder, name = folder_of(wildcards.taken)
    if name == "layers.json":
        return []
    if name == "attention.json":
        return [ancient(path) for path in base_run(config["scale"], "run.json")]
    scale, kind, task, *_ = Path(wildcards.taken).parts
    parent = folder_of_taken(wildcards)
    data = f"results/{scale}/data/{task}/data.json"
    if kind == "data":
        return (
            [f"{parent}{other}" for other in [*ARRAYS, "vocabulary.model"]]
            if name == "data.json"
            else []
        )
    if name != "run.json":
        return [
            ancient(f"{parent}run.json"),
            *(f"{parent}{settings}" for settings in settings_of(name)),
        ]
    known = os.path.exists(moved(data)) or data.removeprefix("results/") in TAKEN
    return [f"{parent}experiment.yaml", *([data] if known else [])]


def settings_of(name):
    """Return the file of settings, if any, by which a run's file was made and which has to be the same here."""
    if name == "run.json":
        return ["experiment.yaml"]
    searched = name.endswith((".hyp", ".trees", ".parses.json"))
    return ["decoding.yaml"] if searched or Path(name).stem in PROBED else []


def files_to_take(wildcards):
    """Return sums and names of what is taken, after the settings that it was made by, as options of the take stage."""
    folder, name = folder_of(wildcards.taken)
    chosen = [other for other in folder.files if Path(other).is_relative_to(name)]
    made_by = [other for other in settings_of(name) if other in folder.sums]
    return [
        word
        for other in made_by + chosen
        for word in ("--file", folder.sums[other], other)
    ]


def place_of_taken(wildcards):
    """Return the folder that a file comes to."""
    return moved(folder_of_taken(wildcards))


def folder_of_taken(wildcards):
    """Return the folder in results/ that a file comes to, as rules name it."""
    return f"results/{wildcards.taken.removesuffix(folder_of(wildcards.taken)[1])}"


def refuse_to_make(wildcards):
    """End with one line: if it were taken in part and trained here, a run's files would be of two trainings."""
    folder, name = folder_of(wildcards.lacking)
    scale = Path(wildcards.lacking).parts[0]
    if scale != config["scale"]:
        refuse(
            folder.where, f"taken at its own scale alone: add --config scale={scale}"
        )
    where = Path(folder.path, SUMS)
    refuse(
        folder.where,
        f"{where}: expected {name}, which is needed; a run that is taken is not trained here",
    )
