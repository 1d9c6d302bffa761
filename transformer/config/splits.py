"""The rule that no text is both learned from and tested on, whatever its names in config.yaml."""

import os
from collections.abc import Iterator

from transformer.config.corpora import TESTED


def shared_by_splits(config: dict, task: dict) -> str | None:
    """Return which sentences a task both learns from and is tested on, or None where there are none."""
    sides = (task.get("source", "en"), task.get("target", "trees"))
    for learned, place, corpus in learned_from(config, task):
        for split, name in tested_on(task):
            tested = config["corpora"][name]
            first, second = (files_read(config, entry, sides) for entry in (corpus, tested))
            both = next((first[file] for file in first if file in second), None)
            if name == learned or slices_meet(config, corpus, tested) or both:
                read = f": both read {both}" if both and name != learned else ""
                return f"{split} corpus '{name}' shares sentences with '{learned}' in {place}{read}"
    return None


def learned_from(config: dict, task: dict) -> Iterator[tuple[str, str, dict]]:
    """Yield the name, the place in the task and the entry of each corpus that a task learns from."""
    silver = task.get("silver", {})
    for place, names in (("train", task["train"]), ("silver.text", silver.get("text", []))):
        for name in names:
            yield name, place, config["corpora"][name]
    if "path" in silver:
        yield silver["path"], "silver.path", {"treebank": {"path": silver["path"]}}


def tested_on(task: dict) -> Iterator[tuple[str, str]]:
    """Yield the split and the name of each corpus that a task is tested on."""
    for split in TESTED:
        if split in task:
            yield split, task[split]
    for subset, name in task.get("subsets", {}).items():
        yield f"subsets.{subset}", name


def files_read(config: dict, corpus: dict, sides: tuple[str, ...]) -> dict[tuple, str]:
    """Return the names of the files that a corpus of text has in these languages, by what identifies each file."""
    files = {}
    for language in sides:
        if entry := corpus.get("files", {}).get(language):
            archive = entry.get("path") or entry["download"]
            name = f"{entry['member']} in {archive}" if "member" in entry else archive
            files[*origin(config, entry), entry.get("member")] = name
    return files


def origin(config: dict, entry: dict) -> tuple[str, str]:
    """Return what identifies the file of a `path` or a `download`, whatever it is called."""
    if "path" in entry:
        return "path", os.path.realpath(entry["path"])
    download = config["downloads"][entry["download"]]
    return "download", download.get("sha256") or download.get("md5") or entry["download"]


def slices_meet(config: dict, one: dict, two: dict) -> bool:
    """Return whether two corpora are slices of the grammar's sentences, or parts of a treebank, that share some."""
    if "grammar" in one and "grammar" in two:
        first, second = one["grammar"], two["grammar"]
        ranges = [(part["skip"], part["skip"] + part["take"] - 1) for part in (first, second)]
        return first["seed"] == second["seed"] and meet(*ranges)
    if "treebank" in one and "treebank" in two:
        banks = [one["treebank"], two["treebank"]]
        origins = [(*origin(config, bank), bank.get("split")) for bank in banks]
        return origins[0] == origins[1] and meet(*(bank.get("sections", (0, 0)) for bank in banks))
    return False


def meet(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Return whether two ranges, each given by its first and its last number, share any."""
    return one[0] <= two[1] and two[0] <= one[1]
