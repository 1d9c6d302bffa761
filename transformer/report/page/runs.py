"""The runs behind a page: how close they come to the paper, what they took, and a card of each."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from transformer.config.experiment import RECIPE_OF
from transformer.report.tables import cells
from transformer.report.tables.render import Grid, Row, Table, html
from transformer.report.tables.table3 import findings
from transformer.storage.checksums import read_trained
from transformer.storage.records import Trained, read_scored, run_name, variants


class _RunCard(NamedTuple):
    """The training of a run, as texts by heading, and its averages, decoding and scores, by score file."""

    run: str
    facts: dict[str, str]
    scores: list[dict[str, Any]]

    def text(self) -> str:
        """Format the card for a terminal."""
        lines = [self.run, *(f"  {heading:18}{text}" for heading, text in self.facts.items())]
        for score in self.scores:
            lines.append(f"  {score['file']}: {score['averaged']}; {score['decoding']}")
            lines += [f"    {name:16}{value:6.2f}  {signature}" for name, value, signature in score["measures"]]
        return "\n".join(lines)


def read_run_records(paths: Iterable[str | Path]) -> dict[str, Trained]:
    return {run_name(run): run for run in (read_trained(path) for path in paths)}


def run_cards(runs: dict[str, Trained], scores: Iterable[str | Path]) -> list[_RunCard]:
    """Make a card for each run; a score whose run.json is gone has its own record of the run."""
    cards = {name: _RunCard(name, _facts(run), []) for name, run in runs.items()}
    for path in scores:
        score = read_scored(path)
        run = score["run"]
        if "by" in score:
            brackets, signature = score["scores"]["all"], f"COLLINS.prm, by {score['by']}"
            named = [(name, brackets[name.lower()], signature) for name in ("F1", "Recall", "Precision")]
            measures = [measure for measure in named if measure[1] is not None]
        else:
            measures = [
                (f"{name} *" if name == score["scores"]["paper"] else name, variant["score"], variant["signature"])
                for name, variant in variants(score["scores"]).items()
            ]
        about = {
            "file": Path(path).name,
            "averaged": cells.averaged_text(run["averaged_steps"]),
            "decoding": ", ".join(f"{key} {value}" for key, value in run["decoding"].items()),
            "measures": measures,
        }
        cards.setdefault(run_name(run), _RunCard(run_name(run), _facts(run), [])).scores.append(about)
    return list(cards.values())


def _facts(run: Trained) -> dict[str, str]:
    starts = ("{started} at step {step:,}, {processes} × {hardware}".format(**start) for start in run["starts"])
    return {
        "Commit": run["commit"],
        "Data (SHA-256)": run["data_sha256"],
        "Settings (digest)": run["digest"],
        "Recipe": RECIPE_OF[run["fidelity"]],
        "Steps": f"{run['steps']:,}",
        "Parameters": f"{run['parameters']:,}",
        "FLOPs": cells.flops_text(run["flops"]),
        "Time": f"{run['seconds']:,.0f} s",
        "Hardware": run["hardware"],
        "Started": "; ".join(starts),
        "Finished": run["finished"],
    }


def found(tables: Iterable[str | Path]) -> str:
    """Say what Table 3 found, in its words; empty without."""
    table3 = next((Path(path) for path in tables if Path(path).stem == "table3"), None)
    if not table3:
        return ""
    blank = {"here": "", "test_here": ""}
    frame = pd.read_csv(table3.with_suffix(".csv"), index_col="experiment", dtype=dict.fromkeys(blank, str))
    return findings(frame.fillna(blank))


def score_rows(tables: Iterable[str | Path]) -> list[Row]:
    """Make a row for each score of ours in Tables 2 and 4, with the paper's where these can be compared."""
    rows: list[Row] = []
    for path in map(Path, tables):
        if path.stem not in ("table2", "table4"):
            continue
        frame = pd.read_csv(path.with_suffix(".csv"))
        tasks = [column.removesuffix("_difference") for column in frame if column.endswith("_difference")]
        for row in frame[frame["by"] == "ours"].to_dict("records"):
            if path.stem == "table4":
                rows.append({"Model": f"Parser ({row.get('task', row['training'])}), F1"} | _score_pair(row, "f1"))
            for task in tasks:
                if pd.notna(row[f"{task}_bleu"]):
                    named = {"Model": f"{row['model']}, {task.upper()} BLEU"}
                    rows.append(named | _score_pair(row, "bleu", f"{task}_"))
    if not any(str(row["− paper"]) for row in rows):
        rows = [{heading: cell for heading, cell in row.items() if "aper" not in heading} for row in rows]
    return rows


def closeness(rows: list[Row]) -> Markup:
    """Show `score_rows`; empty without any."""
    table = Table("closeness", "Scores", cells.note("closeness", "caption"), Grid(("Model",), rows), [])
    return html(table, scrolls="Scores, scrolls") if rows else Markup()


def _score_pair(row: dict[str, Any], score: str, prefix: str = "") -> Row:
    """Make the cells of the paper's score and of ours from columns whose names begin with `prefix`."""
    return {
        "Ours": cells.mean(score, 1, prefix)(row),
        "95 %": cells.interval_95(prefix)(row),
        "Paper": cells.mean_text(row[f"{prefix}paper"], float("nan"), 1),
        "− paper": cells.ours(cells.difference_text(row[f"{prefix}difference"], 1), row[f"{prefix}runs"]),
    }


def usage(runs: dict[str, Trained]) -> list[dict[str, Any]]:
    """Sum the hours of training by unit; a run that was continued on another machine counts in full there."""
    rows = [(*cells.units(run["starts"][-1]), run["seconds"] / 3600) for run in runs.values()]
    trained = pd.DataFrame(rows, columns=["unit", "count", "hardware", "hours"])
    trained["hours"] *= trained["count"]
    return [
        {"unit": unit, "hours": each["hours"].sum(), "runs": len(each), "hardware": sorted(set(each["hardware"]))}
        for unit, each in trained.groupby("unit")
    ]


def training_details(runs: dict[str, Trained]) -> Markup:
    """Show what reviewers ask of trainings: a row for each run, and where the rest is answered; empty without any."""
    rows = [
        {
            "Run": name,
            "Parameters": f"{run['parameters']:,}",
            "Steps": f"{run['steps']:,}",
            "Dev perplexity": cells.mean_text(run["dev_perplexity"], float("nan"), 2),
            "FLOPs": cells.flops_text(run["flops"]),
            "Hours": f"{run['seconds'] / 3600:.2f}",
            "Unit-hours": f"{run['seconds'] / 3600 * cells.units(run['starts'][-1])[1]:.2f}",
            "Machine": "{processes} × {hardware}".format(**run["starts"][-1]),
        }
        for name, run in runs.items()
    ]
    words = cells.WORDS["details"]
    table = Table("details", "Trainings", words["caption"], Grid(("Run", "Machine"), rows), [words["notes"]])
    return html(table, scrolls="Trainings, scrolls") if rows else Markup()
