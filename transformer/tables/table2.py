"""Table 2 (§6.1): BLEU and the FLOPs of training, the paper's systems and then ours."""

from pathlib import Path

import pandas as pd

from transformer.scoring.scorefiles import MEASURES, read_table, system_name
from transformer.tables.cells import (
    DIFFERENCE_NOTE,
    Row,
    difference_cell,
    flops_text,
    gaps,
    interval,
    interval_cell,
    ladder,
    mean_text,
    ours,
    provenance,
)
from transformer.tables.render import Table

FLOPS_NOTE = (
    "FLOPs: ours are counted, the paper's estimated. Ours are those of the matrix products and attention products on "
    "the tokens that were trained on, three times the forward pass, without padding. The paper's are training time · "
    "GPUs · sustained TFLOPS of one (§6.1), which comes out larger than a count of the same training."
)
LADDER_NOTE = "The ladder, one output by every measure (* is the one in the table, which the paper reports):"


def read_systems(path: str | Path) -> list[dict[str, str]]:
    """What the paper printed: model, by ("published" or "paper") and the cells that are not blank.

    Raises InputError where the file cannot be read or a column is missing.
    """
    table = read_table(path, ["model", "system"])
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def table2(paper: list[dict], runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """A row per system: `paper` from `read_systems`, then `runs` from `read_scores`, done on the data `label`.

    Columns: model, by, label, then for each task of `runs` each measure's mean and standard deviation over seeds
    (`en-de_bleu`, `en-de_bleu_sd`), BLEU's 95 % interval (`en-de_low`, `en-de_high`), the paper's of the same model
    (`en-de_paper`) and the difference from it, FLOPs, number of seeds and the runs, then note. The paper's cells are
    text, as it printed them; its systems that say nothing about these tasks are left out, unless there are no runs.
    """
    columns = [column for task in runs["task"].unique() for column in task_columns(task)]
    printed = [row for row in paper if row.keys() & columns or not columns]
    systems = [our_system(of_experiment, label, printed) for _, of_experiment in runs.groupby("experiment", sort=False)]
    table = pd.DataFrame(printed + systems, columns=["model", "by", "label", *columns, "note"])
    return table.astype({column: "Int64" for column in columns if column.endswith("_seeds")})


def task_columns(task: str) -> list[str]:
    """What `table2` has of one task."""
    measures = [f"{task}_{measure}{end}" for measure in MEASURES for end in ("", "_sd")]
    return [*measures, *(f"{task}_{name}" for name in ("low", "high", "paper", "difference", "flops", "seeds", "runs"))]


def our_system(runs: pd.DataFrame, label: str, paper: list[dict]) -> dict:
    """The row of one experiment."""
    row = {"model": system_name(runs["experiment"].iloc[0]), "by": "ours", "label": label}
    printed = next((cells for cells in paper if cells["model"] == row["model"]), {})
    for task, seeds in runs.groupby("task"):
        for measure in MEASURES:
            row |= {f"{task}_{measure}": seeds[measure].mean(), f"{task}_{measure}_sd": seeds[measure].std()}
        low, high = interval(seeds)
        papers = float(printed.get(f"{task}_bleu", "nan"))
        row |= {f"{task}_low": low, f"{task}_high": high, f"{task}_paper": papers}
        row |= {f"{task}_difference": row[f"{task}_bleu"] - papers, f"{task}_flops": seeds["flops"].mean()}
        row |= {f"{task}_seeds": len(seeds), f"{task}_runs": " ".join(seeds["name"])}
    return row


def table2_for_readers(table: pd.DataFrame, runs: pd.DataFrame, label: str, expected: list[str]) -> Table:
    """`table`, and under it how each number was computed and where it came from; `expected` names all its runs."""
    caption = (
        "BLEU and the FLOPs of training. “published” and “paper” are what the paper printed, for newstest2014. “ours” "
        f"are {label}; ± is the standard deviation over seeds."
    )
    rows = [table2_cells(row, runs) for row in table.to_dict("records")]
    notes = [f"{row.model}, {row.by}: {row.note}." for row in table.dropna(subset="note").itertuples()]
    notes += [*gaps(expected, runs), DIFFERENCE_NOTE, FLOPS_NOTE]
    if len(runs):
        notes += [LADDER_NOTE, ladder(runs), "Where ours come from:", provenance(runs)]
    return Table("table2", caption, rows, notes)


def table2_cells(row: dict, runs: pd.DataFrame) -> Row:
    """One line of the table: BLEU of all tasks, then FLOPs of all tasks, as the paper has them."""
    is_ours, tasks = row["by"] == "ours", runs["task"].unique()
    of_row = runs[(runs["experiment"].map(system_name) == row["model"]) & is_ours]
    cells = {"Model": row["model"], "From": f"ours: {row['label']}" if is_ours else row["by"]}
    cells["Seeds"] = seeds_text([row[f"{task}_seeds"] for task in tasks]) if is_ours else ""
    for task in tasks:
        cells |= bleu_cells(row, task, of_row[of_row["task"] == task])
    for task in tasks:
        cells[f"{task.upper()} FLOPs"] = ours(flops_text(row[f"{task}_flops"]), of_row[of_row["task"] == task])
    return cells


def bleu_cells(row: dict, task: str, runs: pd.DataFrame) -> Row:
    """BLEU of one task, by each measure, and how sure and how far from the paper's it is."""
    cells = {
        heading: ours(mean_text(row[f"{task}_{measure}"], row[f"{task}_{measure}_sd"], 1), runs)
        for measure, heading in MEASURES.items()
    }
    low, high, papers, difference = (row[f"{task}_{name}"] for name in ("low", "high", "paper", "difference"))
    cells["95 %"] = interval_cell(low, high, runs)
    cells["difference"] = difference_cell(difference, papers, low, high, runs)
    return {f"{task.upper()} {heading}": cell for heading, cell in cells.items()}


def seeds_text(seeds: list[int]) -> str:
    """`3`, or where tasks differ `3 / 1`, in their order; 0 for a task without a run."""
    counts = ["0" if pd.isna(count) else str(count) for count in seeds]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)
