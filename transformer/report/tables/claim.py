"""The test of the paper's first claim (§1, §6.1) below Table 2: base is better and cheaper than other architectures."""

from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from transformer.evaluation.analyses.lengths import ByLength
from transformer.evaluation.analysis import entries
from transformer.evaluation.significance import INCONCLUSIVE, RESAMPLES, TRANSLATES, holm, verdict
from transformer.layout import Run
from transformer.report.tables import cells
from transformer.report.tables.render import Row
from transformer.storage.records import read_metrics

EQUAL_COSTS = {"flops": "FLOPs", "seconds": "seconds"}


def read_costs(metrics: list[str], runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Read each run's `dev_bleu` by step with its cumulative `flops` and `seconds`, starting with BLEU 0 at step 0.

    All steps of a run have equal FLOPs. Seconds are interpolated between log entries and summed over processes.
    """
    logs, costs = {Run(path.parent).name: path for path in map(Path, metrics)}, {}
    for run in runs[runs["name"].isin(list(logs))].to_dict("records"):
        log = pd.DataFrame(read_metrics(logs[run["name"]]), columns=["step", "dev_bleu", "seconds"], dtype=float)
        timed, scored = log.dropna(subset="seconds"), log.dropna(subset="dev_bleu")
        if len(scored):
            curve = pd.DataFrame({"step": [0, *scored["step"]], "dev_bleu": [0, *scored["dev_bleu"]]}, dtype=float)
            curve["flops"] = curve["step"] * (run["flops"] / run["steps"])
            seconds = np.interp(curve["step"], [0, *timed["step"]], [0, *timed["seconds"]])
            costs[run["name"]] = curve.assign(seconds=seconds * run["processes"])
    return costs


def read_long(lengths: list[str]) -> pd.DataFrame:
    """Read each run's BLEU of the longest quarter of the dev sentences, with its bootstrap samples and mean length."""
    columns = ["task", "experiment", "name", "times", "tokens", "bleu", "draws"]
    groups = entries(ByLength().read(lengths), "groups").reindex(columns=columns)
    return groups[groups["times"].isna()].groupby("name").tail(1)


def verdicts(
    runs: pd.DataFrame, costs: dict[str, pd.DataFrame], long: pd.DataFrame, architectures: dict[str, str]
) -> list[Row]:
    """Compare base with each row of another architecture. Return a line per task and part of the claim.

    Without a Transformer as base, there are no lines.
    """
    transformers = [name for name, architecture in architectures.items() if architecture == "transformer"]
    rows: list[Row] = []
    tested: list[tuple[str, float]] = []  # the set and p of each row
    others = runs[~runs["experiment"].isin(transformers)]
    for (task, experiment), other in others.groupby(["task", "experiment"], sort=False):
        of_task = runs[runs["task"] == task]
        base = of_task[of_task["experiment"].isin({"base"} & set(transformers))]
        steps = " and ".join(dict.fromkeys(f"{each['steps'].mean():,.0f}" for each in (base, other)))
        learned = base["bleu"].mean() >= TRANSLATES <= other["bleu"].mean()  # only comparable if both have learned
        parts = [(f"steps: {steps}; test", base, other, of_task)]
        of_length = [long[(long["task"] == task) & (long["experiment"] == name)] for name in ("base", experiment)]
        if all(map(len, of_length)):
            tokens = of_length[0]["tokens"].mean()
            parts.append((f"steps, longest quarter of the sentences ({tokens:.0f} subwords); dev", *of_length, None))
        parts += [_at_equal(cost, pd.concat([base, other]), costs) for cost in EQUAL_COSTS]
        for equal, own, against, pool in parts if len(base) else []:
            texts, names, p = ("not run", ""), "", nan
            if len(own) and len(against):
                found = cells.paired(own, against, pool)
                value, low, high = (cells.difference_text(each, 1) for each in found[2:5])
                interval = "" if found.low == found.high else f" ({low} to {high})"  # one seed's dev BLEU has none
                texts = verdict("higher", found) if learned else INCONCLUSIVE, value + interval
                names, p = found.runs, found.p
            row = {"Compared": f"{task.upper()}: `base` − `{experiment}`", "At equal": equal}
            measured = zip(("Verdict", "Difference"), texts, strict=True)
            rows.append(row | {heading: cells.ours(text, names) for heading, text in measured})
            tested.append((equal.rpartition("; ")[2], p))
    frame = pd.DataFrame(tested, columns=["set", "p"])
    corrected = zip(rows, frame["p"], frame.groupby("set")["p"].transform(holm), strict=True)
    return [row | {"p (Holm)": replace(row["Verdict"], text=cells.p_text(p, other))} for row, p, other in corrected]


def _at_equal(
    cost: str, both: pd.DataFrame, costs: dict[str, pd.DataFrame]
) -> tuple[str, pd.DataFrame, pd.DataFrame, None]:
    """Return runs of both systems with dev BLEU at the cost of the cheapest training. Seconds need equal hardware."""
    both = both[both["name"].isin(list(costs))]
    if cost == "seconds":
        both = both[both.groupby("hardware")["experiment"].transform("nunique") == 2]
        both = both[both["hardware"].isin(both["hardware"].mode()[:1])]  # the most frequent hardware
    curves = [costs[name] for name in both["name"]]
    # Rounded, because further digits depend on the processor.
    budget = round(min((curve[cost].iloc[-1] for curve in curves), default=0.0), 6)
    scores = [float(np.interp(budget, curve[cost], curve["dev_bleu"])) for curve in curves]
    # Dev BLEU has no bootstrap samples, so p accounts for seed variance only.
    both = both.assign(bleu=scores, draws=[[score] * RESAMPLES for score in scores])
    at = cells.flops_text(budget) if cost == "flops" else f"{budget:,.0f} on {' '.join(both['hardware'].unique())}"
    own = both["experiment"] == "base"
    return f"{EQUAL_COSTS[cost]}: {at if curves else 'nothing to compare'}; dev", both[own], both[~own], None
