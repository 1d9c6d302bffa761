"""The page of a scale: what was reproduced and how close, every table, figure and sample, and the runs behind them.

One HTML file that needs no network. What is not there is named; nothing stands in for it.
"""

import json
import re
from collections.abc import Container, Iterable, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from transformer.common.files import InputError, read_json
from transformer.figures.style import COLORS
from transformer.page.cards import Card, facts, scored
from transformer.page.chain import SCORES, cell, stale
from transformer.page.summary import closeness_of_table_2, closeness_of_table_4
from transformer.page.svg import inline
from transformer.scoring.scorefiles import item, run_name
from transformer.tables.render import Table, environment, html

TITLES = {
    "table1": "Table 1: kinds of layers",
    "table2": "Table 2: translation",
    "table3": "Table 3: variations on the model",
    "table4": "Table 4: parsing",
    "why": "What each choice is worth",
    "figure1": "Figure 1: the model",
    "figure2": "Figure 2: attention",
    "figure3": "Figure 3: attention over a long distance",
    "figure4": "Figure 4: attention and anaphora",
    "figure5": "Figure 5: attention and structure",
    "positions": "Positional encoding",
    "schedule": "Learning rate",
    "curves": "Learning curves",
    "bleu_parameters": "BLEU and parameters",
    "bleu_flops": "BLEU and the cost of training",
    "timing": "Time of a layer",
    "attention": "Attention viewer",
}
CLOSE_CAPTION = (
    "How close: the paper's scores and ours. Ours are means over seeds, ± their standard deviation; 95 %: where the "
    "mean lies on resampled test sentences."
)
CLOSENESS = {"table2": closeness_of_table_2, "table4": closeness_of_table_4}
TEMPLATES = Path(__file__).parent / "templates"
ATTENTIONS = {"encoder": ("source", "source"), "decoder": ("target", "shifted"), "cross": ("target", "source")}

CELL = re.compile(r'<td([^>]*) data-runs="([^"]*)"([^>]*)>(.*?)</td>', re.DOTALL)
TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)


class TablePart(NamedTuple):
    """A table on the page."""

    name: str
    title: str
    body: Markup
    old: frozenset[str]  # the runs whose numbers in it are stale
    changed: dict[str, str]  # since it was made, by task/experiment


class FigurePart(NamedTuple):
    """A figure on the page."""

    name: str
    title: str
    body: Markup
    caption: str


class Gap(NamedTuple):
    """Something that is not on the page, and why."""

    what: str
    why: str


def title(name: str) -> str:
    """A heading for a part of the page."""
    return TITLES.get(name, name)


def split(paths: Iterable[str], missing: Container[str]) -> tuple[list[Path], list[Gap]]:
    """The parts that are there, and those that are not; without those `missing`, whatever file has their name."""
    named = [path for path in map(Path, paths) if path.stem not in missing]
    there = [path for path in named if path.exists()]
    return there, [Gap(title(path.stem), f"no file {path}") for path in named if path not in there]


def files(what: str, paths: Iterable[str]) -> tuple[list[str], list[Gap]]:
    """The files that are there, and a gap, if any, that names all others, short of `results/SCALE/runs/`."""
    found = {path: Path(path).exists() for path in paths}
    missing = ["/".join(Path(path).parts[-4:]) for path, there in found.items() if not there]
    gaps = [Gap(what, f"no file {', '.join(missing)}")] if missing else []
    return [path for path, there in found.items() if there], gaps


def table_part(path: Path, behind: Iterable[Card]) -> TablePart:
    """A table's HTML fragment from `tables/`, beside which lies `runs/`; its stale cells say so."""
    try:
        fragment = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not TABLE.search(fragment):
        raise InputError(f"{path}: expected a table, found none")
    runs = {run for found in CELL.finditer(fragment) for run in found[2].split()}
    changed = out_of_step(path, runs) if path.stem in SCORES else {}
    old = frozenset(run for run in runs if of_row(run) in changed) | scored_before(path.stem, behind)
    heading = title(path.stem)
    return TablePart(path.stem, heading, fitted(fragment, heading, old), old, changed)


def out_of_step(path: Path, runs: Iterable[str]) -> dict[str, str]:
    """What has changed in the scores since a table was made, by `task/experiment` of its runs; see explain.py."""
    changed = {}
    for row in sorted({of_row(run) for run in runs}):
        task, experiment = row.split("/")
        try:
            link, _ = cell(path.parents[1], path.stem, experiment, task)
        except InputError as error:
            changed[row] = f"cannot be checked: {error}"
        else:
            changed |= {row: link.stale} if link.stale else {}
    return changed


def of_row(run: str) -> str:
    """`task/experiment` of a run."""
    return run.rpartition("/")[0]


