"""Table 4 (§6.3): labelled bracketing F1 of the paper's parsers, and of ours on the trees that are at hand."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from transformer.common.files import read_json
from transformer.parsing.brackets import SHORT
from transformer.scoring.scorefiles import check_runs, item, read_run, read_table, require_one, rows_of
from transformer.tables.cells import (
    DIFFERENCE_NOTE,
    Cell,
    Row,
    difference_cell,
    gaps,
    interval,
    interval_cell,
    mean_text,
    ours,
    provenance,
)
from transformer.tables.render import Table

# What is averaged over seeds: percentages, then numbers of sentences.
MEANS = ["f1", "recall", "precision", "f1_short", "f1_without_repair", "f1_evalb", "tagging"]
MEANS += ["repaired", "errors_evalb"]

# How the paper names the training of its two parsers.
WSJ, SEMI_SUPERVISED = "WSJ only, discriminative", "semi-supervised"

SCORING_NOTE = (
    "Ours are scored as EVALB does by COLLINS.prm, all sentence lengths, but for one thing: a word is punctuation "
    "where its tag in the treebank says so. EVALB goes by each tree's own tags, and leaves a whole sentence out where "
    "a wrong tag makes the numbers of words differ: “F1, EVALB” is its figure."
)
REPAIR_NOTE = (
    "Repaired: sentences for which the model wrote no tree over their words, but brackets that do not match, or "
    "another number of tags. Brackets are then closed or dropped, missing words tagged XX, and the tree counts like "
    "any other. “Without repair” counts these sentences as having no brackets. “Constrained” is F1 by a search that "
    "may write trees over the words only, which the paper does not say it did; only an output that ran into the limit "
    "on the length is repaired."
)
SILVER_NOTE = (
    "The paper's semi-supervised corpora, 17 million sentences with trees by other parsers, are not public. Our "
    "semi-supervised row stands in for them by self-training, unless its name says otherwise: the supervised parser "
    "labels plain text, the trees that it is surest of are kept, and a new parser learns from both."
)
PAPERS_NOTE = "The paper's, for the difference, is its Transformer with the same kind of training."


class Task(NamedTuple):
    """What config.yaml says of one of our rows."""

    training: str  # what it learned from
    label: str  # what it is tested on
    silver: bool  # whether also from trees that no person made


def read_parsers(path: str | Path) -> pd.DataFrame:
    """What the paper printed, all text: parser, by ("published" or "paper"), training, f1.

    Errors as in `read_table`.
    """
    table = read_table(path, ["parser", "system", "training", "f1"])
    table["by"] = table.pop("system").replace("transformer", "paper")
    return table


def read_parses(paths: list[str]) -> pd.DataFrame:
    """A row per score file (evalb --gold-tags --parses --run --json): `file`, the keys of its run, `MEANS`, sentences.

    Raises InputError where a file is not a whole score of a parser's run, and where files do not belong in one table.
    """
    runs = rows_of([read_parse(path) for path in paths], ["gold_sha256", "draws", "sentences", *MEANS])
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("gold_sha256", of_task)
    return runs


def read_parse(path: str) -> dict:
    """The row of one score file."""
    score = read_json(path)
    every, short = (item(item(score, "scores", path), part, f"{path}, scores") for part in ("all", "len40"))
    strict = item(item(score, "strict", path), "all", f"{path}, strict")
    row = {name: item(every, name, path) for name in ("f1", "recall", "precision", "tagging", "sentences")}
    return (
        {"file": path}
        | {key: item(score, key, path) for key in ("gold_sha256", "draws")}
        | read_run(score, path)
        | row
        | {
            "f1_short": item(short, "f1", path),
            "f1_without_repair": item(item(item(score, "without_repair", path), "all", path), "f1", path),
            "f1_evalb": item(strict, "f1", path),
            "errors_evalb": item(strict, "errors", path),
            "repaired": len(item(score, "repaired", path)),
        }
    )


def table4(
    paper: pd.DataFrame, runs: pd.DataFrame, others: dict[str, pd.DataFrame], tasks: dict[str, Task]
) -> pd.DataFrame:
    """A row per parser: `paper` from `read_parsers`, then ours from `read_parses`, by their `tasks`.

    others: other scores of the same runs by name: constrained and, on other trees, elsewhere. Columns: parser, by,
    training, label, means over seeds with their standard deviations (`f1`, `f1_sd`), 95 % interval of F1 (`low`,
    `high`), the paper's of the same training (`paper`) and the difference from it, sentences, steps, parameters, seeds,
    runs, and for each of the others its F1 (`f1_constrained`). The paper's cells are text, as it printed them.
    """
    rows = runs.groupby("task", sort=False).agg(
        **{name: (name, "mean") for name in MEANS},
        **{f"{name}_sd": (name, "std") for name in MEANS},
        **{name: (name, "first") for name in ("sentences", "steps", "parameters")},
        seeds=("seed", "count"),
        runs=("name", " ".join),
    )
    for name, scores in others.items():
        rows = rows.join(scores.groupby("task")["f1"].agg(**{f"f1_{name}": "mean", f"f1_{name}_sd": "std"}))
    printed = paper[paper["by"] == "paper"].set_index("training")["f1"].astype(float)
    for task, seeds in runs.groupby("task"):
        rows.loc[task, ["low", "high"]] = interval(seeds)
        rows.loc[task, "paper"] = printed[SEMI_SUPERVISED if tasks[task].silver else WSJ]
        rows.loc[task, "difference"] = rows.loc[task, "f1"] - rows.loc[task, "paper"]
    rows["training"] = [tasks[task].training for task in rows.index]
    rows["label"] = [tasks[task].label for task in rows.index]
    table = pd.concat([paper, rows.reset_index().assign(parser="Transformer", by="ours")], ignore_index=True)
    order = ["parser", "by", "training", "label", *(c for name in MEANS for c in (name, f"{name}_sd"))]
    rest = [column for column in table if column not in order]
    return table[order + rest].astype(dict.fromkeys(["sentences", "steps", "parameters", "seeds"], "Int64"))


def table4_for_readers(
    table: pd.DataFrame, runs: pd.DataFrame, elsewhere: str | None, tasks: dict[str, Task], expected: list[str]
) -> Table:
    """`table`, and under it how ours were computed and where they came from; `expected` names all runs.

    elsewhere: names the other trees, if there are any.
    """
    caption = (
        "English constituency parsing: labelled bracketing F1. “published” and “paper” are what the paper printed, for "
        "section 23 of the Wall Street Journal's trees in the Penn Treebank. “ours” are of the trees that their row "
        "names, and can be compared with the paper's on the same trees alone; ± is the standard deviation over seeds."
    )
    rows = [table4_cells(row, elsewhere, runs) for row in table.to_dict("records")]
    notes = [*gaps(expected, runs), DIFFERENCE_NOTE, PAPERS_NOTE, SCORING_NOTE, REPAIR_NOTE]
    notes += [SILVER_NOTE] if any(task.silver for task in tasks.values()) else []
    if len(runs):
        measures = {"f1": "F1", "f1_short": f"F1, ≤ {SHORT} words", "tagging": "Tagging"}
        notes += ["Where ours come from:", provenance(runs, measures)]
    return Table("table4", caption, rows, notes)


def table4_cells(row: dict, elsewhere: str | None, runs: pd.DataFrame) -> Row:
    """One line of the table."""
    is_ours = row["by"] == "ours"
    of_row = runs[runs["task"] == row["task"]] if is_ours else runs[:0]
    papers, low, high, difference = (row.get(name) for name in ("paper", "low", "high", "difference"))

    def cell(name: str) -> Cell:
        return ours(mean_text(row.get(name), row.get(f"{name}_sd"), 1), of_row)

    cells = {
        "Parser": row["parser"],
        "Training": row["training"],
        "From": row["by"],
        "Test trees": row["label"] if is_ours else "WSJ, section 23",
        "F1": cell("f1"),
        "95 %": interval_cell(low, high, of_row),
        "Difference": difference_cell(difference, papers, low, high, of_row),
        "Recall": cell("recall"),
        "Precision": cell("precision"),
        "Repaired": ours(f"{row['repaired']:g} of {row['sentences']:,}", of_row) if is_ours else "",
        "F1 without repair": cell("f1_without_repair"),
        "F1, constrained": cell("f1_constrained"),
        "F1, EVALB": ours(f"{cell('f1_evalb')} ({row['errors_evalb']:g} left out)", of_row) if is_ours else "",
    }
    if elsewhere:
        cells[f"F1, constrained, on {elsewhere}"] = cell("f1_elsewhere")
    return cells | {"Seeds": f"{row['seeds']}" if is_ours else ""}
