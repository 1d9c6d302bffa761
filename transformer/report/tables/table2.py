"""Table 2 (§6.1): BLEU and the FLOPs of training, the paper's systems and then ours.

Tasks and experiments are those of the score files, in the order in which they are first named. Runs that differ only in
their seed are averaged.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pandas as pd

from transformer.commandline import compared_arguments
from transformer.evaluation.scorefiles import read_scores, require_one
from transformer.report.tables.cells import Row, difference_cell, flops_text, interval, interval_cell, mean_text, ours
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.notes import MEASURES, gaps, interval_notes, ladder, provenance
from transformer.report.tables.render import Grid, Note, Table

TITLE = "Table 2: translation"
WORDS = ("Model", "From")
BEHIND = ("Seeds", "Steps", "sacreBLEU", "FLOPs")  # what columns of the second grid end with

BEHIND_NOTE = "The same rows: what training took, and sacreBLEU of ours."
FLOPS_NOTE = (
    "FLOPs: ours are counted, the paper's estimated. Ours are those of the matrix products and attention products on "
    "the tokens that were trained on, three times the forward pass, without padding. The paper's are training time · "
    "GPUs · sustained TFLOPS of one (§6.1), which comes out larger than a count of the same training."
)
LADDER_NOTE = (
    "The ladder, one output by every measure. * is the one in the table: for German the paper's, by an account in "
    "tensor2tensor's issue 317; for French, of which nothing is known, the same without splitting compounds."
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--label", required=True, metavar="TEXT", help="the data behind our rows, shown in each")
    compared_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    runs = read_scores(args.score)
    for _, seeds in runs.groupby(["task", "experiment"]):
        require_one("steps", seeds)
    frame = systems(read_systems(args.paper), runs, args.label, args.data_of_paper)
    return for_readers(frame, runs, args.label, args.expected), frame


def system_name(experiment: str) -> str:
    """Return the paper's name of the model that an experiment trains: `Transformer (base)`."""
    return f"Transformer ({experiment})"


def read_systems(path: str | Path) -> list[dict[str, str]]:
    """Return what the paper printed: model, by ("published" or "paper") and the cells that are not blank.

    Raises InputError where the file cannot be read or a column is missing.
    """
    table = read_csv(path, ["model", "system"])
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def systems(paper: list[dict], runs: pd.DataFrame, label: str, data_of_paper: bool) -> pd.DataFrame:
    """Return a row per system: `paper` from `read_systems`, then `runs` from `read_scores` on the data `label`.

    Columns: model, by, label, then for each task of `runs` each measure's mean and standard deviation over seeds
    (`en-de_bleu`, `en-de_bleu_sd`), BLEU's 95 % interval (`en-de_low`, `en-de_high`), the paper's of the same model
    (`en-de_paper`) and, if the data are the paper's, the difference from it, FLOPs, steps, number of seeds and the
    runs, then note. The paper's cells are text, as it printed them; its systems that say nothing about these tasks are
    left out, unless there are no runs.
    """
    names = [f"{measure}{end}" for measure in MEASURES for end in ("", "_sd")]
    names += ["low", "high", "paper", "difference", "flops", "steps", "seeds", "runs"]
    columns = [f"{task}_{name}" for task in runs["task"].unique() for name in names]
    printed = [row for row in paper if row.keys() & columns or not columns]
    rows = [our_system(same, label, printed, data_of_paper) for _, same in runs.groupby("experiment", sort=False)]
    frame = pd.DataFrame(printed + rows, columns=["model", "by", "label", *columns, "note"])
    return frame.astype({column: "Int64" for column in columns if column.endswith("_seeds")})


