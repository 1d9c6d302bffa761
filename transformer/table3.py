"""Table 3 (§6.2): variations on the base model, our numbers beside the paper's.

Ours are of the dev set and of each run's last checkpoint alone: §6.2 averages none.
"""

from importlib.metadata import version
from pathlib import Path

import pandas as pd

from transformer.bleu import paper_tokens
from transformer.files import InputError, sha256
from transformer.significance import RESAMPLES, SEED, p_value
from transformer.tables import markdown, mean_text, provenance, read_printed, read_scores, require_one, signatures
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


def read_variations(path: str | Path) -> pd.DataFrame:
    """What the paper printed, by experiment: row, changed and `PRINTED`, all text; errors as in `read_printed`."""
    columns = ["experiment", "row", "changed", *PRINTED]
    return read_printed(path, columns)[columns].set_index("experiment")


def read_runs(scores: list[str], hypotheses: list[str], reference: str) -> pd.DataFrame:
    """`read_scores` of one task's last checkpoints, with the file that each was computed on as `hyp`.

    Raises InputError as well where files are not those that were scored, and where there is no base to compare with.
    """
    runs = read_scores(scores)
    require_one("task", runs)
    if len(hypotheses) != len(scores):
        raise InputError(f"expected a translation per score, found {len(hypotheses)} and {len(scores)}")
    runs["hyp"] = hypotheses
    if sha256(reference) != runs["ref_sha256"].iloc[0]:
        raise InputError(f"{reference}: expected the references of {scores[0]}, found others")
    if "base" not in set(runs["experiment"]):
        raise InputError(f"expected a score of the experiment base, found {', '.join(runs['experiment'].unique())}")
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

    runs: from `read_runs`. Left out as well are experiments that share no seed with base.
    """

    def words(path: str) -> list[str]:
        return paper_tokens(list(read_lines(path)), runs["language"].iloc[0])

    references = words(reference)
    translations = {
        experiment: {run.seed: words(run.hyp) for run in of_experiment.itertuples()}
        for experiment, of_experiment in runs.groupby("experiment", sort=False)
    }
    base = translations.pop("base")
    found = {}
    for experiment, of_seed in translations.items():
        if seeds := sorted(base.keys() & of_seed.keys()):
            sides = [[line for seed in seeds for line in side[seed]] for side in (base, of_seed)]
            found[experiment] = p_value(*sides, references * len(seeds))
    return pd.Series(found, dtype=float)


def table3(paper: pd.DataFrame, runs: pd.DataFrame, p: pd.Series) -> pd.DataFrame:
    """A row per experiment, by its name: those of `paper` in its order, then any of our own.

    paper: from `read_variations`; runs: from `read_runs`; p: from `p_values`. Columns: row and changed; the paper's
    cells as `paper_bleu` and so on; of ours the means over seeds with their standard deviations (`bleu`, `bleu_sd`),
    parameters, steps, number of seeds, and p.
    """
    ours = runs.groupby("experiment", sort=False).agg(
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
    printed = paper.rename(columns={column: f"paper_{column}" for column in PRINTED})
    experiments = [*printed.index, *ours.index.difference(printed.index, sort=False)]
    table = printed.reindex(experiments, fill_value="").join(ours.assign(p=p))
    return table.astype(dict.fromkeys(["parameters", "steps", "seeds"], "Int64"))


def table3_markdown(table: pd.DataFrame, runs: pd.DataFrame, label: str, width: int, depth: int) -> str:
    """`table` for readers, and under it how each number was computed and where it came from.

    label: the dev set behind ours. width, depth: what the scale divides the paper's models by.
    """
    caption = (
        "**Table 3.** Variations on the base model: perplexity per subword (PPL) and BLEU of the dev set, and millions "
        f"of parameters. “paper” is what the paper printed, for newstest2013. “ours” are {label}, by the last "
        "checkpoint alone, without averaging (§6.2); ± is the standard deviation over seeds."
    )
    cells = [table3_cells(row) for row in table.reset_index().to_dict("records")]
    notes = [MARK_NOTE] if width == depth == 1 else [MARK_NOTE, shrinking_note(width, depth)]
    parts = [caption, markdown(cells), *notes, "How ours were scored:", signatures(runs)]
    return "\n\n".join([*parts, "Where ours come from:", provenance(runs)]) + "\n"


def table3_cells(row: dict) -> dict[str, str]:
    """One line of the Markdown table, each of the paper's cells beside ours."""
    return {
        "Row": row["row"],
        "Experiment": row["experiment"],
        "Changed": row["changed"],
        "PPL, paper": row["paper_perplexity"],
        "PPL, ours": mean_text(row["perplexity"], row["perplexity_sd"], 2),
        "BLEU, paper": row["paper_bleu"],
        "BLEU, ours": mean_text(row["bleu"], row["bleu_sd"], 1) + (f" {MARK}" if row["p"] >= LEVEL else ""),
        "sacreBLEU, ours": mean_text(row["sacrebleu"], row["sacrebleu_sd"], 1),
        "Parameters, paper": row["paper_parameters"],
        "Parameters, ours": count_text(row["parameters"], 1e6, 3),
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
