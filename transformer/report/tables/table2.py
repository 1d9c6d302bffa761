"""Table 2 (§6.1): BLEU and training FLOPs of the paper's systems and of ours, as means over seeds.

The second table compares the paper's data and training (§5.1, §5.2, §6.3) with ours.
"""

import re
from functools import partial
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from transformer.config.scales import TABLE_2
from transformer.evaluation.scores import read_scores, require_one
from transformer.model.cost import SENTENCE, SUSTAINED, mean_lengths, single_precision, training_flops
from transformer.report.tables import cells, claim
from transformer.report.tables.render import NINE_DIGITS, Cell, Column, Grid, Note, Table, lay_out
from transformer.storage.checksums import read_manifest, read_trained
from transformer.storage.records import Trained, run_name


def table2(
    *,
    paper: str,
    settings: str,
    stated: str,
    score: list[str],
    metrics: list[str],
    lengths: list[str],
    label: str,
    data_of_paper: bool,
    expected: list[str],
    architectures: dict[str, str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    settings: the paper's Table 3. stated: the paper's training. metrics: logs of base and of other architectures.
    lengths: their analyses by length. expected: names of runs. architectures: by experiment.
    """
    runs = read_scores(score)
    require_one(runs, "planned_steps", by=["task", "experiment"])
    trainings = pd.read_csv(stated)
    papers = [row | _counted(row["model"], settings, trainings) for row in read_systems(paper)]
    frame = _systems(papers, runs, label, data_of_paper, architectures)
    compared = bool(frame.filter(regex="_difference$").notna().any(axis=None))
    tasks = list(runs["task"].unique())
    columns = _columns_of(tasks, compared)
    notes: list[Note] = []
    if verdicts := claim.verdicts(runs, claim.read_costs(metrics, runs), claim.read_long(lengths), architectures):
        notes += [cells.note("table2", "claim"), Grid(("Compared", "At equal", "Verdict"), verdicts)]
        notes += cells.fixed("scores.chance")
    if len(runs):
        sustained = ", ".join(f"{flops / 1e12:g} ({name.upper()})" for name, flops in SUSTAINED.items())
        tokens = int(trainings["target_tokens"].max())
        notes += [cells.note("table2", "detail"), lay_out(frame, columns, detail=True)]
        notes.append(cells.note("table2", "flops", sustained=sustained, tokens=tokens, sentence=SENTENCE))
    notes += [f"{row.model}, {row.by}: {row.note}." for row in frame.dropna(subset="note").itertuples()]
    notes += cells.gaps(expected, runs) + cells.fixed("scores.interval", *["scores.difference"] * compared)
    if len(runs):
        other = "" if set(runs["language"]) <= {"de", "fr"} else cells.note("table2", "other")
        notes += [cells.note("table2", "ladder") + other, cells.ladder(runs), *cells.provenance(runs)]
    scores = [
        cells.score_row(f"{row['model']}, {task.upper()} BLEU", row, "bleu", f"{task}_")
        for row in frame[frame["by"] == "ours"].to_dict("records")
        for task in tasks
        if pd.notna(row[f"{task}_bleu"])
    ]
    return cells.captioned("table2", lay_out(frame, columns), notes, scores=scores, label=label), frame


def _columns_of(tasks: list[str], compared: bool) -> list[Column]:
    def one_or_each(texts: list[str]) -> str:
        return texts[0] if len(set(texts)) == 1 else " / ".join(texts)

    def seeds(row: dict) -> str:
        counts = [row[f"{task}_seeds"] for task in tasks if row["by"] == "ours"]
        return one_or_each(["0" if pd.isna(count) else str(count) for count in counts])

    def counts(row: dict, name: str) -> str:
        found = [row[f"{task}_{name}"] for task in tasks if pd.notna(row[f"{task}_{name}"])]
        return one_or_each([f"{int(count):,}" if row["by"] == "ours" else str(count) for count in found])

    def flops(row: dict, task: str, kind: str) -> Cell:
        text, runs = cells.flops_text(row[f"{task}_{kind}"]), row[f"{task}_runs"]
        return cells.ours(text or "–" * isinstance(runs, str), runs)

    columns = [Column("Model", "model", key=True), Column("From", "by", key=True)]
    columns += [Column("Seeds", seeds, detail=True), Column("Steps", partial(counts, name="steps"), detail=True)]
    columns += [Column("Parameters", partial(counts, name="parameters"), detail=True)]
    for task in tasks:
        name, prefix = task.upper(), f"{task}_"
        columns += [
            Column(f"{name} {heading}", cells.mean(metric, 1, prefix), detail=metric != "bleu")
            for metric, heading in cells.BLEU_METRICS.items()
        ]
        columns.append(Column(f"{name} 95 %", cells.interval_95(prefix)))
        if compared:
            columns.append(Column(f"{name} − paper", cells.from_paper("difference", "paper", prefix)))
    kinds = {"flops": "FLOPs, by time", "counted": "FLOPs, counted"}
    columns += [
        Column(f"{task.upper()} {heading}", partial(flops, task=task, kind=kind), detail=True)
        for task in tasks
        for kind, heading in kinds.items()
    ]
    return columns + [Column(f"{task.upper()} seconds", f"{task}_seconds", detail=True, format="{}") for task in tasks]


def _counted(model: str, settings: str | Path, stated: pd.DataFrame) -> dict[str, float]:
    """Count the FLOPs of the paper's own models for each task (`en-de_counted`)."""
    changed = cells.read_printed(settings).set_index("experiment")["changed"]
    sizes = {name: dict(re.findall(r"(\w+)=(\d+)(?![.\d])", changed[name])) for name in TABLE_2}
    counted = {}
    for row in stated[("Transformer (" + stated["experiment"] + ")") == model].itertuples():
        values = {name: int(value) for name, value in (sizes["base"] | sizes[row.experiment]).items()}
        made = SimpleNamespace(**values, output_rows=row.subwords)
        lengths = mean_lengths(row.source_tokens, row.target_tokens)
        counted[f"{row.task}_counted"] = row.steps * training_flops(made, lengths)
    return counted


def read_systems(path: str | Path) -> list[dict[str, str]]:
    """Read the paper's rows without blank cells. The key `by` is "published" (systems of others) or "paper"."""
    table = cells.read_printed(path)
    table["by"] = table.pop("system").replace("transformer", "paper")
    return [{column: cell for column, cell in row.items() if cell} for row in table.to_dict("records")]


def _systems(
    paper: list[dict], runs: pd.DataFrame, label: str, data_of_paper: bool, architectures: dict[str, str]
) -> pd.DataFrame:
    """Make a row per system, first the paper's, then ours, with columns for each task (`en-de_bleu`).

    The paper's cells are text. Its systems without our tasks are omitted, unless there are no runs.
    """
    names = [f"{metric}{end}" for metric in cells.BLEU_METRICS for end in ("", "_sd")]
    names += ["low", "high", "paper", "difference", "flops", "counted", "steps", "seeds", "runs"]
    names += ["parameters", "seconds"]
    columns = [f"{task}_{name}" for task in runs["task"].unique() for name in names]
    rows = [row for row in paper if row.keys() & columns or not columns]
    papers = {row["model"]: row for row in paper if row["by"] == "paper"}
    for experiment, of_experiment in runs.groupby("experiment", sort=False):
        kind = cells.WORDS["architectures"].get(architectures[experiment], architectures[experiment])
        row = {"model": f"{kind} ({experiment})", "by": "ours", "label": label}
        for task, seeds in of_experiment.groupby("task"):
            means = {metric: metric for metric in cells.BLEU_METRICS} | {"counted": "flops"}
            values = dict(cells.over_seeds(seeds, "experiment", means, []).iloc[0])
            sustained = seeds["seconds"] * seeds["processes"] * seeds["hardware"].map(single_precision)
            values |= {"flops": sustained.mean(skipna=False), "steps": str(round(seeds["steps"].mean()))}
            # A mean over different hardware has no meaning.
            times = (seeds["seconds"] * seeds["processes"]).groupby(seeds["hardware"], sort=False).mean()
            values["seconds"] = "; ".join(f"{time:,.0f} on {hardware}" for hardware, time in times.items())
            values["parameters"] = str(seeds["parameters"].iloc[0])
            values["paper"] = float(papers.get(row["model"], {}).get(f"{task}_bleu", "nan"))
            values["difference"] = values["bleu"] - values["paper"] if data_of_paper else float("nan")
            row |= {f"{task}_{name}": value for name, value in values.items()}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=["model", "by", "label", *columns, "note"])
    return frame.astype({column: "Int64" for column in columns if column.endswith("_seeds")})


def training(
    *, paper: str, run: list[str], data: list[str], expected: list[str], subwords: dict[str, int]
) -> tuple[Table, pd.DataFrame]:
    """Make the table. run, data: run.json of each run and data.json of each task. subwords: number by task."""
    learned = {manifest["sha256"]: manifest["splits"]["train"] for manifest in map(read_manifest, data)}
    records = list(map(read_trained, run))
    rows = [_measure(each, learned.get(each["data_sha256"], {}), subwords[each["task"]]) for each in records]
    runs = pd.DataFrame(rows, columns=["task", "experiment", "name", "machine", *_STATED])
    runs, keys = runs.astype(dict.fromkeys(_STATED, float)), ["task", "experiment"]
    groups = runs.groupby(keys, sort=False)
    ours = groups[list(_STATED)].mean().join(groups["name"].agg(" ".join).rename("runs"))
    # A mean speed over different machines has no meaning.
    speeds = runs.groupby([*keys, "machine"], sort=False)["step_seconds"].mean().map(NINE_DIGITS.format).reset_index()
    ours["step_seconds"] = speeds.groupby(keys)["step_seconds"].agg(" / ".join)
    ours = ours.join(groups["machine"].agg(lambda machines: " / ".join(machines.unique()))).reset_index()
    frame = pd.concat([pd.read_csv(paper).assign(by="paper"), ours.assign(by="ours")], ignore_index=True)
    order = {name.rpartition("/")[0]: place for place, name in enumerate(expected)}
    places = (frame["task"] + "/" + frame["experiment"]).map(order).dropna()
    frame = frame.loc[places.sort_values(kind="stable").index, [*_KEYS, *_STATED, "machine", "runs"]]
    notes = [cells.note("training", "detail"), lay_out(frame, _STATED_COLUMNS, detail=True)]
    notes += [cells.note("training", "how"), *cells.gaps(expected, runs)]
    return cells.captioned("training", lay_out(frame, _STATED_COLUMNS), notes), frame


def _measure(run: Trained, learned: dict[str, int], subwords: int) -> dict[str, Any]:
    """Collect the numbers of one training. learned: counts of the training split; old files have fewer."""
    unit, count, _ = cells.units(run["starts"][-1])
    tokens = {side: run.get(side, nan) for side in ("source_tokens", "target_tokens")}
    numbers = {"pairs": learned.get("kept", nan), "subwords": subwords, "steps": run["steps"]}
    numbers |= {side: number / run["steps"] for side, number in tokens.items()}
    numbers |= {"epochs": tokens["target_tokens"] / learned.get("target_tokens", nan), "parameters": run["parameters"]}
    numbers |= {"step_seconds": run["seconds"] / run["steps"], f"{unit}_hours": run["seconds"] / 3600 * count}
    machine = "{processes} × {hardware}".format(**run["starts"][-1])
    return numbers | {key: run[key] for key in ("task", "experiment")} | {"name": run_name(run), "machine": machine}


def _stated(row: dict[str, Any], name: str) -> str | Cell:
    text = " / ".join(_STATED[name][1].format(float(one)) for one in str(row[name]).split(" / "))
    return "–" if pd.isna(row[name]) else cells.ours(text, row["runs"])


_KEYS = {"task": "Task", "experiment": "Model", "by": "From"}
_STATED = {  # heading, format, and whether the column is in the second grid
    "pairs": ("Sentence pairs", "{:,.0f}", False),
    "subwords": ("Subwords", "{:,.0f}", False),
    "source_tokens": ("Source tokens a batch", "{:,.0f}", False),
    "target_tokens": ("Target tokens a batch", "{:,.0f}", False),
    "steps": ("Steps", "{:,.0f}", False),
    "epochs": ("Epochs", "{:.1f}", False),
    "step_seconds": ("Seconds a step", "{:.2f}", True),
    "GPU_hours": ("GPU-hours", "{:,.1f}", True),
    "core_hours": ("Core-hours", "{:,.1f}", True),
    "parameters": ("Parameters", "{:,.0f}", True),
}
_STATED_COLUMNS = [Column(heading, key, key=True) for key, heading in _KEYS.items()]
_STATED_COLUMNS += [
    Column(heading, partial(_stated, name=name), detail=detail) for name, (heading, _, detail) in _STATED.items()
]
_STATED_COLUMNS += [Column("Machine", "machine", detail=True, text=True, format="{}")]
