"""Table 3 (§6.2): variations on the base model, our numbers beside the paper's.

Ours are of the dev set and of each run's last checkpoint alone: §6.2 averages no checkpoints. Runs that differ only in
their seed are averaged.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pandas as pd

from transformer.commandline import compared_arguments, json_object
from transformer.evaluation.scorefiles import read_scores, require_one
from transformer.evaluation.significance import holm
from transformer.files import InputError
from transformer.report.tables.cells import (
    Cell,
    Row,
    difference_cell,
    difference_text,
    interval,
    interval_cell,
    mean_text,
    ours,
)
from transformer.report.tables.csvfiles import read_csv
from transformer.report.tables.differences import LEVEL, MARGIN, NO_VERDICT, TRANSLATES, Difference, paired, verdict
from transformer.report.tables.notes import (
    CHANCE_NOTE,
    PERPLEXITY_NOTE,
    gaps,
    interval_notes,
    ladder,
    provenance,
    tests_note,
)
from transformer.report.tables.render import Grid, Note, Table

TITLE = "Table 3: variations on the model"
NAMES = ("Row", "Experiment")
WORDS = (*NAMES, "Changed")
BEHIND = ("Changed", "sacreBLEU, ours", "Parameters, paper", "Parameters, ours", "Seeds", "Steps, paper", "Steps, ours")
BEHIND_NOTE = "The same rows: what each changes, sacreBLEU, millions of parameters, seeds and steps."

PRINTED = ["perplexity", "bleu", "parameters", "steps"]  # by the paper, which leaves some blank

MEASURED = {"perplexity": "dev_perplexity", "bleu": "bleu", "sacrebleu": "sacrebleu"}  # by ours, and where from
MEAN = {"": "mean", "_sd": "std"}  # over seeds

COMPARED = ["difference", "difference_low", "difference_high", "p"]  # with base
MARK, UNTESTED = "†", "?"
MARK_NOTE = (
    "− base: BLEU less base's, each in its own column, so that the paper's variations can be compared with ours on "
    f"other data; ours is between the means over all seeds. {MARK} cannot be told from base: p ≥ {LEVEL}. {UNTESTED} "
    f"no verdict: not tested, as p is missing. Without either: told from base, p < {LEVEL}. The CSV file has p, and as "
    "difference_low and difference_high the 95 % interval of the difference: by the same chances that p knows, or "
    "where p is missing, by the choice of sentences alone."
)
HERE = {"seen here": "seen", "not seen here": "not seen", "cannot be told": "open", NO_VERDICT: UNTESTED}
HERE_NOTE = (
    f"Here: whether the paper's difference from base is seen in ours. seen: ours is on the same side, p < {LEVEL}. "
    f"not seen: ours is on the other side, p < {LEVEL}; or its interval excludes a difference as large as the paper's, "
    f"of which at most {MARGIN:g} BLEU is asked for. open: anything else, and where neither has {TRANSLATES:g} BLEU. "
    f"{UNTESTED}: not tested."
)
SHRINKING_NOTE = (
    "The changed values are the paper's. This scale divides d_model, d_ff, d_k and d_v by {} and N by {}, so that two "
    "rows can be one model."
)
OWN_NOTE = "In place of the paper's values this scale has: {}."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--label", required=True, metavar="TEXT", help="the dev set behind our numbers")
    parser.add_argument("--width", required=True, type=int, help="what d_model, d_ff, d_k and d_v were divided by")
    parser.add_argument("--depth", required=True, type=int, help="what N was divided by")
    parser.add_argument(
        "--own",
        default={},
        type=json_object,
        metavar="JSON",
        help="by experiment, the values that the scale has in place of the paper's; those of base are all others', too",
    )
    compared_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    runs = read_runs(args.score)
    frame = variations(read_variations(args.paper), runs, args.data_of_paper)
    changes = changes_notes(frame, (args.width, args.depth), args.own)
    return for_readers(frame, runs, args.label, changes, args.expected), frame


def read_variations(path: str | Path) -> pd.DataFrame:
    """Return what the paper printed, by experiment: row, changed and `PRINTED`, all text; errors as in `read_csv`."""
    columns = ["experiment", "row", "changed", *PRINTED]
    return read_csv(path, columns)[columns].set_index("experiment")


def read_runs(scores: list[str]) -> pd.DataFrame:
    """Return the scores of one task's last checkpoints. Raises InputError where files are something else."""
    runs = read_scores(scores)
    require_one("task", runs)
    for run in runs.itertuples():
        if pd.isna(run.dev_perplexity):
            raise InputError(f"{run.file}, run: expected a dev_perplexity, found none")
        if run.averaged_steps != [run.steps]:
            expected = f"expected a score of step {run.steps} alone, found one of {run.averaged_steps}"
            raise InputError(f"{run.file}: {expected}")
    for _, of_experiment in runs.groupby("experiment"):
        require_one("steps", of_experiment)
        require_one("parameters", of_experiment)
    return runs


