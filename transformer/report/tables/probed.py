"""Measurements of trained runs (transformer/evaluation), read, and put together as Table 5 compares them."""

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from transformer.config.runs import PROBED
from transformer.evaluation.analyses import PAYLOADS
from transformer.evaluation.records import read_of_run, run_name
from transformer.evaluation.scorefiles import require_one
from transformer.files import InputError

PROBES = tuple(PROBED)
KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder to encoder"}  # of attention, in words
SAME = ("scale", "fidelity", "sentences", "target_sha256")  # in all files of a probe, whose scores are compared
RUN = ("name", "experiment", "seed")
SCORE = ("bleu", "draws")

Pairs = list[tuple[str, pd.DataFrame, pd.DataFrame]]  # what is compared, in words, and its two systems


def read_probes(probe: str, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return the content of each file of a probe, with `name`, `experiment`, `seed` and others of its run, and `file`.

    Raises InputError naming the file and what it lacks, and where files are of other sentences, or of another scale.
    """
    contents = []
    for path in paths:
        content = read_of_run(path, PAYLOADS[probe])
        run = content["run"]
        of_run = {"name": run_name(run)} | {name: run[name] for name in ("experiment", "seed", "scale", "fidelity")}
        contents.append(content | of_run | {"file": path})
    for key in SAME if contents else ():
        require_one(key, pd.DataFrame(contents, columns=[key, "file"]))
    return contents


def points(contents: list[dict[str, Any]], key: str, columns: list[str]) -> pd.DataFrame:
    """Return a row per entry of the list `key` of each file: its run, its place there, these columns, and its score."""
    rows = []
    for content in contents:
        for place, entry in enumerate(content[key]):
            values = {name: entry[name] for name in [*columns, *SCORE]}
            rows.append({name: content[name] for name in RUN} | {"place": place} | values)
    return pd.DataFrame(rows, columns=[*RUN, "place", *columns, *SCORE])


def frames_of(measured: dict[str, list[dict[str, Any]]]) -> dict[str, pd.DataFrame]:
    """Return what can be compared: a row per run and point of each probe. Raises InputError naming what is missing."""
    groups = points(measured["lengths"], "groups", ["times", "tokens", "sentences", "length_ratio"])
    positions = {content["name"]: content["positions"] for content in measured["lengths"]}
    perplexities = [
        {name: content[name] for name in (*RUN, "epsilon_ls", "perplexity", "perplexity_draws")}
        for content in measured["smoothing"]
    ]
    return {
        "averaging": points(measured["averaging"], "averages", ["checkpoints", "perplexity"]),
        "beams": points(measured["smoothing"], "beams", ["beam", "length_ratio"]),
        "smoothing": pd.DataFrame(perplexities, columns=[*RUN, "epsilon_ls", "perplexity", "perplexity_draws"]),
        "lengths": groups.assign(positions=groups["name"].map(positions)),
        "heads": points(measured["heads"], "bleu", ["kind", "masked"]),
    }


def averages(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare averages with the last checkpoint alone."""
    pairs = []
    for experiment, same in frames["averaging"].groupby("experiment", sort=False):
        counts = dict(tuple(same.groupby("checkpoints")))
        last = counts.pop(1, same[:0])
        pairs += [(f"`{experiment}`, {count} checkpoints − the last", own, last) for count, own in counts.items()]
    return pairs


def smoothed(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare base with the same without smoothing, at each beam."""
    return [
        (f"`base` − `smoothing-0.0`, beam {beam}", *two(at_beam, "smoothing-0.0"))
        for beam, at_beam in frames["beams"].groupby("beam")
    ]


def perplexities(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare the perplexity of base with that of the same without smoothing."""
    of_runs = frames["smoothing"].rename(columns={"perplexity_draws": "draws", "perplexity": "bleu"})
    return [("perplexity, `base` − `smoothing-0.0`", *two(of_runs, "smoothing-0.0"))] if len(of_runs) else []


def longer(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare sinusoids with learned positions, on sentences that are longer than any in training."""
    joined = frames["lengths"][frames["lengths"]["times"] > 1].groupby("times")
    return [
        (f"`base` − `learned-positions`, {times:g} × the longest", *two(same, "learned-positions"))
        for times, same in joined
    ]


def masked(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare the model with all heads to that with the middle one of the numbers of heads that were masked."""
    heads, pairs = frames["heads"], []
    for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
        counts = sorted(of_kind["masked"].unique())
        half = counts[(len(counts) - 1) // 2]
        words = f"{half} heads masked − all, {KINDS.get(kind, kind)}"
        pairs.append((words, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
    return pairs


def two(points: pd.DataFrame, experiment: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the points of base, and those of an experiment."""
    return points[points["experiment"] == "base"], points[points["experiment"] == experiment]


# By the name of the row in workflow/paper/table5.csv.
COMPARED: dict[str, Callable[[dict[str, pd.DataFrame]], Pairs]] = {
    "averaging": averages,
    "smoothing": smoothed,
    "perplexity": perplexities,
    "lengths": longer,
    "masked": masked,
}


def missing_files(expected: Iterable[str], measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return a paragraph that names what was not measured, of what is expected as PROBE:RUN; none if all is there."""
    there = {f"{probe}:{content['name']}" for probe, contents in measured.items() for content in contents}
    names = [name.replace(":", " of ") for name in expected if name not in there]
    return [f"Not in this table, as these have not been measured: {', '.join(names)}."] if names else []


def check_expected(expected: Iterable[str]) -> None:
    """Raise InputError where one is not PROBE:RUN."""
    for name in expected:
        if name.partition(":")[0] not in PROBES or ":" not in name:
            raise InputError(f"--probes: expected {'|'.join(PROBES)}:RUN, found {name!r}")
