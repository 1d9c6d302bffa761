"""What the paper's tables have in common: what it printed, our score files, and cells and notes for readers.

Ours come from score files (`python -m transformer score --run --json`): one run's BLEU, and what was run.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from transformer.files import InputError, read_json

# Our variants of BLEU and their headings: the one that the paper reports for the language, then two beside it.
MEASURES = {"bleu": "BLEU", "sacrebleu": "sacreBLEU", "tokenized_lc": "BLEU lc"}

# What a score file must say, and what of its run.
SCORE = ["language", "hyp_sha256", "ref_sha256"]
RUN = ["scale", "task", "experiment", "seed", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"]
RUN += ["commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"]

# Headings of columns that hold no numbers.
WORDS = {"Model", "From", "Row", "Experiment", "Changed", "Parser", "Training", "Test trees"}
WORDS |= {"Run", "Averaged", "Decoding", "Hardware", "Fidelity", "Commit", "Digest", "Data"}


def read_printed(path: str | Path, columns: list[str]) -> pd.DataFrame:
    """What the paper printed, each cell as text, blank ones "".

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
    """A row per score file: `file`, the keys `SCORE`, of its run the keys `RUN`, each measure with its signature.

    Raises InputError where a file is not a whole score of a run, and where files do not belong in one table.
    """
    runs = pd.DataFrame([read_score(path) for path in paths])
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("ref_sha256", of_task)
    return runs


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
    row = {"file": path} | {key: item(score, key, path) for key in SCORE} | read_run(score, path)
    variants = item(score, "scores", path)
    for measure in MEASURES:
        name = item(variants, "paper", f"{path}, scores") if measure == "bleu" else measure
        variant = item(variants, name, f"{path}, scores")
        row[measure] = item(variant, "bleu", f"{path}, {name}")
        row[f"{measure}_signature"] = f"{name}, `{item(variant, 'signature', f'{path}, {name}')}`"
    return row


def read_run(score: Any, path: str) -> dict:
    """The keys `RUN` of a score file's run. Raises InputError naming the file."""
    run = item(score, "run", path)
    if run is None:
        raise InputError(f"{path}: expected a score with its run (--run), found one without")
    return {key: item(run, key, f"{path}, run") for key in RUN}


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


def mean_text(mean: str | float, deviation: float, decimals: int) -> str:
    """`27.3 ± 0.2`; the paper's as printed; blank where there is none."""
    if pd.isna(mean):
        return ""
    if isinstance(mean, str):
        return mean
    return f"{mean:.{decimals}f}" if pd.isna(deviation) else f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def flops_text(flops: str | float) -> str:
    """`3.3·10^18`; blank where there is none."""
    if pd.isna(flops):
        return ""
    mantissa, exponent = f"{float(flops):.1e}".split("e")
    return f"{mantissa}·10^{int(exponent)}"


def signatures(runs: pd.DataFrame) -> str:
    """A line for each column of BLEU that is ours: the variant and its signature."""
    lines = []
    for task, of_task in runs.groupby("task", sort=False):
        for measure, heading in MEASURES.items():
            for text in of_task[f"{measure}_signature"].unique():
                lines.append(f"- {task.upper()} {heading}: {text}")
    return "\n".join(lines)


def provenance(runs: pd.DataFrame, measures: Mapping[str, str] = MEASURES) -> str:
    """A line for each run, with these of its columns under their headings."""
    return markdown(
        {
            "Run": f"{run.task}/{run.experiment}/{run.seed}",
            **{heading: mean_text(getattr(run, measure), float("nan"), 2) for measure, heading in measures.items()},
            "FLOPs": flops_text(run.flops),
            "Steps": f"{run.steps:,}",
            "Averaged": averaged_text(run.averaged_steps),
            "Decoding": ", ".join(f"{key} {run.decoding[key]}" for key in ("beam", "alpha", "extra_length")),
            "Seconds": f"{run.seconds:,.0f}",
            "Hardware": run.hardware,
            "Fidelity": run.fidelity,
            "Commit": run.commit,
            "Digest": run.digest[:12],
            "Data": run.data_sha256[:12],
        }
        for run in runs.itertuples()
    )


def averaged_text(steps: list[int]) -> str:
    """`5 checkpoints from step 520`, or of a single one `step 600 alone`."""
    return f"step {steps[0]:,} alone" if len(steps) == 1 else f"{len(steps)} checkpoints from step {min(steps):,}"


def markdown(rows: Iterable[dict[str, str]]) -> str:
    """A Markdown table of the cells as they are, words to the left and numbers to the right."""
    table = pd.DataFrame(rows)
    sides = ["left" if heading in WORDS else "right" for heading in table]
    return table.to_markdown(index=False, disable_numparse=True, colalign=sides)
