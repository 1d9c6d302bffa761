"""What tables are made from: what the paper printed, and our score files, with what they say of their runs.

Ours come from score files (`python -m transformer score --run --json`): one run's BLEU, and what was run.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from transformer.arguments import PRINT
from transformer.files import InputError, read_json, replacing
from transformer.significance import RESAMPLES, limits
from transformer.tables import Cell, Row, difference_text, flops_text, interval_text, mean_text

# Our variants of BLEU in the tables and their headings: the one that the paper reports for the language, and sacreBLEU.
MEASURES = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}

# What a score file must say, and what of its run.
SCORE = ["language", "hyp_sha256", "ref_sha256", "draws"]
RUN = ["scale", "task", "experiment", "seed", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"]
RUN += ["commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"]

WITHIN = "‡"
DIFFERENCE_NOTE = (
    f"95 %: where the score lies on {RESAMPLES:,} test sets drawn from the sentences with replacement. It knows "
    f"nothing of the chance in training. Difference: ours less the paper's; {WITHIN} where it is not significant, as "
    "the paper's lies in that interval. Where ours are of other data than the paper's, the difference says how far "
    "the tasks are apart, not how well the paper was reproduced."
)


def leave(score: dict, listing: str, file: str | None) -> None:
    """Print the `listing` and write the score to `file`, if there is one; or, if that is PRINT, print the score."""
    print(as_json(score) if file == PRINT else listing)
    if file not in (None, PRINT):
        with replacing(file) as written:
            written.write(as_json(score) + "\n")


def as_json(score: dict) -> str:
    """Indented; the draws, if there are any, in one line at the end."""
    text = json.dumps({key: score[key] for key in score if key != "draws"}, indent=2, ensure_ascii=False)
    return f'{text[:-2]},\n  "draws": {json.dumps(score["draws"])}\n}}' if "draws" in score else text


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


def ours(text: str, runs: pd.DataFrame) -> Cell:
    """A cell of ours that comes from all of `runs`."""
    return Cell(text, tuple(runs["name"]) if text else ())


def interval(runs: pd.DataFrame) -> tuple[float, float]:
    """Where 95 % of the means over these runs, of one test set, lie on resampled sentences (significance.py)."""
    return limits(mean_draws(runs["draws"]))


def mean_draws(draws: Iterable[list[float]]) -> np.ndarray:
    """The mean over runs on each resampled test set."""
    return np.mean(list(draws), axis=0)


def interval_cell(low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Where 95 % of the mean over these runs lie."""
    return ours(interval_text(low, high, 1), runs)


def difference_cell(difference: float, printed: str | float, low: float, high: float, runs: pd.DataFrame) -> Cell:
    """Ours less what the paper printed, marked where that lies within our interval; blank where it printed none."""
    if pd.isna(difference):
        return Cell("")
    within = low <= float(printed) <= high
    return ours(difference_text(difference, 1) + (f" {WITHIN}" if within else ""), runs)


def ladder(runs: pd.DataFrame) -> list[Row]:
    """A row per task and variant of the score: its mean over seeds for each experiment, and its signature."""
    rows = []
    for task, of_task in runs.groupby("task", sort=False):
        for name, first in of_task["variants"].iloc[0].items():
            row = {"Task": task.upper(), "Variant": name + (" *" if name == of_task["paper"].iloc[0] else "")}
            for experiment in runs["experiment"].unique():
                same = of_task[of_task["experiment"] == experiment]
                scores = pd.Series([variants[name]["score"] for variants in same["variants"]], dtype=float)
                row[experiment] = ours(mean_text(scores.mean(), scores.std(), 2), same)
            rows.append(row | {"Signature": f"`{first['signature']}`"})
    return rows


def missing(expected: list[str], found: Iterable[str]) -> list[str]:
    """The runs that were to be there and are not."""
    there = set(found)
    return [name for name in expected if name not in there]


def gaps(expected: list[str], runs: pd.DataFrame) -> list[str]:
    """A paragraph that names the missing runs; none where all are there."""
    names = ", ".join(missing(expected, runs["name"]))
    return [f"Not in this table, as these runs have not been made: {names}."] if names else []


def provenance(runs: pd.DataFrame, measures: Mapping[str, str] = MEASURES) -> list[Row]:
    """A row for each run, with these of its columns under their headings."""
    return [
        {
            "Run": run.name,
            **{heading: mean_text(getattr(run, measure), float("nan"), 2) for measure, heading in measures.items()},
            "FLOPs": flops_text(run.flops),
            "Steps": f"{run.steps:,}",
            "Averaged": averaged_text(run.averaged_steps),
            "Decoding": ", ".join(f"{key} {run.decoding[key]}" for key in ("beam", "alpha", "extra_length")),
            "Seconds": f"{run.seconds:,.0f}",
            "Hardware": run.hardware,
            "Fidelity": run.fidelity,
            "Commit": run.commit[:12],
            "Digest": run.digest[:12],
            "Data": run.data_sha256[:12],
        }
        for run in runs.itertuples(index=False)
    ]


def averaged_text(steps: list[int]) -> str:
    """`5 checkpoints from step 520`, or of a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"
