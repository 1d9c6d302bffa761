"""Table 2 (§6.1): BLEU and the FLOPs of training, the paper's systems and then ours."""

from pathlib import Path

import pandas as pd

from transformer.tables import MEASURES, flops_text, markdown, mean_text, provenance, read_printed, signatures

FLOPS_NOTE = (
    "FLOPs: ours are counted, the paper's estimated. Ours are those of the matrix products and attention products on "
    "the tokens that were trained on, three times the forward pass, without padding. The paper's are training time · "
    "GPUs · sustained TFLOPS of one (§6.1), which comes out larger than a count of the same training."
)


def read_systems(path: str | Path) -> list[dict[str, str]]:
    """What the paper printed: model, by ("published" or "paper") and the cells that are not blank.

    Raises InputError where the file cannot be read or a column is missing.
    """
    table = read_printed(path, ["model", "system"])
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def table2(paper: list[dict], runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """A row per system: `paper` from `read_systems`, then `runs` from `read_scores`, done on the data `label`.

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
            cells[f"{task.upper()} {heading}"] = mean_text(row[f"{task}_{measure}"], row[f"{task}_{measure}_sd"], 1)
    return cells | {f"{task.upper()} FLOPs": flops_text(row[f"{task}_flops"]) for task in tasks}


def seeds_text(seeds: list[int]) -> str:
    """`3`, or where tasks differ `3 / 1`, in their order; 0 for a task without a run."""
    counts = ["0" if pd.isna(count) else str(count) for count in seeds]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)
