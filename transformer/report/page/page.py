"""The page of a scale: what was reproduced and how close, every table, figure and sample, and the runs behind them.

One HTML file that needs no network. What is not there is named; nothing stands in for it.
"""

import re
from collections.abc import Container, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from transformer.evaluation.records import Described, Run, read_scored, run_name
from transformer.files import InputError, readable
from transformer.records import read_json, typed
from transformer.report.figures import COLORS, FIGURES
from transformer.report.figures.description import Description
from transformer.report.page.cards import Card, facts, scored
from transformer.report.page.chain import SCORES, cell, stale
from transformer.report.page.summary import closeness_of_table_2, closeness_of_table_4
from transformer.report.tables import TABLES
from transformer.report.tables.cells import Cell
from transformer.report.tables.render import Grid, Table, html, marked_environment, read

CLOSE_CAPTION = (
    "The paper's scores and ours. Ours are means over seeds, ± their standard deviation; 95 %: where the "
    "mean lies on resampled test sentences."
)
CLOSENESS = {"table2": closeness_of_table_2, "table4": closeness_of_table_4}
TEMPLATES = Path(__file__).parent / "templates"
AS_IT_IS = " !$&'()*+,-./:;=?@[]_~|^`{}"  # what an address within HTML need not write as %XX, which takes three bytes
COLUMN_INCHES = 4  # a wider drawing takes both columns of the page


class TablePart(NamedTuple):
    """A table on the page."""

    name: str
    title: str
    body: Markup
    stale: frozenset[str]  # the runs whose numbers in it are stale
    changed: dict[str, str]  # since it was made, by task/experiment


class Gap(NamedTuple):
    """Something that is not on the page, and why."""

    what: str
    why: str


def title(name: str) -> str:
    """Return the heading of a table, a figure or the attention viewer, whether or not it was made."""
    if name in TABLES:
        return import_module(f"transformer.report.tables.{name}").TITLE
    return (FIGURES | {"attention": "Attention viewer"}).get(name, name)


def split(paths: Iterable[str], missing: Container[str]) -> tuple[list[Path], list[Gap]]:
    """Return the parts that are there, and a gap for each that is not.

    Parts that are named `missing` are neither, whatever file has their name.
    """
    named = [path for path in map(Path, paths) if path.stem not in missing]
    there = [path for path in named if path.exists()]
    return there, [Gap(title(path.stem), f"no file {path}") for path in named if path not in there]


def files(what: str, paths: Iterable[str]) -> tuple[list[str], list[Gap]]:
    """Return the files that are there, and a gap, if any, that names the others, short of `results/SCALE/runs/`."""
    there = {path: Path(path).exists() for path in paths}
    missing = ["/".join(Path(path).parts[-4:]) for path, exists in there.items() if not exists]
    gaps = [Gap(what, f"no file {', '.join(missing)}")] if missing else []
    return [path for path, exists in there.items() if exists], gaps


def table_part(path: Path, cards: Iterable[Card]) -> TablePart:
    """Return a table from its JSON in `tables/`, beside which lies `runs/`, with its stale cells marked."""
    table = read(path)
    grids = [table.grid, *(note for note in table.notes if isinstance(note, Grid))]
    values = (value for grid in grids for row in grid.rows for value in row.values())
    runs = {run for value in values if isinstance(value, Cell) for run in value.runs}
    changed = out_of_step(path, runs) if table.name in SCORES else {}
    score = SCORES.get(table.name)  # of a table that chain.py cannot check, any stale score of a run counts
    rescored = {card.run for card in cards if (score in card.stale if score else card.stale)}
    old = frozenset(run for run in runs if row_of(run) in changed) | rescored
    return TablePart(table.name, table.title, html(table, old, f"{table.title}, scrolls"), old, changed)


def out_of_step(path: Path, runs: Iterable[str]) -> dict[str, str]:
    """Return what has changed in the scores since a table was made, by `task/experiment` of its runs (chain.py)."""
    changed = {}
    for row in sorted({row_of(run) for run in runs}):
        task, experiment = row.split("/")
        try:
            link, _ = cell(path.parents[1], path.stem, experiment, task)
        except InputError as error:
            changed[row] = f"cannot be checked: {error}"
        else:
            changed |= {row: link.stale} if link.stale else {}
    return changed


def row_of(run: str) -> str:
    """Return `task/experiment` of a run."""
    return run.rpartition("/")[0]


def figure_part(path: Path) -> dict:
    """Return a figure from NAME.json and NAME.svg, the latter as a data: address, which keeps the page one file."""
    beside = path.with_suffix(".json")
    content = read_json(beside, Description)
    figure = {key: content[key] for key in ("title", "alt", "caption")}
    drawing = " ".join(readable(path).read_text("utf-8").split())  # an address has no line ends
    address = f"data:image/svg+xml,{quote(drawing, safe=AS_IT_IS)}"
    wide = content["inches"] > COLUMN_INCHES
    return figure | {"name": path.stem, "address": address, "wide": wide}


def close(paths: Iterable[Path], tables: Iterable[TablePart]) -> Markup:
    """Return the paper's scores beside ours, from the CSV files of the tables that are there; empty without any.

    How far they are apart is shown where a table says so: where the data are the paper's.
    """
    rows = [row for path in paths if path.stem in CLOSENESS for row in CLOSENESS[path.stem](path.with_suffix(".csv"))]
    if not rows:
        return Markup()
    old = {run for table in tables if table.name in CLOSENESS for run in table.stale}
    apart = any(str(row["− paper"]) for row in rows)
    grid, _ = Grid(("Model", "Task"), rows).split((), () if apart else ("− paper",))
    return html(Table("closeness", "Scores", CLOSE_CAPTION, grid, []), old, "Scores, scrolls")


def cards(runs: dict[str, Run], scores: Iterable[str]) -> list[Card]:
    """Return a card for each run, with its score files and what has changed since they were written.

    Where run.json is gone, the score file's own record of the run takes its place. Raises InputError naming a file that
    is no score of a run.
    """
    by_run = {name: Card(name, facts(run), [], {}) for name, run in runs.items()}
    for path in scores:
        run = typed(read_scored(path)["run"], Described, f"{path}, run")
        name = run_name(run)
        card = by_run.setdefault(name, Card(name, facts(run), [], {}))
        card.scores.append(scored(path))
        if why := stale(Path(path)):
            card.stale[Path(path).name] = why
    return list(by_run.values())


def render(**content: Any) -> str:
    jinja = marked_environment(TEMPLATES)
    jinja.filters["anchor"] = lambda run: "run-" + re.sub(r"[^A-Za-z0-9_-]", "-", run)
    return jinja.get_template("report.html").render(**content, colors=COLORS)
