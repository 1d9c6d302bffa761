"""Notes under tables of scores: how ours were computed, by which runs, and which runs are missing."""

from collections.abc import Iterable, Mapping

import pandas as pd

from transformer.evaluation.significance import RESAMPLES, SEED
from transformer.report.tables.cells import WITHIN, averaged_text, flops_text, mean_text, ours
from transformer.report.tables.render import Grid

MEASURES = {"bleu": "BLEU", "sacrebleu": "sacreBLEU"}  # of scoring/scorefiles.py, with their headings

INTERVAL_NOTE = (
    f"95 %: where the score lies on {RESAMPLES:,} test sets drawn from the sentences with replacement. It knows "
    "nothing of the chance in training."
)
DIFFERENCE_NOTE = (
    f"− paper: ours less the paper's; {WITHIN} says no more than that the paper's score lies in that interval: it is "
    "no test."
)
CHANCE_NOTE = (
    "p, two-sided: how likely so large a difference is if both are equal. It knows the chance in the choice of "
    f"sentences, by paired bootstrap resampling, {RESAMPLES:,} draws with seed {SEED}. Between different trainings it "
    "also knows the chance in training, by Student's t: how far seeds are apart, pooled over the two and base, and "
    "taken to be the same for all rows. Few seeds tell little of that, so that only large differences have a small p. "
    "There is no p, and no verdict, where neither of the two nor base has two seeds: how far another seed would move "
    "the difference is then unknown. Two ways to use the same trainings are compared training by training; with a "
    "single one, p is about that trained model, and another may answer otherwise."
)
PERPLEXITY_NOTE = (
    "Perplexities can be compared only over the same subwords: those of our rows with each other, but not with the "
    "paper's, whose vocabulary is another."
)


def tests_note(p: pd.Series, level: float) -> str:
    """Return how many of these differences are tested, and what that does to p; `p` of each, NaN without a test."""
    tests = int(p.notna().sum())
    return (
        f"Tested differences: {tests} of {len(p)}. If nothing made any difference, about one test in {1 / level:.0f} "
        f"would have p < {level}. Column p_holm of the CSV file has Holm's p, which allows for their number. "
        "Tests against base share base's seeds: luck in these marks many rows at once."
    )


def interval_notes(compared: bool) -> list[str]:
    """Return what the interval is, and if ours are compared with the paper's, what that difference is."""
    return [INTERVAL_NOTE, DIFFERENCE_NOTE] if compared else [INTERVAL_NOTE]


def missing(expected: list[str], present: Iterable[str]) -> list[str]:
    """Return those of the expected runs that are not present."""
    names = set(present)
    return [name for name in expected if name not in names]


def gaps(expected: list[str], runs: pd.DataFrame) -> list[str]:
    """Return a paragraph that names the missing runs, or none where all are there."""
    names = ", ".join(missing(expected, runs["name"]))
    return [f"Not in this table, as these runs have not been made: {names}."] if names else []


def ladder(runs: pd.DataFrame) -> Grid:
    """Return a row per task and variant of the score: its mean over seeds for each experiment, and its signature."""
    rows = []
    for task, of_task in runs.groupby("task", sort=False):
        for name, first in of_task["variants"].iloc[0].items():
            row = {"Task": task.upper(), "Variant": name + (" *" if name == of_task["paper"].iloc[0] else "")}
            for experiment in runs["experiment"].unique():
                same = of_task[of_task["experiment"] == experiment]
                scores = pd.Series([variants[name]["score"] for variants in same["variants"]], dtype=float)
                row[experiment] = ours(mean_text(scores.mean(), scores.std(), 2), same)
            rows.append(row | {"Signature": f"`{first['signature']}`"})
    return Grid(("Task", "Variant", "Signature"), rows)


def provenance(runs: pd.DataFrame, measures: Mapping[str, str] = MEASURES) -> Grid:
    """Return a row per run: these measures under their headings, and how and where it was trained."""
    rows = [
        {
            "Run": run.name,
            **{heading: mean_text(getattr(run, measure), float("nan"), 2) for measure, heading in measures.items()},
            "FLOPs": flops_text(run.flops),
            "Steps": f"{run.steps:,}",
            "Averaged": averaged_text(run.averaged_steps),
            "Decoding": ", ".join(f"{key} {run.decoding[key]}" for key in ("beam", "alpha", "extra_length")),
            "Seconds": f"{run.seconds:,.0f}",
            "Hardware": run.hardware,
            "Fidelity": run.fidelity,
            "Commit": run.commit[:12],
            "Digest": run.digest[:12],
            "Data": run.data_sha256[:12],
        }
        for run in runs.itertuples(index=False)
    ]
    return Grid(("Run", "Averaged", "Decoding", "Hardware", "Fidelity", "Commit", "Digest", "Data"), rows)
