"""Table 4 (§6.3): labelled bracketing F1 of the paper's parsers, and of ours on the trees that are at hand.

Runs that differ only in their seed are averaged.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TypedDict

import pandas as pd

from transformer.commandline import compared_arguments, json_object
from transformer.evaluation.records import Parsed, read_of_run, run_name
from transformer.evaluation.scorefiles import RUN, check_runs, require_one
from transformer.files import InputError
from transformer.parsing.brackets import SHORT
from transformer.records import typed
from transformer.report.tables.cells import Cell, Row, difference_cell, interval, interval_cell, mean_text, ours
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.notes import gaps, interval_notes, provenance
from transformer.report.tables.render import Grid, Note, Table

TITLE = "Table 4: parsing"
NAMES = ("Parser", "Training")
WORDS = (*NAMES, "From", "Learned from", "Test trees")
FRONT = (*NAMES, "From", "F1", "95 %", "− paper")

# What is averaged over seeds: percentages, then numbers of sentences.
MEANS = ["f1", "recall", "precision", "f1_short", "f1_without_repair", "f1_evalb", "tagging"]
MEANS += ["repaired", "errors_evalb"]

# How the paper names the training of its two parsers.
WSJ, SEMI_SUPERVISED = "WSJ only, discriminative", "semi-supervised"

BEHIND_NOTE = "Our rows: what they learned from, and more of their scores. The paper printed no more of its own."
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
    "semi-supervised row stands in for them by self-training, unless “Learned from” says otherwise: the supervised "
    "parser labels plain text, the trees that it is surest of are kept, and a new parser learns from both."
)
PAPERS_NOTE = "The paper's, for the difference, is its Transformer with the same kind of training."


class Learned(TypedDict):
    """A parsing task, as --task describes it."""

    training: str
    label: str
    silver: bool


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--task", required=True, type=json_object, help="JSON: our tasks, one a row")
    parser.add_argument("--constrained", required=True, metavar="JSON", nargs="*", help="theirs, by constrained search")
    parser.add_argument("--elsewhere", metavar="JSON", nargs="*", help="score files of the same runs on other trees")
    parser.add_argument("--elsewhere-label", metavar="TEXT", help="names those trees")
    compared_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    """Return the table for readers, and the frame behind it. Raises InputError on a score of an unknown task."""
    if (not args.elsewhere) != (args.elsewhere_label is None):
        raise InputError("--elsewhere and --elsewhere-label go together")
    for name, entry in args.task.items():
        typed(entry, Learned, f"--task: {name}")
    runs = read_parses(args.score)
    others = {"constrained": read_parses(args.constrained)}
    if args.elsewhere:
        others["elsewhere"] = read_parses(args.elsewhere)
    for task in runs["task"]:
        if task not in args.task:
            raise InputError(f"expected scores of {', '.join(args.task)}, found one of {task}")
    frame = parsers(read_parsers(args.paper), runs, others, args.task, args.data_of_paper)
    return for_readers(frame, runs, args.elsewhere_label, args.task, args.expected), frame


def read_parsers(path: str | Path) -> pd.DataFrame:
    """Return what the paper printed, all text: parser, by ("published" or "paper"), training, f1.

    Errors as in `read_csv`.
    """
    table = read_csv(path, ["parser", "system", "training", "f1"])
    table["by"] = table.pop("system").replace("transformer", "paper")
    return table


def read_parses(paths: list[str]) -> pd.DataFrame:
    """Return a row per score file (evalb --gold-tags --parses --run --json): `MEANS`, sentences, and `RUN`.

    Raises InputError where a file is not a whole score of a parser's run, and where files do not belong in one table.
    """
    columns = ["file", "name", "gold_sha256", "draws", "sentences", *MEANS, *RUN]
    runs = pd.DataFrame([read_parse(path) for path in paths], columns=columns)
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("gold_sha256", of_task)
    return runs


def read_parse(path: str) -> dict:
    score = read_of_run(path, Parsed)
    run, every, strict = score["run"], score["scores"]["all"], score["strict"]["all"]
    row = {key: run[key] for key in RUN} | {key: score[key] for key in ("gold_sha256", "draws")}
    row |= {name: every[name] for name in ("f1", "recall", "precision", "tagging", "sentences")}
    row |= {
        "f1_short": score["scores"]["len40"]["f1"],
        "f1_without_repair": score["without_repair"]["all"]["f1"],
        "f1_evalb": strict["f1"],
        "errors_evalb": strict["errors"],
        "repaired": len(score["repaired"]),
    }
    return row | {"file": path, "name": run_name(run)}


def parsers(
    paper: pd.DataFrame,
    runs: pd.DataFrame,
    others: dict[str, pd.DataFrame],
    tasks: dict[str, dict],
    data_of_paper: bool,
) -> pd.DataFrame:
    """Return a row per parser: `paper` from `read_parsers`, then ours from `read_parses`, by their `tasks`.

    tasks: by name, what each learned from (`training`), is tested on (`label`), and whether it also learned from trees
    that no person made (`silver`). others: other scores of the same runs by name: constrained and, on other trees,
    elsewhere. Columns: parser, by, training, label, means over seeds with their standard deviations (`f1`, `f1_sd`),
    95 % interval of F1 (`low`, `high`), the paper's of the same training (`paper`) and, if the data are the paper's,
    the difference from it, sentences, steps, parameters, seeds, runs, and for each of the others its F1
    (`f1_constrained`). The paper's cells are text, as it printed them.
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
        rows.loc[task, "paper"] = printed[SEMI_SUPERVISED if tasks[task]["silver"] else WSJ]
        difference = rows.loc[task, "f1"] - rows.loc[task, "paper"]
        # The paper's silver trees are not public: whatever learns from others has other data.
        same_data = data_of_paper and not tasks[task]["silver"]
        rows.loc[task, "difference"] = difference if same_data else float("nan")
    rows["training"] = [tasks[task]["training"] for task in rows.index]
    rows["label"] = [tasks[task]["label"] for task in rows.index]
    frame = pd.concat([paper, rows.reset_index().assign(parser="Transformer", by="ours")], ignore_index=True)
    order = ["parser", "by", "training", "label", *(c for name in MEANS for c in (name, f"{name}_sd"))]
    rest = [column for column in frame if column not in order]
    return frame[order + rest].astype(dict.fromkeys(["sentences", "steps", "parameters", "seeds"], "Int64"))