def scored_before(table: str, behind: Iterable[Card]) -> set[str]:
    """The runs whose score in a table, or where explain.py does not know which that is, any score, is stale."""
    return {card.run for card in behind if (SCORES[table] in card.stale if table in SCORES else card.stale)}


def fitted(fragment: str, heading: str, old: Set[str]) -> Markup:
    """Each table of a fragment scrolls in a box of its own, and cells of `old` runs are marked."""
    label = Markup('<div class="scroll" role="group" tabindex="0" aria-label="{}">').format(f"{heading}, scrolls")
    marked = CELL.sub(lambda found: stale_cell(found, old), fragment)
    return Markup(TABLE.sub(lambda table: f"{label}{table[0]}</div>", marked))


def stale_cell(found: re.Match, old: Set[str]) -> str:
    """The cell as it is, or marked if one of its runs is `old`."""
    before, runs, after, text = found.groups()
    if old.isdisjoint(runs.split()):
        return found[0]
    return f'<td{before} data-runs="{runs}"{after} data-stale>{text} <em class="stale">stale</em></td>'


def figure_part(path: Path) -> FigurePart:
    """A figure from NAME.svg, with caption and alternative text from NAME.json beside it."""
    about = path.with_suffix(".json")
    said = read_json(about)
    drawing = inline(path, path.stem, item(said, "alt", str(about)))
    return FigurePart(path.stem, title(path.stem), drawing, item(said, "caption", str(about)))


def close(paths: Iterable[Path], tables: Iterable[TablePart]) -> Markup:
    """The paper's scores beside ours, from the CSV files of the tables that are there; empty without any."""
    rows = [row for path in paths if path.stem in CLOSENESS for row in CLOSENESS[path.stem](path.with_suffix(".csv"))]
    if not rows:
        return Markup()
    old = {run for table in tables if table.name in CLOSENESS for run in table.old}
    return fitted(html(Table("closeness", CLOSE_CAPTION, rows, [])), "How close", old)


def read_runs(paths: Iterable[str]) -> tuple[dict[str, dict], list[Gap]]:
    """The content of each run.json by the run's name, and the trainings that are not finished."""
    there, gaps = files("Runs", paths)
    runs = {path: read_json(path) for path in there}
    return {run_name(run, path): run for path, run in runs.items()}, gaps


def cards(runs: dict[str, dict], scores: Iterable[str]) -> list[Card]:
    """A card for each run, with its score files and what has changed since they were written.

    A score whose run.json is gone tells of the run itself. Raises InputError naming a file that is no score of a run.
    """
    found = {name: Card(name, facts(run, f"run {name}"), [], {}) for name, run in runs.items()}
    for path in scores:
        run = item(read_json(path), "run", path)
        name = run_name(run, f"{path}, run")
        card = found.setdefault(name, Card(name, facts(run, f"{path}, run"), [], {}))
        card.scores.append(scored(path))
        if why := stale(Path(path)):
            card.stale[Path(path).name] = why
    return list(found.values())


def read_attention(path: str | Path) -> dict:
    """attention.json: weights of every layer and head for a few sentences.

    {"run", "layers": N, "heads": h, "sentences": [{"title", "source", "target", "shifted", "encoder", "decoder",
    "cross"}]}, the last three (N, h, queries, keys). Raises InputError naming the file, the sentence and the shapes.
    """
    attention = read_json(path)
    N, h = item(attention, "layers", str(path)), item(attention, "heads", str(path))
    item(attention, "run", str(path))
    for number, sentence in enumerate(item(attention, "sentences", str(path)), start=1):
        where = f"{path}, sentence {number}"
        for kind, sides in ATTENTIONS.items():
            expected = (N, h, *(len(item(sentence, side, where)) for side in sides))
            if (found := shape(item(sentence, kind, where))) != expected:
                raise InputError(f"{where}, {kind}: expected weights of shape {expected}, found {found}")
    return attention


def shape(weights: Any) -> tuple[int, ...] | str:
    """Of nested lists of numbers; `ragged` where they have none."""
    try:
        return np.asarray(weights, dtype=float).shape
    except (TypeError, ValueError):
        return "ragged"


def render(**content: Any) -> str:
    """The page. Its template says what `content` is."""
    filled = environment(TEMPLATES)
    filled.filters |= {"embedded": embedded, "anchor": anchor}
    return filled.get_template("report.html").render(**content, colors=COLORS)


def embedded(data: Any) -> Markup:
    """JSON that no `</script>` in a text can end."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def anchor(run: str) -> str:
    """An id for a run's card: no slash, no dot."""
    return "run-" + re.sub(r"[^A-Za-z0-9_-]", "-", run)
