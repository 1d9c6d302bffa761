"""Room on a disk: what a scale downloads, its text and token arrays, and what each run keeps. Sizes are in bytes."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from transformer.config.corpora import downloads_of, entries_of, files_of, sources
from transformer.config.elsewhere import tasks_read
from transformer.config.experiment import Experiment
from transformer.config.scales import scale_of, tasks_of
from transformer.model.cost import parameters

WEIGHT = 4  # float32
STATES = 2  # that a run keeps (states.py)
PER_STATE = 3  # the weights and Adam's two moments

# Estimates, rounded up: a line of WMT's text (giga-fren's has 173 bytes), the same tokenised, and in tokens; and text
# over its archive.
LINE, TOKENISED, TOKENS, UNPACKED = 180, 200, 30, 3
ID, OFFSET = 2, 8  # exact, of the token arrays (corpus.py)


def of_state(run: Experiment) -> int:
    """A resume state; row E's table of positions, under a hundredth of the weights, is not counted."""
    return PER_STATE * WEIGHT * parameters(run.model)


def of_run(run: Experiment, states: int = STATES) -> int:
    """What a run keeps: its states, the checkpoints to be averaged, which lie on the disk once, and the average."""
    return states * of_state(run) + (run.training.averaged_checkpoints + 1) * WEIGHT * parameters(run.model)


def downloads(config: dict, tasks: Iterable[str]) -> dict[str, int | None]:
    """The downloads of these tasks with their sizes, None where config.yaml has none."""
    return {name: config["downloads"][name].get("size") for name in sorted(downloads_of(sources(config, tasks)))}


def text(config: dict, tasks: Iterable[str], there: Path | None = None) -> int:
    """The plain corpora of these tasks, each file once, but for those that lie in the folder `there` already."""
    read = tasks_read(config)
    files = {file for task in tasks for file in files_of(read[task])}
    absent = [corpus for corpus, side in files if not there or not (there / f"{corpus}.{side}").exists()]
    return sum(lines(config, corpus) * LINE for corpus in absent)


def arrays(config: dict, tasks: set[str]) -> int:
    """The tokenised training text of these tasks, both sides, with its token arrays."""
    return sum(learned(config, tasks_of(config)[task]) for task in tasks) * 2 * (TOKENISED + ID * TOKENS + OFFSET)


def parts(config: dict, tasks: Iterable[str]) -> int:
    """What the parts of these tasks' training sets take beside the whole: tokenised, before there are arrays."""
    if scale_of(config).get("scatter", config["scatter"]) == 1:
        return 0
    read = tasks_read(config)
    cut = [task for task in tasks if task in scale_of(config)["tasks"] and read[task]["train"]]
    return sum(learned(config, read[task]) for task in cut) * 2 * (TOKENISED - ID * TOKENS - OFFSET)


def learned(config: dict, task: dict) -> int:
    """Lines that a task learns from."""
    silver = task.get("silver", {})
    made = round(silver.get("sentences", 0) * silver.get("keep", 1))
    return sum(lines(config, corpus) for corpus in task["train"]) + task.get("phrases", 0) + made


def lines(config: dict, corpus: str) -> int:
    """As config.yaml says; else estimated from the files on this machine, or from a share of the download's size."""
    about = config["corpora"][corpus]
    if "grammar" in about:
        return about["grammar"]["take"]
    if "lines" in about:
        return about["lines"]
    sharing = Counter(name for other in config["corpora"].values() for name in downloads_of(entries_of(other)))
    entries = entries_of(about)
    archived = sum((config["downloads"][name].get("size") or 0) / sharing[name] for name in downloads_of(entries))
    here = [Path(entry["path"]) for entry in entries if "path" in entry]
    size = archived * UNPACKED + sum(path.stat().st_size for path in here if path.is_file())
    return math.ceil(size / LINE / max(1, len(about.get("files", [1]))))
