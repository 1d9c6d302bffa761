"""The paper's tables, with our numbers below the paper's.

Ours come from score files (`python -m transformer score --run --json`): one run's BLEU, and what was run.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from transformer.files import InputError, read_json

# Our measures and their headings: the variant that the paper reports for the language, then two beside it.
MEASURES = {"bleu": "BLEU", "sacrebleu": "sacreBLEU", "tokenized_lc": "BLEU lc"}

# What a score file must say of its run.
RUN = ["scale", "task", "experiment", "seed", "steps", "flops", "seconds", "hardware", "commit"]
RUN += ["digest", "data_sha256", "averaged_steps", "decoding"]

# Headings of columns that hold no numbers.
WORDS = {"Model", "From", "Run", "Averaged", "Decoding", "Hardware", "Commit", "Digest", "Data"}

FLOPS_NOTE = (
    "FLOPs: ours are counted, the paper's estimated. Ours are those of the matrix products and attention products on "
    "the tokens that were trained on, three times the forward pass, without padding. The paper's are training time · "
    "GPUs · sustained TFLOPS of one (§6.1), which comes out larger than a count of the same training."
)


def table2(paper: list[dict], runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """Table 2, a row per system: `paper` from `read_paper`, then `runs` from `read_scores`, done on the data `label`.

    Columns: model, by, label, then for each task of `runs` each measure's mean and standard deviation over seeds
    (`en-de_bleu`, `en-de_bleu_sd`), FLOPs and number of seeds, then note. The paper's cells are text, as it printed
    them; its systems that say nothing about these tasks are left out.
    """
    columns = [column for task in runs["task"].unique() for column in task_columns(task)]
    printed = [row for row in paper if row.keys() & columns]
    ours = [our_system(of_experiment, label) for _, of_experiment in runs.groupby("experiment", sort=False)]
    table = pd.DataFrame(printed + ours, columns=["model", "by", "label", *columns, "note"])
    return table.astype({column: "Int64" for column in columns if column.endswith("_seeds")})


def task_columns(task: str) -> list[str]:
    """What `table2` has of one task."""
    measures = [f"{task}_{measure}{end}" for measure in MEASURES for end in ("", "_sd")]
    return [*measures, f"{task}_flops", f"{task}_seeds"]


def our_system(runs: pd.DataFrame, label: str) -> dict:
    """The row of one experiment."""
    row = {"model": f"Transformer ({runs['experiment'].iloc[0]})", "by": "ours", "label": label}
    for task, seeds in runs.groupby("task"):
        for measure in MEASURES:
            row |= {f"{task}_{measure}": seeds[measure].mean(), f"{task}_{measure}_sd": seeds[measure].std()}
        row |= {f"{task}_flops": seeds["flops"].mean(), f"{task}_seeds": len(seeds)}
    return row


def table2_markdown(table: pd.DataFrame, runs: pd.DataFrame, label: str) -> str:
    """`table` for readers, and under it how each number was computed and where it came from."""
    caption = (
        "**Table 2.** BLEU and the FLOPs of training. “published” and “paper” are what the paper printed, for "
        f"newstest2014. “ours” are {label}; ± is the standard deviation over seeds."
    )
    cells = [table2_cells(row, runs["task"].unique()) for row in table.to_dict("records")]
    notes = [f"{row.model}, {row.by}: {row.note}." for row in table.dropna(subset="note").itertuples()]
    parts = [caption, markdown(cells), *notes, FLOPS_NOTE, "How ours were scored:", signatures(runs)]
    return "\n\n".join([*parts, "Where ours come from:", provenance(runs)]) + "\n"


def table2_cells(row: dict, tasks: list[str]) -> dict[str, str]:
    """One line of the Markdown table: BLEU of all tasks, then FLOPs of all tasks, as the paper has them."""
    ours = row["by"] == "ours"
    cells = {"Model": row["model"], "From": f"ours: {row['label']}" if ours else row["by"]}
    cells["Seeds"] = seeds_text([row[f"{task}_seeds"] for task in tasks]) if ours else ""
    for task in tasks:
        for measure, heading in MEASURES.items():
            cells[f"{task.upper()} {heading}"] = bleu_text(row[f"{task}_{measure}"], row[f"{task}_{measure}_sd"])
    return cells | {f"{task.upper()} FLOPs": flops_text(row[f"{task}_flops"]) for task in tasks}


def seeds_text(seeds: list[int]) -> str:
    """`3`, or where tasks differ `3 / 1`, in their order; 0 for a task without a run."""
    counts = ["0" if pd.isna(count) else str(count) for count in seeds]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)


def bleu_text(bleu: str | float, deviation: float) -> str:
    """`27.3 ± 0.2`; the paper's as printed; blank where there is none."""
    if pd.isna(bleu):
        return ""
    if isinstance(bleu, str):
        return bleu
    return f"{bleu:.1f}" if pd.isna(deviation) else f"{bleu:.1f} ± {deviation:.1f}"


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


