"""The corpora of tasks, the files that they are read from, and the rule that no text is both learned and tested."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformer.config.scales import parsing_of, tasks_of

GRAMMAR = ("en", "de", "fr")  # the languages of the project's grammar
TESTED = ("dev", "test", "elsewhere")  # the splits that a task is tested on, each of which is one corpus


def languages_of(corpus: dict) -> tuple[str, ...]:
    """Return the endings of a corpus's files: languages, or `trees`; the grammar's sentences have both."""
    if "grammar" in corpus:
        return (*GRAMMAR, "trees")
    return tuple(corpus.get("files", ["trees"]))


def places_of(corpus: dict) -> dict[str, dict]:
    """Return the sources of a corpus's files, each a `download` or a `path`, by their keys; none of the grammar's."""
    if "treebank" in corpus:
        return {"treebank": corpus["treebank"]}
    return {f"files.{language}": entry for language, entry in corpus.get("files", {}).items()}


def all_places(config: dict) -> dict[str, dict]:
    """Return the sources of all corpora's files, by their places in config.yaml."""
    return {
        f"corpora.{name}.{place}": entry
        for name, corpus in config["corpora"].items()
        for place, entry in places_of(corpus).items()
    }


def source_of(entry: dict) -> str:
    """Return the path of what is named as download or path."""
    return entry["path"] if "path" in entry else f"resources/downloads/{entry['download']}"


def downloads_of(entries: Iterable[dict]) -> list[str]:
    """Return the downloads among these sources, each once."""
    return list(dict.fromkeys(entry["download"] for entry in entries if "download" in entry))


def files_of(task: dict) -> list[tuple[str, str]]:
    """Return corpus and ending of the files that a task learns from and is tested on.

    Trees hold their words, and silver trees are made of English.
    """
    sides = ("trees",) if "symbols" in task else (task["source"], task["target"])
    corpora = [*task["train"], *(name for _, name in tested_on(task))]
    files = [(corpus, side) for corpus in corpora for side in sides]
    return files + [(corpus, "en") for corpus in task.get("silver", {}).get("text", [])]


def sources(config: dict, tasks: Iterable[str]) -> list[dict]:
    """Return the sources of the files of these tasks: of a corpus only the languages of a task."""
    files = dict.fromkeys(file for task in tasks for file in files_of(tasks_of(config)[task]))
    corpora = [(config["corpora"][corpus], ending) for corpus, ending in files]
    return [corpus.get("files", {}).get(ending) or corpus.get("treebank", {}) for corpus, ending in corpora]


def absent_treebank(config: dict) -> str | None:
    """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
    for task in parsing_of(config)["tasks"].values():
        for corpus in [*task["train"], task["dev"], task["test"]]:
            treebank = config["corpora"][corpus].get("treebank", {})
            if "sections" in treebank and not Path(treebank["path"]).exists():
                return treebank["path"]
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


def shared_by_splits(config: dict, task: dict) -> str | None:
    """Return the corpora that a task both learns from and is tested on, as a message; or None.

    Names do not matter: a corpus is the same if it reads the same file, or overlaps in the grammar or in a treebank.
    """
    sides = (task.get("source", "en"), task.get("target", "trees"))
    for learned, place, corpus in learned_from(config, task):
        for split, name in tested_on(task):
            tested = config["corpora"][name]
            first, second = (files_read(config, entry, sides) for entry in (corpus, tested))
            both = next((first[file] for file in first if file in second), None)
            if name == learned or both or meet(span_of(config, corpus), span_of(config, tested)):
                read = f": both read {both}" if both and name != learned else ""
                return f"{split} corpus '{name}' shares sentences with '{learned}' in {place}{read}"
    return None


def files_read(config: dict, corpus: dict, sides: tuple[str, ...]) -> dict[tuple, str]:
    """Return the names of the files that a corpus of text has in these languages, by the identity of each."""
    files = {}
    for entry in (corpus["files"][side] for side in sides if side in corpus.get("files", {})):
        archive = entry.get("path") or entry["download"]
        name = f"{entry['member']} in {archive}" if "member" in entry else archive
        files[*identity(config, entry), entry.get("member")] = name
    return files


def identity(config: dict, entry: dict) -> tuple[str, str]:
    """Return the file or the checksum behind a `path` or a `download`, whatever its name."""
    if "path" in entry:
        return "path", os.path.realpath(entry["path"])
    download = config["downloads"][entry["download"]]
    return "download", download.get("sha256") or download.get("md5") or entry["download"]


def span_of(config: dict, corpus: dict) -> tuple[tuple, int, int] | None:
    """Return what a corpus is cut from, the grammar or a treebank, with the first and the last number of the cut."""
    if "grammar" in corpus:
        grammar = corpus["grammar"]
        return ("grammar", grammar["seed"]), grammar["skip"], grammar["skip"] + grammar["take"] - 1
    if "treebank" in corpus:
        bank = corpus["treebank"]
        return (*identity(config, bank), bank.get("split")), *bank.get("sections", (0, 0))
    return None


def meet(one: tuple[tuple, int, int] | None, two: tuple[tuple, int, int] | None) -> bool:
    """Return whether two cuts of the same share any number."""
    return bool(one and two) and one[0] == two[0] and one[1] <= two[2] and two[1] <= one[2]