def for_readers(
    frame: pd.DataFrame, runs: pd.DataFrame, elsewhere: str | None, tasks: dict[str, dict], expected: list[str]
) -> Table:
    """Return the table, with notes on how ours were computed and where they came from.

    elsewhere: the name of the other trees, if there are any. expected: all runs that should be there, by name.
    """
    labels = " and ".join(dict.fromkeys(task["label"] for task in tasks.values()))
    caption = (
        "English constituency parsing: labelled bracketing F1. “published” and “paper” are what the paper printed, for "
        f"section 23 of the Wall Street Journal's trees in the Penn Treebank. “ours” are of {labels}, and can be "
        "compared with the paper's on the same trees alone; ± is the standard deviation over seeds."
    )
    compared = "difference" in frame and bool(frame["difference"].notna().any())
    rows = [cells(row, elsewhere, runs, compared) for row in frame.to_dict("records")]
    grid, further = Grid(WORDS, rows).split(NAMES, rows[0].keys() - set(FRONT))
    own = [row for row, by in zip(further.rows, frame["by"], strict=True) if by == "ours"]
    notes: list[Note] = [BEHIND_NOTE, Grid(WORDS, own), REPAIR_NOTE] if own else []
    notes += [SILVER_NOTE] if any(task["silver"] for task in tasks.values()) else []
    notes += [*gaps(expected, runs), *interval_notes(compared), *[PAPERS_NOTE] * compared, SCORING_NOTE]
    if len(runs):
        measures = {"f1": "F1", "f1_short": f"F1, ≤ {SHORT} words", "tagging": "Tagging"}
        notes += ["Where ours come from:", provenance(runs, measures)]
    return Table("table4", TITLE, caption, grid, notes)


def cells(row: dict, elsewhere: str | None, runs: pd.DataFrame, compared: bool) -> Row:
    """Return one line of the table; what ours learned from is named by their task, as the words for it may be many."""
    is_ours = row["by"] == "ours"
    own = runs[runs["task"] == row["task"]] if is_ours else runs[:0]
    papers, low, high, difference = (row.get(name) for name in ("paper", "low", "high", "difference"))

    def cell(name: str) -> Cell:
        return ours(mean_text(row.get(name), row.get(f"{name}_sd"), 1), own)

    line = {
        "Parser": row["parser"],
        "Training": row["task"] if is_ours else row["training"],
        "From": row["by"],
        "Learned from": row["training"],
        "Test trees": row["label"],
        "F1": cell("f1"),
        "95 %": interval_cell(low, high, own),
        **({"− paper": difference_cell(difference, papers, low, high, own)} if compared else {}),
        "Recall": cell("recall"),
        "Precision": cell("precision"),
        "Repaired": ours(f"{row['repaired']:g} of {row['sentences']:,}", own) if is_ours else "",
        "F1 without repair": cell("f1_without_repair"),
        "F1, constrained": cell("f1_constrained"),
        "F1, EVALB": ours(f"{cell('f1_evalb')} ({row['errors_evalb']:g} left out)", own) if is_ours else "",
    }
    if elsewhere:
        line[f"F1, constrained, on {elsewhere}"] = cell("f1_elsewhere")
    return line | {"Seeds": f"{row['seeds']}" if is_ours else ""}