def provenance(runs: pd.DataFrame) -> str:
    """A line for each run."""
    return markdown(
        {
            "Run": f"{run.task}/{run.experiment}/{run.seed}",
            **{heading: f"{getattr(run, measure):.2f}" for measure, heading in MEASURES.items()},
            "FLOPs": flops_text(run.flops),
            "Steps": f"{run.steps:,}",
            "Averaged": f"{len(run.averaged_steps)} checkpoints from step {min(run.averaged_steps):,}",
            "Decoding": ", ".join(f"{key} {run.decoding[key]}" for key in ("beam", "alpha", "extra_length")),
            "Seconds": f"{run.seconds:,.0f}",
            "Hardware": run.hardware,
            "Commit": run.commit,
            "Digest": run.digest[:12],
            "Data": run.data_sha256[:12],
        }
        for run in runs.itertuples()
    )


def markdown(rows: Iterable[dict[str, str]]) -> str:
    """A Markdown table of the cells as they are, words to the left and numbers to the right."""
    table = pd.DataFrame(rows)
    sides = ["left" if heading in WORDS else "right" for heading in table]
    return table.to_markdown(index=False, disable_numparse=True, colalign=sides)


def read_paper(path: str | Path) -> list[dict[str, str]]:
    """What the paper printed: model, by ("published" or "paper") and the cells that are not blank.

    Raises InputError where the file cannot be read or a column is missing.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {str(error).strip()}") from error
    for column in ("model", "system"):
        if column not in table:
            raise InputError(f"{path}: expected a column {column!r}, found {', '.join(table)}")
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def read_scores(paths: list[str]) -> pd.DataFrame:
    """A row per score file: `file`, `ref_sha256`, of its run the keys `RUN`, and each measure with its signature.

    Raises InputError where a file is not a whole score of a run, and where files do not belong in one table.
    """
    runs = pd.DataFrame([read_score(path) for path in paths])
    for (task, experiment, seed), same in runs.groupby(["task", "experiment", "seed"]):
        if len(same) > 1:
            found = ", ".join(same["file"])
            raise InputError(f"{task}/{experiment}/{seed}: expected one score of a run, found {found}")
    require_one("scale", runs)
    for _, of_task in runs.groupby("task"):
        require_one("ref_sha256", of_task)
    return runs


def read_score(path: str) -> dict:
    """The row of one score file."""
    score = read_json(path)
    run = item(score, "run", path)
    if run is None:
        raise InputError(f"{path}: expected a score with its run (score --run), found one without")
    row = {"file": path, "ref_sha256": item(score, "ref_sha256", path)}
    row |= {key: item(run, key, f"{path}, run") for key in RUN}
    variants = item(score, "scores", path)
    for measure in MEASURES:
        name = item(variants, "paper", f"{path}, scores") if measure == "bleu" else measure
        variant = item(variants, name, f"{path}, scores")
        row[measure] = item(variant, "bleu", f"{path}, {name}")
        row[f"{measure}_signature"] = f"{name}, `{item(variant, 'signature', f'{path}, {name}')}`"
    return row


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