def from_base(runs: pd.DataFrame) -> dict[str, Difference]:
    """Return by experiment but base, if that was run, by how much its BLEU is above base's."""
    base = runs[runs["experiment"] == "base"]
    others = runs[runs["experiment"] != "base"] if len(base) else base
    return {experiment: paired(same, base) for experiment, same in others.groupby("experiment")}


def against_base(differences: dict[str, Difference]) -> pd.DataFrame:
    """Return `COMPARED` by experiment: its BLEU less base's, the interval and p; differences: from `from_base`."""
    rows = {experiment: (each.value, each.low, each.high, each.p) for experiment, each in differences.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=COMPARED)


def goes_the_same_way(ours: Difference | None, papers: float) -> str:
    """Return whether our difference from base is seen to go the paper's way; blank without one of them."""
    if ours is None or pd.isna(papers) or papers == 0:
        return ""
    return verdict("higher" if papers > 0 else "lower", ours, min(abs(papers), MARGIN))


def variations(paper: pd.DataFrame, runs: pd.DataFrame, data_of_paper: bool) -> pd.DataFrame:
    """Return a row per experiment, by its name: those of `paper` in its order, then any of our own.

    paper: from `read_variations`; runs: from `read_runs`. Columns: row and changed; the paper's cells as `paper_bleu`
    and so on; of ours the means over seeds with their standard deviations (`bleu`, `bleu_sd`), parameters, steps,
    number of seeds, the runs, 95 % interval (`low`, `high`), and by how much BLEU is above base's (`COMPARED`), with
    Holm's p (`p_holm`); then the paper's above its base's (`paper_difference`), whether that is seen in ours (`here`),
    and if the data are the paper's, ours above the paper's (`from_paper`).
    """
    means = runs.groupby("experiment", sort=False).agg(
        **{f"{name}{end}": (column, how) for name, column in MEASURED.items() for end, how in MEAN.items()},
        parameters=("parameters", "first"),
        steps=("steps", "first"),
        seeds=("seed", "count"),
        runs=("name", " ".join),
    )
    intervals = {experiment: interval(seeds) for experiment, seeds in runs.groupby("experiment")}
    limits = pd.DataFrame.from_dict(intervals, orient="index", columns=["low", "high"])
    printed = paper.rename(columns={column: f"paper_{column}" for column in PRINTED})
    experiments = [*printed.index, *means.index.difference(printed.index, sort=False)]
    frame = printed.reindex(experiments, fill_value="")
    numbers = pd.to_numeric(frame["paper_bleu"])
    frame["paper_difference"] = numbers - numbers.get("base", float("nan"))
    differences = from_base(runs)
    frame = frame.join(means.join([limits, against_base(differences)]))
    papers = frame["paper_difference"].items()
    frame["here"] = [goes_the_same_way(differences.get(experiment), paper) for experiment, paper in papers]
    frame["p_holm"] = holm(frame["p"])
    frame["from_paper"] = frame["bleu"] - numbers if data_of_paper else float("nan")
    return frame.astype(dict.fromkeys(["parameters", "steps", "seeds"], "Int64"))


