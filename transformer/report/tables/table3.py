"""Table 3 (§6.2): variations on the base model, measured twice.

On the dev set with the last checkpoints, because §6.2 does not average; and on the test set with averaged weights.
"""

import re
from collections.abc import Mapping
from math import isnan
from pathlib import Path

import pandas as pd

from transformer.evaluation import significance
from transformer.evaluation.scores import read_scores, require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Table, lay_out

_PRINTED_COLUMNS = ["perplexity", "bleu", "parameters", "steps"]  # of the paper, which has blank cells
_AVERAGED = {"perplexity": "dev_perplexity", "bleu": "bleu", "sacrebleu": "sacrebleu"}  # over seeds; source columns
TEST = "test_"  # begins the columns of the second measurement
_NO_VERDICTS = ("", significance.NOT_TESTABLE, significance.NO_EFFECT)


def table3(
    *,
    paper: str,
    score: list[str],
    test: list[str],
    label: str,
    dev_label: str,
    data_of_paper: bool,
    expected: list[str],
    values: dict[str, str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table. score, test: score files on the dev and the test set. values: settings by experiment."""
    runs, tested = read_last(score), read_last(test)
    frame = variations(read_variations(paper), runs, tested, data_of_paper)
    compared, base = bool(frame["from_paper"].notna().any()), runs[runs["experiment"] == "base"]
    columns = [column for column in _COLUMNS if compared or column.heading != "− paper"]
    rows = frame.assign(
        millions=frame["parameters"] / 1e6,
        papers=frame["paper_difference"].drop("base", errors="ignore"),
        values=[values.get(name, "") * (name != "base") for name in frame.index],
    ).reset_index()
    shown = {name.split("/")[1] for name in [*expected, *runs["name"]]}
    hidden = [name for name in frame.index if name not in shown] if len(runs) else []
    rows = rows[~rows["experiment"].isin(hidden)]
    found = _own_findings(frame) + _findings(frame, values)
    notes = [cells.note("table3", "reading", base=values["base"]), *[found] * bool(found)]
    notes += [*cells.fixed("scores.paper"), cells.note("table3", "detail"), lay_out(rows, columns, detail=True)]
    notes += [cells.note("table3", "hidden", names=", ".join(f"`{name}`" for name in hidden))] if hidden else []
    notes += cells.gaps(expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    notes += cells.fixed("table3.verdicts", "scores.chance")
    notes += cells.fixed("table3.few") if len(runs) - runs["experiment"].nunique() == 1 else []
    notes += cells.fixed("scores.perplexity")
    notes += [cells.note("table3", "base"), cells.ladder(base)] if len(base) else []
    notes += cells.provenance(runs)
    labels = {"label": dev_label, "test_label": label}
    return cells.captioned("table3", lay_out(rows, columns), notes, found, **labels), frame


def _against_base(prefix: str) -> Column:
    def cell(row: dict) -> Cell:
        ends = [cells.difference_text(row[f"{prefix}{name}"], 1) for name in _DIFFERENCE[:3]]
        return cells.ours("{} ({} to {})".format(*ends) if ends[0] else "", row[f"{prefix}pair"])

    return Column(f"− base, {_MEASUREMENTS[prefix]}", cell)


_DIFFERENCE = ("difference", "difference_low", "difference_high", "p")
_MEASUREMENTS = {"": "dev", TEST: "test"}
_COLUMNS = [
    Column("Experiment", "experiment", key=True),
    cells.verdict_column("dev", "verdict", "pair"),
    cells.verdict_column("test", f"{TEST}verdict", f"{TEST}pair"),
    _against_base(""),
    _against_base(TEST),
    Column("−\N{NO-BREAK SPACE}base, paper", lambda row: cells.difference_text(row["papers"], 1)),
    Column("Changed here", "values", text=True),
    Column("Row", "row", detail=True),
    Column("Changed in the paper", "changed", detail=True, text=True),
    Column("PPL, paper", "paper_perplexity", detail=True),
    Column("PPL, ours", cells.mean("perplexity", 2), detail=True),
    Column("BLEU, paper", "paper_bleu", detail=True),
    Column("BLEU, ours", cells.mean("bleu", 1), detail=True),
    Column("95 %", cells.interval_95(), detail=True),
    Column("− paper", cells.from_paper("from_paper", "paper_bleu"), detail=True),
    Column("sacreBLEU, ours", cells.mean("sacrebleu", 1), detail=True),
    Column("BLEU, test", cells.mean("bleu", 1, TEST), detail=True),
    cells.p_column("dev", "pair"),
    cells.p_column("test", f"{TEST}pair", TEST),
    Column("Parameters, paper", "paper_parameters", detail=True),
    Column("Parameters, ours", cells.mean("millions", 3), detail=True),
    Column("Seeds", "seeds", format="{:,}", detail=True),
    Column("Steps, paper", "paper_steps", detail=True),
    Column("Steps, ours", "steps", format="{:,}", detail=True),
]


def _own_findings(frame: pd.DataFrame) -> list[str]:
    """Describe the differences of a user's rows, which are not in the paper."""
    texts = []
    for experiment, row in frame[frame["paper_bleu"] == ""].to_dict("index").items():
        tests = [
            f"{measured} {cells.difference_text(row[f'{prefix}difference'], 1)} (p {cells.p_text(row[f'{prefix}p'])}), "
            f"{row[f'{prefix}verdict']}"
            for prefix, measured in _MEASUREMENTS.items()
            if not pd.isna(row[f"{prefix}p"])
        ]
        texts += [f"`{experiment}`: {'; '.join(tests)}"] if tests else []
    return [cells.note("table3", "own", listed=". ".join(texts))] if texts else []


def _findings(frame: pd.DataFrame, values: dict[str, str]) -> list[str]:
    """Count the verdicts on the paper's differences. Rows with another change of P_drop are counted separately."""

    def dropouts(texts: Mapping[str, str], name: str) -> list[float]:
        return list(map(float, re.findall(r"P_drop=([\d.]+)", f"{texts['base']}; {texts.get(name, '')}")))

    both = frame[~frame[["verdict", f"{TEST}verdict"]].isin(_NO_VERDICTS).any(axis=1) & (frame["paper_bleu"] != "")]
    told = [[dropouts(texts, name) for texts in (frame["changed"], values)] for name in both.index]
    other = [len(printed) > 1 and printed != ours for printed, ours in told]
    same = both.drop(both.index[other])
    texts = [cells.note("table3", "findings", all=len(both), same=len(same)), *_count(same)]
    texts += [cells.note("table3", "other", counted="; ".join(_count(both[other])))] if any(other) else []
    return [*texts, cells.note("table3", "firm", firm=both["firm"].sum())] if len(both) else []


def _count(frame: pd.DataFrame) -> list[str]:
    """Count and list rows by their two verdicts. † marks a bold verdict."""
    texts = []
    for (dev, test), rows in frame.groupby(["verdict", f"{TEST}verdict"], sort=False):
        names = ", ".join(f"`{row.Index}`{'†' * row.firm}" for row in rows.itertuples())
        where = "on both dev and test" if dev == test else f"on dev, {test} on test"
        texts.append(f"{dev} {where}: {len(rows)} ({names})")
    return texts


def read_variations(path: str | Path) -> pd.DataFrame:
    """Read the paper's rows by experiment: row, changed and `_PRINTED_COLUMNS`, all as text."""
    return cells.read_printed(path)[["experiment", "row", "changed", *_PRINTED_COLUMNS]].set_index("experiment")


def read_last(scores: list[str]) -> pd.DataFrame:
    """Read the scores of one task's last checkpoints. Raises InputError on other files."""
    runs = read_scores(scores)
    require_one(runs, "task")
    require_one(runs, "planned_steps", "parameters", by="experiment")
    return runs


def variations(paper: pd.DataFrame, runs: pd.DataFrame, tested: pd.DataFrame, data_of_paper: bool) -> pd.DataFrame:
    """Make a row per experiment in the paper's order. `difference` is from base, `from_paper` from the paper."""
    means = cells.over_seeds(runs, "experiment", _AVERAGED, ["parameters", "steps"])
    means["steps"] = runs.groupby("experiment")["steps"].mean().round()
    printed = paper.rename(columns={column: f"paper_{column}" for column in _PRINTED_COLUMNS})
    own = means.index.difference(printed.index, sort=False)
    frame = printed.reindex(["base", *own, *printed.index.drop("base", errors="ignore")], fill_value="")
    numbers = pd.to_numeric(frame["paper_bleu"])
    frame["paper_difference"] = numbers - numbers.get("base", float("nan"))
    second = cells.over_seeds(tested, "experiment", {"bleu": "bleu"}, [])
    papers = dict(frame["paper_difference"])
    frame = frame.join(means).join(_tests(runs, papers))
    frame = frame.join(second.join(_tests(tested, papers)).add_prefix(TEST))
    texts = [prefix + name for prefix in _MEASUREMENTS for name in ("verdict", "pair")]
    frame[texts] = frame[texts].astype(object).fillna("")
    frame["firm"] = cells.firm(frame)
    frame["from_paper"] = frame["bleu"] - numbers if data_of_paper else float("nan")
    return frame.astype(dict.fromkeys(["parameters", "steps", "seeds", f"{TEST}seeds"], "Int64"))


def _tests(runs: pd.DataFrame, papers: dict[str, float]) -> pd.DataFrame:
    """Test each experiment's difference from base, if base exists, and whether it replicates the paper's."""
    base, rows = runs[runs["experiment"] == "base"], {}
    others = runs[runs["experiment"] != "base"] if len(base) else base
    for experiment, same in others.groupby("experiment"):
        each = cells.paired(same, base, runs)
        size = abs(papers.get(experiment, 0))  # NaN without the paper's BLEU
        expected = "any" if isnan(size) else "higher" if papers.get(experiment, 0) > 0 else "lower"
        verdict = significance.verdict(expected, each, size) if size else significance.NO_EFFECT
        rows[experiment] = (each.value, each.low, each.high, each.p, verdict, each.runs)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*_DIFFERENCE, "verdict", "pair"])
    return frame.assign(p_holm=significance.holm(frame["p"]))
