"""The corpora of tasks, and the files that they are read from."""

from collections.abc import Iterable
from pathlib import Path

from transformer.config.elsewhere import tasks_read
from transformer.config.scales import parsing_of, scale_of

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


def systems_of(config: dict) -> dict[str, dict]:
    """Return the systems of others that the scale's table `measures` scores, by name; none where there is no table."""
    return {name: config["systems"][name] for name in scale_of(config).get("measures", {}).get("systems", [])}


def files_of_measures(config: dict) -> list[tuple[str, str]]:
    """Return corpus and language of the files that the table `measures` reads besides the systems' own."""
    systems = systems_of(config).values()
    files = [(system["test"], system[side]) for system in systems for side in ("source", "target")]
    return list(dict.fromkeys([*files, *scale_of(config).get("measures", {}).get("quotes", {}).items()]))


def places_of_systems(systems: dict[str, dict]) -> dict[str, dict]:
    """Return what the files of these systems are read from, by their place in config.yaml."""
    return {
        f"systems.{name}.{place}": system[place]
        for name, system in systems.items()
        for place in ("input", "output", "published")
        if place in system
    }


def all_places(config: dict) -> dict[str, dict]:
    """Return what the files of all corpora and systems are read from, by their place in config.yaml."""
    corpora = {
        f"corpora.{name}.{place}": entry
        for name, corpus in config["corpora"].items()
        for place, entry in places_of(corpus).items()
    }
    return corpora | places_of_systems(config["systems"])


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
    read = tasks_read(config)
    return entries_of(config, (file for task in tasks for file in files_of(read[task])))


def sources_of_measures(config: dict) -> list[dict]:
    """Return what the table `measures` is made from."""
    return [*entries_of(config, files_of_measures(config)), *places_of_systems(systems_of(config)).values()]


def entries_of(config: dict, files: Iterable[tuple[str, str]]) -> list[dict]:
    """Return what each of these files, a corpus and an ending, is read from; nothing for what is made here."""
    corpora = [(config["corpora"][corpus], ending) for corpus, ending in dict.fromkeys(files)]
    return [corpus.get("files", {}).get(ending) or corpus.get("treebank", {}) for corpus, ending in corpora]


def absent_treebank(config: dict) -> str | None:
    """Return the folder of the Penn Treebank if Table 4 needs it and lacks it; `all` leaves out that table then."""
    for task in parsing_of(config)["tasks"].values():
        for corpus in [*task["train"], task["dev"], task["test"]]:
            treebank = config["corpora"][corpus].get("treebank", {})
            if "sections" in treebank and not Path(treebank["path"]).exists():
                return treebank["path"]
    return None
