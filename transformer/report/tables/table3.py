"""Table 3 (§6.2): variations on the base model, on the dev set by last checkpoints alone, as §6.2 averages none."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from transformer.evaluation.scores import holm, read_scores, require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Table, lay_out

_PRINTED_COLUMNS = ["perplexity", "bleu", "parameters", "steps"]  # by the paper, which leaves some blank
_AVERAGED = {"perplexity": "dev_perplexity", "bleu": "bleu", "sacrebleu": "sacrebleu"}  # over seeds, and where from
HERE = {"seen here": "seen", "not seen here": "not seen", "cannot be told": "open", cells.NO_VERDICT: cells.UNTESTED}


def table3(input: SimpleNamespace, params: SimpleNamespace) -> tuple[Table, pd.DataFrame]:
    """Make the table. input: paper, score (files).

    params: dev_label, expected (runs), data_of_paper; width and depth, by which the scale divides d_model,
    d_ff, d_k, d_v and N; own, by experiment the scale's values in place of the paper's, those of base for all; rows, as
    configured.
    """
    runs = read_last(input.score)
    frame = variations(read_variations(input.paper), runs, params.data_of_paper)
    compared, base = bool(frame["from_paper"].notna().any()), runs[runs["experiment"] == "base"]
    for name in frame.index[frame["changed"] == ""]:  # rows that the paper does not have
        row = params.rows.get(name, {})
        kept = " (d_k and d_v as in base)" if "h" in row and not {"d_k", "d_v"} & row.keys() else ""
        frame.loc[name, "changed"] = ", ".join(f"{key}={value}" for key, value in row.items()) + kept
    columns = [column for column in _columns_against(base) if compared or column.heading != "− paper"]
    others = frame["paper_difference"].drop("base", errors="ignore")
    rows = frame.assign(millions=frame["parameters"] / 1e6, papers=others).reset_index()
    notes = [cells.note("table3", "detail"), lay_out(rows, columns, detail=True)]
    if (params.width, params.depth) != (1, 1):
        notes.append(cells.note("table3", "shrinking", width=params.width, depth=params.depth))
    own = {name: values for name, values in params.own.items() if values and name in frame.index}
    if own:
        listed = (f"`{name}` {', '.join(f'{key}={value}' for key, value in own[name].items())}" for name in own)
        notes.append(cells.note("table3", "own", values="; ".join(listed)))
    notes += cells.gaps(params.expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    notes += cells.fixed("table3.marks", "table3.here", "scores.chance")
    notes += cells.fixed("table3.few") if len(base) == 2 else []
    notes += [cells.tests_note(frame["difference"], frame["p"]), *cells.fixed("scores.perplexity")]
    notes += [cells.note("table3", "base"), cells.ladder(base)] if len(base) else []
    caption = cells.note("table3", "caption", label=params.dev_label)
    return cells.titled("table3", caption, lay_out(rows, columns), notes + cells.provenance(runs)), frame


def _columns_against(base: pd.DataFrame) -> list[Column]:
    def against_base(row: dict) -> Cell:
        if pd.isna(row["difference"]):
            return Cell("")
        mark = cells.UNTESTED if pd.isna(row["p"]) else cells.MARK if row["p"] >= cells.LEVEL else ""
        text = f"{cells.difference_text(row['difference'], 1)} {mark}".rstrip()
        return cells.ours(text, f"{' '.join(base['name'])} {row['runs']}")

    return [
        Column("Row", "row", key=True),
        Column("Experiment", "experiment", key=True),
        Column("Changed", "changed", detail=True, text=True),
        Column("PPL, paper", "paper_perplexity"),
        Column("PPL, ours", cells.mean("perplexity", 2)),
        Column("BLEU, paper", "paper_bleu"),
        Column("BLEU, ours", cells.mean("bleu", 1)),
        Column("95 %", cells.interval_95()),
        Column("− paper", cells.from_paper("from_paper", "paper_bleu")),
        Column("− base, paper", lambda row: cells.difference_text(row["papers"], 1)),
        Column("− base, ours", against_base),
        Column("Here", lambda row: HERE.get(row["here"], "")),
        Column("sacreBLEU, ours", cells.mean("sacrebleu", 1), detail=True),
        Column("Parameters, paper", "paper_parameters", detail=True),
        Column("Parameters, ours", cells.mean("millions", 3), detail=True),
        Column("Seeds", "seeds", format="{:,}", detail=True),
        Column("Steps, paper", "paper_steps", detail=True),
        Column("Steps, ours", "steps", format="{:,}", detail=True),
    ]


def read_variations(path: str | Path) -> pd.DataFrame:
    """Read what the paper printed, by experiment: row, changed and `_PRINTED_COLUMNS`, all text."""
    return cells.read_printed(path)[["experiment", "row", "changed", *_PRINTED_COLUMNS]].set_index("experiment")


def read_last(scores: list[str]) -> pd.DataFrame:
    """Read the scores of one task's last checkpoints. Raises InputError on files of something else."""
    runs = read_scores(scores)
    require_one("task", runs)
    for _, of_experiment in runs.groupby("experiment"):
        require_one("planned_steps", of_experiment)
        require_one("parameters", of_experiment)
    return runs


def from_base(runs: pd.DataFrame) -> dict[str, cells.Difference]:
    """Compare each experiment with base, if that was run, in BLEU."""
    base = runs[runs["experiment"] == "base"]
    others = runs[runs["experiment"] != "base"] if len(base) else base
    return {experiment: cells.paired(same, base) for experiment, same in others.groupby("experiment")}


def variations(paper: pd.DataFrame, runs: pd.DataFrame, data_of_paper: bool) -> pd.DataFrame:
    """Put together a row per experiment, the paper's first; `difference` is from base, `from_paper` from the paper."""
    means = cells.over_seeds(runs, "experiment", _AVERAGED, ["parameters", "steps"])
    means["steps"] = runs.groupby("experiment")["steps"].mean().round()
    differences = from_base(runs)
    tests = {experiment: (each.value, each.low, each.high, each.p) for experiment, each in differences.items()}
    tested = ["difference", "difference_low", "difference_high", "p"]
    printed = paper.rename(columns={column: f"paper_{column}" for column in _PRINTED_COLUMNS})
    experiments = [*printed.index, *means.index.difference(printed.index, sort=False)]
    frame = printed.reindex(experiments, fill_value="")
    numbers = pd.to_numeric(frame["paper_bleu"])
    frame["paper_difference"] = numbers - numbers.get("base", float("nan"))
    frame = frame.join(means.join(pd.DataFrame.from_dict(tests, orient="index", columns=tested)))
    frame["here"] = ""  # whether ours goes the paper's way
    for experiment, papers in frame["paper_difference"].items():
        if experiment in differences and abs(papers) > 0:
            expected, effect = "higher" if papers > 0 else "lower", min(abs(papers), cells.MARGIN)
            frame.loc[experiment, "here"] = cells.verdict(expected, differences[experiment], effect)
    frame["p_holm"] = holm(frame["p"])
    frame["from_paper"] = frame["bleu"] - numbers if data_of_paper else float("nan")
    return frame.astype(dict.fromkeys(["parameters", "steps", "seeds"], "Int64"))
