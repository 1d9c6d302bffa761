"""Table 3 (§6.2): variations on the base model, our numbers beside the paper's.

Ours are of the dev set and of each run's last checkpoint alone: §6.2 averages none.
"""

from importlib.metadata import version
from pathlib import Path

import pandas as pd

from transformer.bleu import paper_reference, paper_tokens
from transformer.files import InputError, sha256
from transformer.scorefiles import gaps, interval, ladder, ours, provenance, read_printed, read_scores, require_one
from transformer.significance import RESAMPLES, SEED, p_value
from transformer.tables import Row, Table, difference_text, interval_text, mean_text
from transformer.text import read_lines

PRINTED = ["perplexity", "bleu", "parameters"]  # by the paper, which leaves some blank

LEVEL = 0.05
MARK = "†"
MARK_NOTE = (
    f"{MARK} cannot be told from base: p ≥ {LEVEL} for equal BLEU (column p of the CSV file), by sacreBLEU "
    f"{version('sacrebleu')}'s paired bootstrap resampling, {RESAMPLES:,} resamples with seed {SEED}. The sentences of "
    "all seeds that both have are laid end to end. Equal BLEU has p = 1. The test knows the chance that lies in the "
    "choice of sentences, not the one in training: another seed alone can move a row from one side to the other."
)
DIFFERENCE_NOTE = (
    "Against base: BLEU less base's, each in its own column, so that the paper's variations can be compared with ours "
    f"on other data. 95 %: where our BLEU lies on {RESAMPLES:,} test sets drawn from the sentences with replacement."
)


def read_variations(path: str | Path) -> pd.DataFrame:
    """What the paper printed, by experiment: row, changed and `PRINTED`, all text; errors as in `read_printed`."""
    columns = ["experiment", "row", "changed", *PRINTED]
    return read_printed(path, columns)[columns].set_index("experiment")


def read_runs(scores: list[str], hypotheses: list[str], reference: str) -> pd.DataFrame:
    """`read_scores` of one task's last checkpoints, with the file that each was computed on as `hyp`.

    Raises InputError as well where files are not those that were scored.
    """
    runs = read_scores(scores)
    require_one("task", runs)
    if len(hypotheses) != len(scores):
        raise InputError(f"expected a translation per score, found {len(hypotheses)} and {len(scores)}")
    runs["hyp"] = hypotheses
    if len(runs) and sha256(reference) != runs["ref_sha256"].iloc[0]:
        raise InputError(f"{reference}: expected the references of {scores[0]}, found others")
    for run in runs.itertuples():
        check_run(run)
    for _, of_experiment in runs.groupby("experiment"):
        require_one("steps", of_experiment)
        require_one("parameters", of_experiment)
    return runs


def check_run(run) -> None:
    """`run`, a row of `read_runs`, was evaluated, is not an average, and has its own translations."""
    if pd.isna(run.dev_perplexity):
        raise InputError(f"{run.file}, run: expected a dev_perplexity, found none")
    if run.averaged_steps != [run.steps]:
        raise InputError(f"{run.file}: expected a score of step {run.steps} alone, found one of {run.averaged_steps}")
    if sha256(run.hyp) != run.hyp_sha256:
        raise InputError(f"{run.hyp}: expected the translations that {run.file} is of, found others")


def p_values(runs: pd.DataFrame, reference: str) -> pd.Series:
    """By experiment, base left out: how likely its difference of BLEU from base is, were the two equal.

    runs: from `read_runs`. Left out as well are experiments that share no seed with base: all, where base was not run.
    """

    if "base" not in set(runs["experiment"]):
        return pd.Series(dtype=float)

    language = runs["language"].iloc[0]
    references = paper_reference(list(read_lines(reference)), language)
    translations = {
        experiment: {run.seed: paper_tokens(list(read_lines(run.hyp)), language) for run in of_experiment.itertuples()}
        for experiment, of_experiment in runs.groupby("experiment", sort=False)
    }
    base, found = translations.pop("base"), {}
    for experiment, of_seed in translations.items():
        if seeds := sorted(base.keys() & of_seed.keys()):
            sides = [[line for seed in seeds for line in side[seed]] for side in (base, of_seed)]
            found[experiment] = p_value(*sides, references * len(seeds))
    return pd.Series(found, dtype=float)


