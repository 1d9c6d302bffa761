"""What tables are made from: what the paper printed, and our score files, with what they say of their runs.

Ours come from score files (`python -m transformer score --run --json`): one run's BLEU, and what was run.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from transformer.common.files import InputError, read_json

# Our variants of BLEU in the tables and their headings: the one that the paper reports for the language, and sacreBLEU.
MEASURES = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}

# What a score file must say, and what of its run.
SCORE = ["language", "hyp_sha256", "ref_sha256", "draws"]
RUN = ["scale", "task", "experiment", "seed", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"]
RUN += ["commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"]


def read_table(path: str | Path, columns: list[str]) -> pd.DataFrame:
    """A table's CSV, the paper's or one of ours: each cell as text, as it stands there, blank ones "".

    Raises InputError where the file cannot be read or one of `columns` is missing.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {str(error).strip()}") from error
    for column in columns:
        if column not in table:
            raise InputError(f"{path}: expected a column {column!r}, found {', '.join(table)}")
    return table


def read_scores(paths: list[str]) -> pd.DataFrame:
    """A row per score file: `file`, `name`, the keys `SCORE`, of its run the keys `RUN`, each measure, all `variants`.

    Raises InputError where a file is not a whole score of a run, and where files do not belong in one table.
    """
    runs = rows_of([read_score(path) for path in paths], [*SCORE, *MEASURES, "paper", "variants"])
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("ref_sha256", of_task)
    return runs


def rows_of(scores: list[dict], columns: list[str]) -> pd.DataFrame:
    """A row per score; without any, a frame that has `columns`, and those of the runs, all the same."""
    return pd.DataFrame(scores, columns=["file", "name", *columns, *RUN])


def check_runs(runs: pd.DataFrame) -> None:
    """Raises InputError where a run is scored twice, or not all are of one scale and fidelity."""
    for (task, experiment, seed), same in runs.groupby(["task", "experiment", "seed"]):
        if len(same) > 1:
            found = ", ".join(same["file"])
            raise InputError(f"{task}/{experiment}/{seed}: expected one score of a run, found {found}")
    require_one("scale", runs)
    require_one("fidelity", runs)


def read_score(path: str) -> dict:
    """The row of one score file."""
    score = read_json(path)
    row = {"file": path} | read_run(score, path) | {key: item(score, key, path) for key in SCORE}
    variants = dict(item(score, "scores", path))
    row["paper"] = item(variants, "paper", f"{path}, scores")
    del variants["paper"]
    for measure in MEASURES:
        name = row["paper"] if measure == "bleu" else measure
        row[measure] = item(item(variants, name, f"{path}, scores"), "score", f"{path}, {name}")
    for name, variant in variants.items():
        item(variant, "signature", f"{path}, {name}")
    return row | {"variants": variants}


def read_run(score: Any, path: str) -> dict:
    """The keys `RUN` of a score file's run, and its name. Raises InputError naming the file."""
    run = item(score, "run", path)
    if run is None:
        raise InputError(f"{path}: expected a score with its run (--run), found one without")
    about = {key: item(run, key, f"{path}, run") for key in RUN}
    return about | {"name": run_name(about)}


def run_name(about: dict, where: str = "run") -> str:
    """`task/experiment/seed` of what run.json says, or `vars` of an experiment.

    Raises InputError, which begins with `where`, where one of the three is missing.
    """
    return "/".join(str(item(about, key, where)) for key in ("task", "experiment", "seed"))


def system_name(experiment: str) -> str:
    """The paper's name in Table 2 of the model that an experiment trains: `Transformer (base)`."""
    return f"Transformer ({experiment})"


def require_one(key: str, runs: pd.DataFrame) -> None:
    """Raises InputError where `runs` differ in `key`, naming a file of each kind."""
    kinds = runs.drop_duplicates(key)
    if len(kinds) > 1:
        found = " and ".join(f"{value} in {file}" for value, file in zip(kinds[key], kinds["file"], strict=True))
        raise InputError(f"expected scores of one {key}, found {found}")


def item(mapping: Any, key: str, where: str) -> Any:
    """`mapping[key]`. Raises InputError, which begins with `where`, when there is none."""
    if not isinstance(mapping, dict) or key not in mapping:
        raise InputError(f"{where}: missing key {key!r}")
    return mapping[key]
