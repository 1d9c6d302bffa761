"""Table 2 (§6.1): BLEU and the FLOPs of training, the paper's systems and then ours, means over seeds."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from transformer.evaluation.scores import limits, read_scores, require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Note, Table, lay_out


def table2(input: SimpleNamespace, params: SimpleNamespace) -> tuple[Table, pd.DataFrame]:
    """Make the table. input: paper, score (files); params: label of our data, expected (runs), data_of_paper."""
    runs = read_scores(input.score)
    for _, seeds in runs.groupby(["task", "experiment"]):
        require_one("steps", seeds)
    frame = systems(read_systems(input.paper), runs, params.label, params.data_of_paper)
    compared = bool(frame.filter(regex="_difference$").notna().any(axis=None))
    columns = _columns_of(list(runs["task"].unique()), compared)
    details = [cells.note("table2", "detail"), lay_out(frame, columns, detail=True), cells.note("table2", "flops")]
    notes: list[Note] = details if len(runs) else []
    notes += [f"{row.model}, {row.by}: {row.note}." for row in frame.dropna(subset="note").itertuples()]
    notes += cells.gaps(params.expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    notes += [cells.note("table2", "ladder"), cells.ladder(runs), *cells.provenance(runs)] if len(runs) else []
    caption = cells.note("table2", "caption", label=params.label)
    return cells.titled("table2", caption, lay_out(frame, columns), notes), frame


def _columns_of(tasks: list[str], compared: bool) -> list[Column]:
    def one_or_each(texts: list[str]) -> str:
        return texts[0] if len(set(texts)) == 1 else " / ".join(texts)

    def seeds(row: dict) -> str:
        counts = [row[f"{task}_seeds"] for task in tasks if row["by"] == "ours"]
        return one_or_each(["0" if pd.isna(count) else str(count) for count in counts])

    def steps(row: dict) -> str:
        counts = [row[f"{task}_steps"] for task in tasks if pd.notna(row[f"{task}_steps"])]
        return one_or_each([f"{int(count):,}" if row["by"] == "ours" else str(count) for count in counts])

    def flops(row: dict, task: str) -> Cell:
        return cells.ours(cells.flops_text(row[f"{task}_flops"]), row[f"{task}_runs"])

    columns = [Column("Model", "model", key=True), Column("From", "by", key=True)]
    columns += [Column("Seeds", seeds, detail=True), Column("Steps", steps, detail=True)]
    for task in tasks:
        name, prefix = task.upper(), f"{task}_"
        columns += [
            Column(f"{name} {heading}", cells.mean(metric, 1, prefix), detail=metric != "bleu")
            for metric, heading in cells.BLEU_METRICS.items()
        ]
        columns.append(Column(f"{name} 95 %", cells.interval_95(prefix)))
        if compared:
            columns.append(Column(f"{name} − paper", cells.from_paper("difference", "paper", prefix)))
    return columns + [Column(f"{task.upper()} FLOPs", partial(flops, task=task), detail=True) for task in tasks]


def read_systems(path: str | Path) -> list[dict[str, str]]:
    """Read what the paper printed: model, by ("published" or "paper") and the cells that are not blank."""
    table = cells.read_printed(path)
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def systems(paper: list[dict], runs: pd.DataFrame, label: str, data_of_paper: bool) -> pd.DataFrame:
    """Put together a row per system, the paper's and then ours, with columns for each task (`en-de_bleu`).

    The paper's cells are text. Its systems that say nothing about our tasks are left out, unless there are no runs.
    """
    names = [f"{metric}{end}" for metric in cells.BLEU_METRICS for end in ("", "_sd")]
    names += ["low", "high", "paper", "difference", "flops", "steps", "seeds", "runs"]
    columns = [f"{task}_{name}" for task in runs["task"].unique() for name in names]
    rows = [row for row in paper if row.keys() & columns or not columns]
    papers = {row["model"]: row for row in paper if row["by"] == "paper"}
    for experiment, of_experiment in runs.groupby("experiment", sort=False):
        row = {"model": f"Transformer ({experiment})", "by": "ours", "label": label}
        for task, seeds in of_experiment.groupby("task"):
            values = {metric: seeds[metric].mean() for metric in (*cells.BLEU_METRICS, "flops")}
            values |= {f"{metric}_sd": seeds[metric].std() for metric in cells.BLEU_METRICS}
            values["low"], values["high"] = limits(cells.mean_draws(seeds))
            values["paper"] = float(papers.get(row["model"], {}).get(f"{task}_bleu", "nan"))
            values["difference"] = values["bleu"] - values["paper"] if data_of_paper else float("nan")
            values |= {"steps": str(seeds["steps"].iloc[0]), "seeds": len(seeds), "runs": " ".join(seeds["name"])}
            row |= {f"{task}_{name}": value for name, value in values.items()}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=["model", "by", "label", *columns, "note"])
    return frame.astype({column: "Int64" for column in columns if column.endswith("_seeds")})
