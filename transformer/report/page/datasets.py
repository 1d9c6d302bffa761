"""Data sets: the sentences of each split with checksums, and the corpora that they are made of."""

from collections.abc import Iterator
from typing import NotRequired, TypedDict

from transformer.config.corpora import places_of
from transformer.data.manifest import Manifest
from transformer.files import InputError
from transformer.report.page.accounts import UNRECORDED, Account
from transformer.report.tables.render import Grid

COUNTS = {"Read": "read", "Kept": "kept", "Source tokens": "source_tokens", "Target tokens": "target_tokens"}
LEARNED = ("train", "dev")


class Tried(TypedDict):
    """A setting that people tried, as the scale's entry in config.yaml states it."""

    setting: str
    outcome: str
    chosen: NotRequired[bool]


class Described(TypedDict):
    """The entries of config.yaml for a scale's data, by name, and what was tried before."""

    tasks: dict[str, dict]
    corpora: dict[str, dict]
    downloads: dict[str, dict]
    tried: NotRequired[list[Tried]]


def learned_grid(accounts: list[Account], manifests: list[Manifest]) -> Grid:
    """Return what was learned from: of each task the data.json whose checksum its runs name, or that it is not here."""
    by_sum = {manifest["sha256"]: manifest for manifest in manifests}
    named = {(run.record["task"], run.record["data_sha256"]): run.record for run in accounts}
    rows = []
    for (task, digest), record in named.items():
        for split in LEARNED:
            counts = by_sum[digest]["splits"].get(split, {}) if digest in by_sum else {}
            cells = {heading: f"{counts[key]:,}" if key in counts else UNRECORDED for heading, key in COUNTS.items()}
            others = ", ".join(f"{key} {counts[key]:,}" for key in counts if key not in COUNTS.values())
            row = {"Task": task, "Languages": f"{record['source']} to {record['target']}", "Split": split} | cells
            row |= {"Other counts": others, "data.json": "here" if digest in by_sum else "not here"}
            rows.append(row | {"SHA-256 of the data": digest})
    return Grid(("Task", "Languages", "Split", "Other counts", "data.json", "SHA-256 of the data"), rows)


def tested_grid(accounts: list[Account]) -> Grid:
    """Return what was scored: each set of references or trees, by its checksum."""
    rows = []
    for run in accounts:
        for file, score in run.scores.items():
            row = {"Task": run.record["task"], "Split": file.partition(".")[0], "Sentences": f"{score.sentences:,}"}
            row["SHA-256 of references or trees"] = score.compared_with
            if row not in rows:
                rows.append(row)
    return Grid(("Task", "Split", "SHA-256 of references or trees"), rows)


def corpora_grid(described: Described) -> Grid:
    """Return the corpora of each split, and where each comes from."""
    rows = [
        {"Task": task, "Split": split, "Corpus": name, "Lines": lines_of(entry_of(described, "corpora", name))} | origin
        for task, entry in described["tasks"].items()
        for split, name in corpora_of(entry)
        for origin in origins(described, name, (entry.get("source", "en"), entry.get("target", "trees")))
    ]
    return Grid(("Task", "Split", "Corpus", "File", "Checksum"), rows)


def corpora_of(task: dict) -> Iterator[tuple[str, str]]:
    """Yield each split of a task with each of its corpora; subsets are splits, and so is text that a parser labels."""
    for split in (*LEARNED, "test", "elsewhere"):
        names = task.get(split, [])
        for name in [names] if isinstance(names, str) else names:
            yield split, name
    for name in task.get("subsets", {}).values():
        yield "test, a part", name
    for name in task.get("silver", {}).get("text", []):
        yield "train, parsed here", name


def entry_of(described: Described, kind: str, name: str) -> dict:
    """Return the entry of a corpus or a download. Raises InputError where there is none."""
    if name not in described[kind]:
        raise InputError(f"--described, {kind}: missing key {name!r}")
    return described[kind][name]


def lines_of(corpus: dict) -> str:
    """Return how many lines a corpus must have."""
    lines = corpus["grammar"]["take"] if "grammar" in corpus else corpus.get("lines")
    return UNRECORDED if lines is None else f"{lines:,}"


def origins(described: Described, name: str, sides: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield the treebank of a corpus, or its files in some languages, with the checksum that config.yaml demands."""
    corpus = entry_of(described, "corpora", name)
    if "grammar" in corpus:
        part = corpus["grammar"]
        text = f"this project's grammar, seed {part['seed']}, after the first {part['skip']:,}"
        yield {"File": text, "Checksum": "none: its seed makes it"}
    for place, entry in places_of(corpus).items():
        read = place.removeprefix("files.")
        if read not in (*sides, "treebank"):
            continue
        if "path" in entry:
            file, sums = entry["path"], {}
        else:
            sums = entry_of(described, "downloads", entry["download"])
            file = sums["urls"][0]
        parts = [f"{key} {entry[key]}" for key in ("member", "split", "sections") if key in entry]
        kind = next((kind for kind in ("sha256", "md5") if kind in sums), None)
        checksum = f"{kind} {sums[kind]}" if kind else UNRECORDED
        if "sha256" in entry:
            checksum = f"sha256 {entry['sha256']} of the trees, one a line"
        yield {"File": ", ".join([f"{read}: {file}", *parts]), "Checksum": checksum}
