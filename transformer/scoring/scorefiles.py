"""Score files: read, checked, and put together as the rows that tables and figures are made from.

One file holds one run's scores and a record of the run (`python -m transformer score --run --json`).
"""

from typing import Any, TypedDict

import pandas as pd

from transformer.common.files import InputError, read_json


class RunRecord(TypedDict):
    """The run behind a score, as a score file must describe it."""

    scale: str
    task: str
    experiment: str
    seed: int
    steps: int
    parameters: int
    dev_perplexity: float | None
    flops: float  # of the training
    seconds: float  # of the training
    hardware: str
    commit: str
    digest: str  # of the settings and the data
    data_sha256: str
    fidelity: str
    averaged_steps: list[int]
    decoding: dict[str, Any]


class Score(RunRecord):
    """A translation's score: the row of one file, with the keys of its run."""

    file: str
    name: str  # task/experiment/seed
    language: str
    hyp_sha256: str
    ref_sha256: str
    draws: list[float]  # BLEU on resampled test sets
    bleu: float  # by the variant that the paper reports
    sacrebleu: float
    paper: str  # the name of that variant
    variants: dict[str, dict[str, Any]]  # score and signature by name


def read_scores(paths: list[str]) -> pd.DataFrame:
    """Return a row per score file, with the keys of `Score`.

    Raises InputError where a file is not a whole score of a run, and where files do not belong in one table.
    """
    runs = pd.DataFrame([read_score(path) for path in paths], columns=list(Score.__annotations__))
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("ref_sha256", of_task)
    return runs


def check_runs(runs: pd.DataFrame) -> None:
    """Raise InputError where a run is scored twice, or not all are of one scale and fidelity."""
    for name, same in runs.groupby("name"):
        if len(same) > 1:
            raise InputError(f"{name}: expected one score of a run, found {', '.join(same['file'])}")
    require_one("scale", runs)
    require_one("fidelity", runs)


def require_one(key: str, runs: pd.DataFrame) -> None:
    """Raise InputError where `runs` differ in `key`, naming a file of each kind."""
    kinds = runs.drop_duplicates(key)
    if len(kinds) > 1:
        values = " and ".join(f"{value} in {file}" for value, file in zip(kinds[key], kinds["file"], strict=True))
        raise InputError(f"expected scores of one {key}, found {values}")


def read_score(path: str) -> Score:
    """Return the row of one score file. Raises InputError naming the file and the missing key."""
    score = read_json(path)
    run = read_run(score, path)
    top = {key: item(score, key, path) for key in ("language", "hyp_sha256", "ref_sha256", "draws")}
    variants = dict(item(score, "scores", path))
    paper = item(variants, "paper", f"{path}, scores")
    del variants["paper"]
    names = {"bleu": paper, "sacrebleu": "sacrebleu"}
    scores = {
        key: item(item(variants, name, f"{path}, scores"), "score", f"{path}, {name}") for key, name in names.items()
    }
    for name, variant in variants.items():
        item(variant, "signature", f"{path}, {name}")
    return Score(**run, **top, **scores, file=path, name=run_name(run), paper=paper, variants=variants)


def read_run(score: Any, path: str) -> RunRecord:
    """Return the record of the run in a score file's content. Raises InputError naming the file."""
    run = item(score, "run", path)
    if run is None:
        raise InputError(f"{path}: expected a score with its run (--run), found one without")
    return RunRecord(**{key: item(run, key, f"{path}, run") for key in RunRecord.__annotations__})


def run_name(run: dict, where: str = "run") -> str:
    """Return `task/experiment/seed` of a run's record, or of `vars` of an experiment.

    Raises InputError, which begins with `where`, where one of the three is missing.
    """
    return "/".join(str(item(run, key, where)) for key in ("task", "experiment", "seed"))


def item(mapping: Any, key: str, where: str) -> Any:
    """Return `mapping[key]`. Raises InputError, which begins with `where`, where there is none."""
    if not isinstance(mapping, dict) or key not in mapping:
        raise InputError(f"{where}: missing key {key!r}")
    return mapping[key]
