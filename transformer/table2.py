"""Table 2 (§6.1): BLEU and the FLOPs of training, the paper's systems and then ours."""

from pathlib import Path

import pandas as pd

from transformer.scorefiles import MEASURES, gaps, interval, ladder, ours, provenance, read_printed
from transformer.significance import RESAMPLES
from transformer.tables import Row, Table, difference_text, flops_text, interval_text, mean_text

FLOPS_NOTE = (
    "FLOPs: ours are counted, the paper's estimated. Ours are those of the matrix products and attention products on "
    "the tokens that were trained on, three times the forward pass, without padding. The paper's are training time · "
    "GPUs · sustained TFLOPS of one (§6.1), which comes out larger than a count of the same training."
)
WITHIN = "‡"
INTERVAL_NOTE = (
    f"95 %: where BLEU lies on {RESAMPLES:,} test sets drawn from the test set's sentences with replacement. It knows "
    f"nothing of the chance in training. Difference: ours less the paper's; {WITHIN} where it is not significant, as "
    "the paper's BLEU lies in that interval."
)
OTHER_DATA_NOTE = (
    "At this scale the test sets are not the paper's: the difference says how far the tasks are apart, not how well "
    "the paper was reproduced."
)
LADDER_NOTE = "The ladder, one output by every measure (* is the one in the table, which the paper reports):"


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
    (`en-de_bleu`, `en-de_bleu_sd`), BLEU's 95 % interval (`en-de_low`, `en-de_high`) and its difference from the
    paper's of the same model, FLOPs and number of seeds, then note. The paper's cells are text, as it printed them; its
    systems that say nothing about these tasks are left out, unless there are no runs.
    """
    columns = [column for task in runs["task"].unique() for column in task_columns(task)]
    printed = [row for row in paper if row.keys() & columns or not columns]
    systems = [our_system(of_experiment, label, printed) for _, of_experiment in runs.groupby("experiment", sort=False)]
    table = pd.DataFrame(printed + systems, columns=["model", "by", "label", *columns, "note"])
    return table.astype({column: "Int64" for column in columns if column.endswith("_seeds")})


def task_columns(task: str) -> list[str]:
    """What `table2` has of one task."""
    measures = [f"{task}_{measure}{end}" for measure in MEASURES for end in ("", "_sd")]
    return [*measures, *(f"{task}_{name}" for name in ("low", "high", "difference", "flops", "seeds"))]


def our_system(runs: pd.DataFrame, label: str, paper: list[dict]) -> dict:
    """The row of one experiment."""
    row = {"model": f"Transformer ({runs['experiment'].iloc[0]})", "by": "ours", "label": label}
    printed = next((cells for cells in paper if cells["model"] == row["model"]), {})
    for task, seeds in runs.groupby("task"):
        for measure in MEASURES:
            row |= {f"{task}_{measure}": seeds[measure].mean(), f"{task}_{measure}_sd": seeds[measure].std()}
        low, high = interval(seeds)
        difference = row[f"{task}_bleu"] - float(printed.get(f"{task}_bleu", "nan"))
        row |= {f"{task}_low": low, f"{task}_high": high, f"{task}_difference": difference}
        row |= {f"{task}_flops": seeds["flops"].mean(), f"{task}_seeds": len(seeds)}
    return row


def table2_for_readers(table: pd.DataFrame, runs: pd.DataFrame, label: str, expected: list[str]) -> Table:
    """`table`, and under it how each number was computed and where it came from; `expected` names all its runs."""
    caption = (
        "BLEU and the FLOPs of training. “published” and “paper” are what the paper printed, for newstest2014. “ours” "
        f"are {label}; ± is the standard deviation over seeds."
    )
    rows = [table2_cells(row, runs) for row in table.to_dict("records")]
    notes = [f"{row.model}, {row.by}: {row.note}." for row in table.dropna(subset="note").itertuples()]
    notes += [*gaps(expected, runs), INTERVAL_NOTE, FLOPS_NOTE]
    if set(runs["scale"]) != {"paper"}:
        notes.append(OTHER_DATA_NOTE)
    if len(runs):
        notes += [LADDER_NOTE, ladder(runs), "Where ours come from:", provenance(runs)]
    return Table("table2", caption, rows, notes)


def table2_cells(row: dict, runs: pd.DataFrame) -> Row:
    """One line of the table: BLEU of all tasks, then FLOPs of all tasks, as the paper has them."""
    is_ours, tasks = row["by"] == "ours", runs["task"].unique()
    of_row = runs[("Transformer (" + runs["experiment"] + ")" == row["model"]) & is_ours]
    cells = {"Model": row["model"], "From": f"ours: {row['label']}" if is_ours else row["by"]}
    cells["Seeds"] = seeds_text([row[f"{task}_seeds"] for task in tasks]) if is_ours else ""
    for task in tasks:
        for measure, heading in MEASURES.items():
            text = mean_text(row[f"{task}_{measure}"], row[f"{task}_{measure}_sd"], 1)
            cells[f"{task.upper()} {heading}"] = ours(text, of_row[of_row["task"] == task])
        cells[f"{task.upper()} 95 %"] = interval_text(row[f"{task}_low"], row[f"{task}_high"], 1)
        cells[f"{task.upper()} difference"] = difference_cell(row, task)
    for task in tasks:
        cells[f"{task.upper()} FLOPs"] = ours(flops_text(row[f"{task}_flops"]), of_row[of_row["task"] == task])
    return cells


def difference_cell(row: dict, task: str) -> str:
    """Ours less the paper's, marked where the paper's lies within our interval."""
    difference = row[f"{task}_difference"]
    if pd.isna(difference):
        return ""
    within = row[f"{task}_low"] <= row[f"{task}_bleu"] - difference <= row[f"{task}_high"]
    return difference_text(difference, 1) + (f" {WITHIN}" if within else "")


def seeds_text(seeds: list[int]) -> str:
    """`3`, or where tasks differ `3 / 1`, in their order; 0 for a task without a run."""
    counts = ["0" if pd.isna(count) else str(count) for count in seeds]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)