def our_system(runs: pd.DataFrame, label: str, paper: list[dict], data_of_paper: bool) -> dict:
    row = {"model": system_name(runs["experiment"].iloc[0]), "by": "ours", "label": label}
    printed = next((cells for cells in paper if cells["model"] == row["model"]), {})
    for task, seeds in runs.groupby("task"):
        for measure in MEASURES:
            row |= {f"{task}_{measure}": seeds[measure].mean(), f"{task}_{measure}_sd": seeds[measure].std()}
        low, high = interval(seeds)
        papers = float(printed.get(f"{task}_bleu", "nan"))
        row |= {f"{task}_low": low, f"{task}_high": high, f"{task}_paper": papers}
        row |= {
            f"{task}_difference": row[f"{task}_bleu"] - papers if data_of_paper else float("nan"),
            f"{task}_flops": seeds["flops"].mean(),
            f"{task}_steps": str(seeds["steps"].iloc[0]),
            f"{task}_seeds": len(seeds),
            f"{task}_runs": " ".join(seeds["name"]),
        }
    return row


def for_readers(frame: pd.DataFrame, runs: pd.DataFrame, label: str, expected: list[str]) -> Table:
    """Return the table, with notes on how each number was computed and where it came from.

    expected: all runs that should be there, by name.
    """
    caption = (
        "BLEU and the FLOPs of training. “published” and “paper” are what the paper printed, for newstest2014. “ours” "
        f"are {label}; ± is the standard deviation over seeds."
    )
    compared = bool(frame.filter(regex="_difference$").notna().any(axis=None))
    whole = Grid(WORDS, [cells(row, runs, compared) for row in frame.to_dict("records")])
    grid, further = whole.split(WORDS, [name for name in whole.rows[0] if name.endswith(BEHIND)])
    notes: list[Note] = [BEHIND_NOTE, further, FLOPS_NOTE] if len(runs) else []
    notes += [f"{row.model}, {row.by}: {row.note}." for row in frame.dropna(subset="note").itertuples()]
    notes += [*gaps(expected, runs), *interval_notes(compared)]
    if len(runs):
        notes += [LADDER_NOTE, ladder(runs), "Where ours come from:", provenance(runs)]
    return Table("table2", TITLE, caption, grid, notes)


def cells(row: dict, runs: pd.DataFrame, compared: bool) -> Row:
    """Return one line of the table: BLEU of all tasks, then FLOPs of all tasks, as the paper has them."""
    is_ours, tasks = row["by"] == "ours", runs["task"].unique()
    own = runs[(runs["experiment"].map(system_name) == row["model"]) & is_ours]
    line = {"Model": row["model"], "From": row["by"]}
    seeds = ["0" if pd.isna(count) else str(count) for count in (row[f"{task}_seeds"] for task in tasks)]
    line["Seeds"] = one_or_each(seeds) if is_ours else ""
    steps = [str(count) for count in (row[f"{task}_steps"] for task in tasks) if pd.notna(count)]
    line["Steps"] = one_or_each([f"{int(count):,}" for count in steps] if is_ours else steps)
    for task in tasks:
        line |= bleu_cells(row, task, own[own["task"] == task], compared)
    for task in tasks:
        line[f"{task.upper()} FLOPs"] = ours(flops_text(row[f"{task}_flops"]), own[own["task"] == task])
    return line


def one_or_each(texts: list[str]) -> str:
    """Return the one text, or where tasks differ one for each, in their order."""
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)


def bleu_cells(row: dict, task: str, runs: pd.DataFrame, compared: bool) -> Row:
    """Return BLEU of one task by each measure, its interval, and if `compared` the difference from the paper's."""
    line = {
        heading: ours(mean_text(row[f"{task}_{measure}"], row[f"{task}_{measure}_sd"], 1), runs)
        for measure, heading in MEASURES.items()
    }
    low, high, papers, difference = (row[f"{task}_{name}"] for name in ("low", "high", "paper", "difference"))
    line["95 %"] = interval_cell(low, high, runs)
    if compared:
        line["− paper"] = difference_cell(difference, papers, low, high, runs)
    return {f"{task.upper()} {heading}": cell for heading, cell in line.items()}