def table3(paper: pd.DataFrame, runs: pd.DataFrame, p: pd.Series) -> pd.DataFrame:
    """A row per experiment, by its name: those of `paper` in its order, then any of our own.

    paper: from `read_variations`; runs: from `read_runs`; p: from `p_values`. Columns: row and changed; the paper's
    cells as `paper_bleu` and so on; of ours the means over seeds with their standard deviations (`bleu`, `bleu_sd`),
    95 % interval (`low`, `high`), parameters, steps, number of seeds, and p; and by how much BLEU is above base's
    (`difference`), the paper's above its base's (`paper_difference`), and ours above the paper's (`from_paper`).
    """
    found = runs.groupby("experiment", sort=False).agg(
        perplexity=("dev_perplexity", "mean"),
        perplexity_sd=("dev_perplexity", "std"),
        bleu=("bleu", "mean"),
        bleu_sd=("bleu", "std"),
        sacrebleu=("sacrebleu", "mean"),
        sacrebleu_sd=("sacrebleu", "std"),
        parameters=("parameters", "first"),
        steps=("steps", "first"),
        seeds=("seed", "count"),
    )
    intervals = {experiment: interval(seeds) for experiment, seeds in runs.groupby("experiment")}
    limits = pd.DataFrame.from_dict(intervals, orient="index", columns=["low", "high"])
    printed = paper.rename(columns={column: f"paper_{column}" for column in PRINTED})
    experiments = [*printed.index, *found.index.difference(printed.index, sort=False)]
    table = printed.reindex(experiments, fill_value="").join(found.join(limits).assign(p=p))
    numbers = pd.to_numeric(table["paper_bleu"])
    table["difference"] = table["bleu"] - table["bleu"].get("base", float("nan"))
    table["paper_difference"] = numbers - numbers.get("base", float("nan"))
    table["from_paper"] = table["bleu"] - numbers
    return table.astype(dict.fromkeys(["parameters", "steps", "seeds"], "Int64"))


def table3_for_readers(
    table: pd.DataFrame, runs: pd.DataFrame, label: str, shrunk: tuple[int, int], expected: list[str]
) -> Table:
    """`table`, and under it how each number was computed and where it came from; `expected` names all its runs.

    label: the dev set behind ours. shrunk: what the scale divides the paper's widths and depths by.
    """
    caption = (
        "Variations on the base model: perplexity per subword (PPL) and BLEU of the dev set, and millions of "
        f"parameters. “paper” is what the paper printed, for newstest2013. “ours” are {label}, by the last checkpoint "
        "alone, without averaging (§6.2); ± is the standard deviation over seeds."
    )
    rows = [table3_cells(row, runs) for row in table.reset_index().to_dict("records")]
    notes = [*gaps(expected, runs), MARK_NOTE, DIFFERENCE_NOTE]
    notes += [] if shrunk == (1, 1) else [shrinking_note(*shrunk)]
    if len(runs):
        base = runs[runs["experiment"] == "base"]
        notes += ["How base was scored (* is the variant in the table):", ladder(base)] if len(base) else []
        notes += ["Where ours come from:", provenance(runs)]
    return Table("table3", caption, rows, notes)


def table3_cells(row: dict, runs: pd.DataFrame) -> Row:
    """One line of the table, each of the paper's cells beside ours."""
    of_row = runs[runs["experiment"] == row["experiment"]]
    is_base = row["experiment"] == "base"
    ours_above = "" if is_base else difference_text(row["difference"], 1) + (f" {MARK}" if row["p"] >= LEVEL else "")
    return {
        "Row": row["row"],
        "Experiment": row["experiment"],
        "Changed": row["changed"],
        "PPL, paper": row["paper_perplexity"],
        "PPL, ours": ours(mean_text(row["perplexity"], row["perplexity_sd"], 2), of_row),
        "BLEU, paper": row["paper_bleu"],
        "BLEU, ours": ours(mean_text(row["bleu"], row["bleu_sd"], 1), of_row),
        "95 %": interval_text(row["low"], row["high"], 1),
        "Against base, paper": "" if is_base else difference_text(row["paper_difference"], 1),
        "Against base, ours": ours_above,
        "sacreBLEU, ours": ours(mean_text(row["sacrebleu"], row["sacrebleu_sd"], 1), of_row),
        "Parameters, paper": row["paper_parameters"],
        "Parameters, ours": ours(count_text(row["parameters"], 1e6, 3), of_row),
        "Seeds": count_text(row["seeds"], 1, 0),
        "Steps": count_text(row["steps"], 1, 0),
    }


def count_text(count: int, unit: float, decimals: int) -> str:
    """`65.126`, or `100,000` where the unit is 1; blank for an experiment that was not run."""
    return "" if pd.isna(count) else f"{count / unit:,.{decimals}f}"


def shrinking_note(width: int, depth: int) -> str:
    """What the rows' values mean at a scale that is not the paper's."""
    return (
        f"The changed values are the paper's. This scale divides d_model, d_ff, d_k and d_v by {width} and N by "
        f"{depth}, and may set further values of its own (`scales` in config.yaml), so that two rows can be one model."
    )
