"""The corpora of tasks, and the files that they are read from."""

from collections.abc import Iterable
from pathlib import Path

from transformer.config.elsewhere import tasks_read
from transformer.config.scales import parsing_of

GRAMMAR = ("en", "de", "fr")  # the languages of the project's grammar
TESTED = ("dev", "test", "elsewhere")  # the splits that a task is tested on, each of which is one corpus


def languages_of(corpus: dict) -> tuple[str, ...]:
    """Return the languages of a corpus; a treebank has none, only trees."""
    if "treebank" in corpus:
        return ()
    return GRAMMAR if "grammar" in corpus else tuple(corpus["files"])


def places_of(corpus: dict) -> dict[str, dict]:
    """Return what the files of a corpus are read from, a `download` or a `path`, by its place in the corpus's entry.

    A corpus that is made here has none.
    """
    if "treebank" in corpus:
        return {"treebank": corpus["treebank"]}
    return {f"files.{language}": entry for language, entry in corpus.get("files", {}).items()}


def source_of(entry: dict) -> str:
    """Return the path of what is named as download or path."""
    return entry["path"] if "path" in entry else f"resources/downloads/{entry['download']}"


def downloads_of(entries: Iterable[dict]) -> list[str]:
    """Return the downloads among what files are read from, each once."""
    return list(dict.fromkeys(entry["download"] for entry in entries if "download" in entry))


def files_of(task: dict) -> list[tuple[str, str]]:
    """Return corpus and ending of the files that a task learns from and is tested on.

    Trees hold their words, and others are made of English.
    """
    sides = (task.get("source", "en"), task.get("target", "trees"))
    made_of = task.get("silver", {}).get("text", [])
    tested = [task[split] for split in TESTED if split in task]
    corpora = [*task["train"], *tested, *task.get("subsets", {}).values(), *made_of]
    return [(corpus, side) for corpus in corpora for side in (("en",) if corpus in made_of else sides)]


def sources(config: dict, tasks: Iterable[str]) -> list[dict]:
    """Return what the files of these tasks are read from: of a corpus only the languages of a task."""
    entries, read = [], tasks_read(config)
    for corpus, ending in dict.fromkeys(file for task in tasks for file in files_of(read[task])):
        entry = config["corpora"][corpus]
        entries += [entry["files"][ending]] if ending in entry.get("files", {}) else [entry.get("treebank", {})]
    return entries


def absent_treebank(config: dict) -> str | None:
    """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
    for task in parsing_of(config)["tasks"].values():
        for corpus in [*task["train"], task["dev"], task["test"]]:
            treebank = config["corpora"][corpus].get("treebank", {})
            if "sections" in treebank and not Path(treebank["path"]).exists():
                return treebank["path"]
    return None
