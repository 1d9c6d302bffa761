"""The disk space that a scale needs: downloads, text, token arrays, and what each run keeps. Sizes are in bytes."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from transformer.config.corpora import downloads_of, files_of, places_of, sources
from transformer.config.experiment import Experiment
from transformer.config.scales import tasks_of
from transformer.model.cost import parameters

WEIGHT = 4  # float32
STATES = 2  # resume states that a run keeps (training/states.py)
PER_STATE = 3  # the weights and Adam's two moments

# Estimates, rounded up. Bytes of a line of WMT's text (giga-fren's has 173), bytes of the same line tokenised, its
# tokens; and the size of text over that of its archive.
LINE, TOKENISED, TOKENS, UNPACKED = 180, 200, 30, 3
ID, OFFSET = 2, 8  # bytes in the token arrays (data/corpus.py), exact


def state_bytes(run: Experiment) -> int:
    """Return the size of a resume state, without row E's table of positions: under a hundredth of the weights."""
    return PER_STATE * WEIGHT * parameters(run.model)


def run_bytes(run: Experiment) -> int:
    """Return the size of a run: its states, the checkpoints to be averaged (once, as links share them), the average."""
    return STATES * state_bytes(run) + (run.training.averaged_checkpoints + 1) * WEIGHT * parameters(run.model)


def download_sizes(config: dict, tasks: Iterable[str]) -> dict[str, int | None]:
    """Return the downloads of these tasks with their sizes, None where config.yaml has none."""
    return {name: config["downloads"][name].get("size") for name in sorted(downloads_of(sources(config, tasks)))}


def text_bytes(config: dict, tasks: Iterable[str], there: Path | None = None) -> int:
    """Return the size of these tasks' plain corpora, each file once, without those already in the folder `there`."""
    read = tasks_of(config)
    files = {file for task in tasks for file in files_of(read[task])}
    absent = [corpus for corpus, side in files if not there or not (there / f"{corpus}.{side}").exists()]
    return sum(corpus_lines(config, corpus) * LINE for corpus in absent)


def array_bytes(config: dict, tasks: set[str]) -> int:
    """Return the size of these tasks' tokenised training text, both sides, and of its token arrays."""
    lines = sum(training_lines(config, tasks_of(config)[task]) for task in tasks)
    return lines * 2 * (TOKENISED + ID * TOKENS + OFFSET)


def training_lines(config: dict, task: dict) -> int:
    """Return how many lines a task learns from."""
    silver = task.get("silver", {})
    made = round(silver.get("sentences", 0) * silver.get("keep", 1))
    return sum(corpus_lines(config, corpus) for corpus in task["train"]) + task.get("phrases", 0) + made


def corpus_lines(config: dict, corpus: str) -> int:
    """Return a corpus' lines as config.yaml says, else an estimate from the size of its files or downloads.

    A download that several corpora share counts in equal shares.
    """
    entry = config["corpora"][corpus]
    if "grammar" in entry:
        return entry["grammar"]["take"]
    if "lines" in entry:
        return entry["lines"]
    sharing = Counter(name for other in config["corpora"].values() for name in downloads_of(places_of(other).values()))
    files = places_of(entry).values()
    archived = sum((config["downloads"][name].get("size") or 0) / sharing[name] for name in downloads_of(files))
    here = [Path(file["path"]) for file in files if "path" in file]
    size = archived * UNPACKED + sum(path.stat().st_size for path in here if path.is_file())
    return math.ceil(size / LINE / max(1, len(entry.get("files", [1]))))