def changes_notes(frame: pd.DataFrame, shrunk: tuple[int, int], own: dict[str, dict]) -> list[str]:
    """Return notes on what a scale changes of the paper's values; none where it changes nothing.

    frame: from `variations`. shrunk: what widths and depths are divided by. own: the scale's own values by experiment.
    """
    notes = [] if shrunk == (1, 1) else [SHRINKING_NOTE.format(*shrunk)]
    rows = [
        f"`{experiment}` {', '.join(f'{key}={value}' for key, value in values.items())}"
        for experiment, values in own.items()
        if values and experiment in frame.index
    ]
    return notes + ([OWN_NOTE.format("; ".join(rows))] if rows else [])


def for_readers(frame: pd.DataFrame, runs: pd.DataFrame, label: str, changes: list[str], expected: list[str]) -> Table:
    """Return the table, with notes on how each number was computed and where it came from.

    label: the dev set behind ours. changes: from `changes_notes`. expected: all runs that should be there, by name.
    """
    caption = (
        "Variations on the base model: perplexity per subword (PPL) and BLEU of the dev set. “paper” is what the paper "
        f"printed, for newstest2013. “ours” are {label}, by the last checkpoint alone, without averaging (§6.2); ± is "
        "the standard deviation over seeds."
    )
    compared = bool(frame["from_paper"].notna().any())
    rows = [cells(row, runs, compared) for row in frame.reset_index().to_dict("records")]
    grid, further = Grid(WORDS, rows).split(NAMES, BEHIND)
    notes: list[Note] = [BEHIND_NOTE, further, *changes]
    notes += [*gaps(expected, runs), *interval_notes(compared), MARK_NOTE, HERE_NOTE, CHANCE_NOTE]
    notes += [tests_note(frame["p"][frame["difference"].notna()], LEVEL), PERPLEXITY_NOTE]
    if len(runs):
        base = runs[runs["experiment"] == "base"]
        notes += ["How base was scored (* is the variant in the table):", ladder(base)] if len(base) else []
        notes += ["Where ours come from:", provenance(runs)]
    return Table("table3", TITLE, caption, grid, notes)


def cells(row: dict, runs: pd.DataFrame, compared: bool) -> Row:
    """Return one line of the table, each of the paper's cells beside ours; if `compared`, how far they are apart."""
    own = runs[runs["experiment"] == row["experiment"]]
    is_base, low, high = row["experiment"] == "base", row["low"], row["high"]
    difference = difference_cell(row["from_paper"], row["paper_bleu"], low, high, own)
    return {
        "Row": row["row"],
        "Experiment": row["experiment"],
        "Changed": row["changed"],
        "PPL, paper": row["paper_perplexity"],
        "PPL, ours": ours(mean_text(row["perplexity"], row["perplexity_sd"], 2), own),
        "BLEU, paper": row["paper_bleu"],
        "BLEU, ours": ours(mean_text(row["bleu"], row["bleu_sd"], 1), own),
        "95 %": interval_cell(low, high, own),
        **({"− paper": difference} if compared else {}),
        "− base, paper": "" if is_base else difference_text(row["paper_difference"], 1),
        "− base, ours": against_base_cell(row, runs),
        "Here": HERE.get(row["here"], ""),
        "sacreBLEU, ours": ours(mean_text(row["sacrebleu"], row["sacrebleu_sd"], 1), own),
        "Parameters, paper": row["paper_parameters"],
        "Parameters, ours": ours(count_text(row["parameters"], 1e6, 3), own),
        "Seeds": count_text(row["seeds"], 1, 0),
        "Steps, paper": row["paper_steps"],
        "Steps, ours": count_text(row["steps"], 1, 0),
    }


def against_base_cell(row: dict, runs: pd.DataFrame) -> Cell:
    """Return how much BLEU is above base's, marked where that may be chance or is not tested; blank without both."""
    if pd.isna(row["difference"]):
        return Cell("")
    behind = runs[runs["experiment"].isin(["base", row["experiment"]])]
    mark = UNTESTED if pd.isna(row["p"]) else MARK if row["p"] >= LEVEL else ""
    return ours(f"{difference_text(row['difference'], 1)} {mark}".rstrip(), behind)


def count_text(count: int, unit: float, decimals: int) -> str:
    """Return `65.126`, or `100,000` where the unit is 1; blank for an experiment that was not run."""
    return "" if pd.isna(count) else f"{count / unit:,.{decimals}f}"
