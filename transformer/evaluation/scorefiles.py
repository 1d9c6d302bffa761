"""Score files: read, checked, and put together as the rows that tables and figures are made from.

One file holds one run's scores and a record of the run: see records.py.
"""

import pandas as pd

from transformer.evaluation.records import RunRecord, read_translated, run_name, variants
from transformer.files import InputError

SCORE = (  # the columns of a translation's score, beside those of `RunRecord`
    "file",
    "name",  # task/experiment/seed
    "language",
    "hyp_sha256",
    "ref_sha256",
    "draws",
    "bleu",  # by the paper's measure
    "sacrebleu",
    "paper",  # the name of that variant
    "variants",  # score and signature by name
)
RUN = tuple(RunRecord.__annotations__)


def read_scores(paths: list[str]) -> pd.DataFrame:
    """Return a row per score file, with the columns `RUN` and `SCORE`.

    Raises InputError where a file is not a whole score of a run, and where files do not belong in one table.
    """
    runs = pd.DataFrame([read_score(path) for path in paths], columns=[*RUN, *SCORE])
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


def read_score(path: str) -> dict:
    """Return the row of one score file. Raises InputError naming the file and the key."""
    score = read_translated(path)
    paper, measures = score["scores"]["paper"], variants(score["scores"])
    row = {key: score["run"][key] for key in RUN}
    row |= {key: score[key] for key in ("language", "hyp_sha256", "ref_sha256", "draws")}
    if "sacrebleu" not in measures:
        raise InputError(f"{path}, scores: missing key 'sacrebleu'")
    row |= {"bleu": measures[paper]["score"], "sacrebleu": measures["sacrebleu"]["score"]}
    return row | {"file": path, "name": run_name(score["run"]), "paper": paper, "variants": measures}
