"""Table 4 (§6.3): labelled bracketing F1 of the paper's parsers and of ours, as means over seeds on available trees."""

import pandas as pd

from transformer.evaluation.scores import RUN, check_runs, require_one
from transformer.parsing.brackets import SHORT
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Note, Table, lay_out
from transformer.storage.records import Parsed, read_of_run, run_name

# Columns that are averaged over seeds: percentages, then numbers of sentences.
_MEANS = ["f1", "recall", "precision", "f1_short", "f1_without_repair", "f1_evalb", "tagging"]
_MEANS += ["repaired", "errors_evalb"]
WSJ, SEMI_SUPERVISED = "WSJ only, discriminative", "semi-supervised"  # the paper's names of training settings


def table4(
    *,
    paper: str,
    score: list[str],
    constrained: list[str],
    dev: list[str],
    out_of_domain: list[str],
    data_of_paper: bool,
    expected: list[str],
    task: dict[str, dict],
    out_of_domain_label: str,
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    score: score files on the test set. constrained: the same with constrained search. dev: score files on the dev set.
    out_of_domain: score files with constrained search on the treebank `out_of_domain_label`. task: a mapping from the
    task's name to its training data (`training`), its test treebank (`label`), and whether the training data include
    silver trees (`silver`).
    """
    runs = _read_f1(score)
    others = {"constrained": _read_f1(constrained), "dev": _read_f1(dev)}
    if out_of_domain_label:
        others["out_of_domain"] = _read_f1(out_of_domain)
    papers = cells.read_printed(paper)
    papers["by"] = papers.pop("system").replace("transformer", "paper")
    frame = _parsers(papers, runs, others, task, data_of_paper)
    labels = " and ".join(dict.fromkeys(each["label"] for each in task.values()))
    compared = bool(frame["difference"].notna().any())
    columns = [column for column in _PARSER_COLUMNS if compared or column.heading != "− paper"]
    if out_of_domain_label:
        columns.insert(
            -1, Column(f"F1, constrained, on {out_of_domain_label}", cells.mean("f1_out_of_domain", 1), detail=True)
        )
    ours = frame[frame["by"] == "ours"]
    details = lay_out(ours, columns, detail=True)
    notes: list[Note] = [*cells.fixed("table4.repair", "table4.detail"), details] if details.rows else []
    notes += cells.fixed("table4.silver") if any(each["silver"] for each in task.values()) else []
    notes += cells.gaps(expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    notes += cells.fixed("table4.papers", "table4.scoring") if compared else cells.fixed("table4.scoring")
    notes += cells.provenance(runs, {"f1": "F1", "f1_short": f"F1, ≤ {SHORT} words", "tagging": "Tagging"})
    scores = [cells.score_row(f"Parser ({row['task']}), F1", row, "f1") for row in ours.to_dict("records")]
    return cells.captioned("table4", lay_out(frame, columns), notes, scores=scores, labels=labels), frame


def _repaired(row: dict) -> Cell:
    text = "" if pd.isna(row["repaired"]) else f"{row['repaired']:g} of {row['sentences']:,}"
    return cells.ours(text, row["runs"])


_PARSER_COLUMNS = [
    Column("Parser", "parser", key=True),
    # Our parsers have the name of their task, because descriptions of training data can be long.
    Column("Training", lambda row: row["task"] if row["by"] == "ours" else row["training"], key=True),
    Column("From", "by", text=True),
    Column("Learned from", "training", detail=True, text=True),
    Column("Test trees", "label", detail=True, text=True),
    Column("F1", cells.mean("f1", 1)),
    Column("95 %", cells.interval_95()),
    Column("− paper", cells.from_paper("difference", "paper")),
    Column("Repaired", _repaired),
    Column("F1 without repair", cells.mean("f1_without_repair", 1)),
    Column("Recall", cells.mean("recall", 1), detail=True),
    Column("Precision", cells.mean("precision", 1), detail=True),
    Column("F1, constrained", cells.mean("f1_constrained", 1), detail=True),
    # §6.3 uses this score to choose dropout, learning rate and beam size.
    Column("F1, dev", cells.mean("f1_dev", 1), detail=True),
    Column(
        "F1, EVALB",
        lambda row: cells.ours(f"{cells.mean('f1_evalb', 1)(row)} ({row['errors_evalb']:g} left out)", row["runs"]),
        detail=True,
    ),
    Column("Seeds", "seeds", format="{}", detail=True),
]


def _read_f1(paths: list[str]) -> pd.DataFrame:
    """Read a row per score file of a parser's run. Raises InputError on files that do not belong in one table."""
    rows = []
    for path in paths:
        score = read_of_run(path, Parsed)
        run, every, strict = score["run"], score["scores"]["all"], score["strict"]["all"]
        row = {"file": path, "name": run_name(run), "gold_sha256": score["gold_sha256"], "draws": score["draws"]}
        row |= {name: every[name] for name in ("f1", "recall", "precision", "tagging", "sentences")}
        row |= {"f1_short": score["scores"]["len40"]["f1"], "f1_without_repair": score["without_repair"]["all"]["f1"]}
        row |= {"f1_evalb": strict["f1"], "errors_evalb": strict["errors"], "repaired": len(score["repaired"])}
        rows.append(row | {key: run[key] for key in RUN})
    runs = pd.DataFrame(rows, columns=["file", "name", "gold_sha256", "draws", "sentences", *_MEANS, *RUN])
    check_runs(runs)
    require_one(runs, "gold_sha256", by="task")
    return runs


def _parsers(
    paper: pd.DataFrame,
    runs: pd.DataFrame,
    others: dict[str, pd.DataFrame],
    tasks: dict[str, dict],
    data_of_paper: bool,
) -> pd.DataFrame:
    """Make a row per parser: the paper's as text, then ours with one row per task."""
    rows = cells.over_seeds(runs, "task", {name: name for name in _MEANS}, ["sentences", "steps", "parameters"])
    low_high = [rows.pop(name) for name in ("low", "high")]
    for name, scores in others.items():
        rows = rows.join(scores.groupby("task")["f1"].agg(**{f"f1_{name}": "mean", f"f1_{name}_sd": "std"}))
    silver = pd.Series([tasks[task]["silver"] for task in rows.index], index=rows.index, dtype=bool)
    printed = paper[paper["by"] == "paper"].set_index("training")["f1"].astype(float)
    rows = rows.join(low_high).assign(paper=silver.map({True: printed[SEMI_SUPERVISED], False: printed[WSJ]}))
    # The paper's silver trees are not public, so a parser with other silver trees has other data.
    rows["difference"] = (rows["f1"] - rows["paper"]).where(~silver & data_of_paper)
    rows["training"] = [tasks[task]["training"] for task in rows.index]
    rows["label"] = [tasks[task]["label"] for task in rows.index]
    frame = pd.concat([paper, rows.reset_index().assign(parser="Transformer", by="ours")], ignore_index=True)
    order = ["parser", "by", "training", "label", *(c for name in _MEANS for c in (name, f"{name}_sd"))]
    rest = [column for column in frame if column not in order]
    return frame[order + rest].astype(dict.fromkeys(["sentences", "steps", "parameters", "seeds"], "Int64"))
