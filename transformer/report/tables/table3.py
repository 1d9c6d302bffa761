"""Table 3 (§6.2): variations on the base model, measured twice.

On the dev set by the last checkpoints alone, as §6.2 averages none; and on the test set by averaged weights.
"""

from pathlib import Path

import pandas as pd

from transformer.evaluation import significance
from transformer.evaluation.scores import read_scores, require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Table, lay_out

_PRINTED_COLUMNS = ["perplexity", "bleu", "parameters", "steps"]  # by the paper, which leaves some blank
_AVERAGED = {"perplexity": "dev_perplexity", "bleu": "bleu", "sacrebleu": "sacrebleu"}  # over seeds, and where from
TEST = "test_"  # begins the columns of the second measurement
_LEAST = 0.1  # BLEU, the last digit that the paper prints


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
    """Make the table. score, test: score files on the dev set and on the test set. values: settings by experiment."""
    runs, tested = read_last(score), read_last(test)
    frame = variations(read_variations(paper), runs, tested, data_of_paper)
    compared, base = bool(frame["from_paper"].notna().any()), runs[runs["experiment"] == "base"]
    columns = [column for column in _COLUMNS if compared or column.heading != "− paper"]
    rows = frame.assign(
        millions=frame["parameters"] / 1e6,
        papers=frame["paper_difference"].drop("base", errors="ignore"),
        values=[values.get(name, "") * (name != "base") for name in frame.index],
    ).reset_index()
    found = _findings(frame)
    notes = list(filter(None, [cells.note("table3", "reading", base=values["base"]), found]))
    notes += [cells.note("table3", "detail"), lay_out(rows, columns, detail=True)]
    notes += cells.gaps(expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    notes += cells.fixed("table3.here", "scores.chance")
    notes += cells.fixed("table3.few") if len(runs) - runs["experiment"].nunique() == 1 else []
    notes += [cells.tests_note(frame["difference"], frame["p"]), *cells.fixed("scores.perplexity")]
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
    cells.verdict_column("dev", "here", f"{TEST}here", "pair"),
    _against_base(""),
    cells.verdict_column("test", f"{TEST}here", "here", f"{TEST}pair"),
    _against_base(TEST),
    Column("− base, paper", lambda row: cells.difference_text(row["papers"], 1)),
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
    Column("Parameters, paper", "paper_parameters", detail=True),
    Column("Parameters, ours", cells.mean("millions", 3), detail=True),
    Column("Seeds", "seeds", format="{:,}", detail=True),
    Column("Steps, paper", "paper_steps", detail=True),
    Column("Steps, ours", "steps", format="{:,}", detail=True),
]


def _findings(frame: pd.DataFrame) -> str:
    """Count and name the paper's differences from base: seen in both measurements, in one, not; slight; weak."""
    both = frame[["here", f"{TEST}here"]].apply(set, axis=1)
    both = both[[not said & {"", significance.NO_VERDICT} for said in both]]
    kinds = {"seen": {significance.SEEN}, "not_seen": {significance.NOT_SEEN}}
    kinds |= {f"{kind}_once": {*said, significance.OPEN} for kind, said in kinds.items()}
    named = {kind: list(both.index[[said == alone for said in both]]) for kind, alone in kinds.items()}
    named["open"] = [name for name in both.index if not any(name in names for names in named.values())]
    named["slight"] = list(both.index[frame.loc[both.index, "paper_difference"].abs().round(1) == _LEAST])
    corrected = frame.loc[named["seen"], ["p_holm", f"{TEST}p_holm"]]
    named["weak"] = list(corrected.index[(corrected >= significance.LEVEL).any(axis=1)])
    texts = {kind: f"{len(names)} ({', '.join(f'`{n}`' for n in names)})" for kind, names in named.items() if names}
    told = dict.fromkeys(named, "0") | texts
    return cells.note("table3", "findings", all=len(both), least=_LEAST, **told) if len(both) else ""


def read_variations(path: str | Path) -> pd.DataFrame:
    """Read what the paper printed, by experiment: row, changed and `_PRINTED_COLUMNS`, all text."""
    return cells.read_printed(path)[["experiment", "row", "changed", *_PRINTED_COLUMNS]].set_index("experiment")


def read_last(scores: list[str]) -> pd.DataFrame:
    """Read the scores of one task's last checkpoints. Raises InputError on files of something else."""
    runs = read_scores(scores)
    require_one(runs, "task")
    require_one(runs, "planned_steps", "parameters", by="experiment")
    return runs


def variations(paper: pd.DataFrame, runs: pd.DataFrame, tested: pd.DataFrame, data_of_paper: bool) -> pd.DataFrame:
    """Put together a row per experiment, the paper's first; `difference` is from base, `from_paper` from the paper."""
    means = cells.over_seeds(runs, "experiment", _AVERAGED, ["parameters", "steps"])
    means["steps"] = runs.groupby("experiment")["steps"].mean().round()
    printed = paper.rename(columns={column: f"paper_{column}" for column in _PRINTED_COLUMNS})
    experiments = [*printed.index, *means.index.difference(printed.index, sort=False)]
    frame = printed.reindex(experiments, fill_value="")
    numbers = pd.to_numeric(frame["paper_bleu"])
    frame["paper_difference"] = numbers - numbers.get("base", float("nan"))
    second = cells.over_seeds(tested, "experiment", {"bleu": "bleu"}, [])
    papers = dict(frame["paper_difference"])
    frame = frame.join(means).join(_tests(runs, papers))
    frame = frame.join(second.join(_tests(tested, papers)).add_prefix(TEST))
    texts = [prefix + name for prefix in _MEASUREMENTS for name in ("here", "pair")]
    frame[texts] = frame[texts].astype(object).fillna("")
    frame["from_paper"] = frame["bleu"] - numbers if data_of_paper else float("nan")
    return frame.astype(dict.fromkeys(["parameters", "steps", "seeds", f"{TEST}seeds"], "Int64"))


def _tests(runs: pd.DataFrame, papers: dict[str, float]) -> pd.DataFrame:
    """Test each experiment's difference from base, if that was run, and whether it goes the paper's way (`here`)."""
    base, rows = runs[runs["experiment"] == "base"], {}
    others = runs[runs["experiment"] != "base"] if len(base) else base
    for experiment, same in others.groupby("experiment"):
        each = cells.paired(same, base, runs)
        size = abs(papers.get(experiment, 0))  # NaN without the paper's BLEU
        expected = ("higher" if papers[experiment] > 0 else "lower") if size > 0 else ""
        here = significance.verdict(expected, each, min(size, significance.MARGIN))
        rows[experiment] = (each.value, each.low, each.high, each.p, here, each.runs)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*_DIFFERENCE, "here", "pair"])
    return frame.assign(p_holm=significance.holm(frame["p"]))
