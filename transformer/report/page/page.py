"""The page of a scale: what was reproduced and how close, every table, figure and sample, and the runs behind them.

One HTML file that needs no network. What is not there is named; nothing stands in for it.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from transformer.evaluation.attention import read_attention, whole_weights
from transformer.records import Description, read_json
from transformer.registry import FIGURES, TABLES
from transformer.report.figures import COLORS
from transformer.report.page.cards import read_run_records, run_cards
from transformer.report.page.samples import Samples, sample_parses, sample_translations
from transformer.report.page.summary import closeness, moved_runs, training_details, usage
from transformer.report.tables.render import html, marked_environment, read

ENTRIES = TABLES | FIGURES
PAGE_TEMPLATES = Path(__file__).parent / "templates"
AS_IT_IS = " !$&'()*+,-./:;=?@[]_~|^`{}"  # what an address within HTML need not write as %XX, which takes three bytes
ONE_COLUMN = 4  # inches; a wider drawing takes both columns of the page


class Gap(NamedTuple):
    """A missing part of the page, and the reason."""

    what: str
    why: str


def make(input: Any, params: Any) -> str:
    """Make the page.

    Of `input`, tables are JSON with their CSV beside them, figures SVG with their JSON beside them; runs (run.json),
    scores, samples and attention are the files that are there. `params` has the title, the label of the data, the name
    of the scale, `data_of_paper`; the expected runs, scores, translations and parses; how many samples of each kind;
    the reasons for missing tables and figures; the prices of an hour, by unit, and their currency.
    """
    runs = read_run_records(input.runs)
    translations, no_translations = draw_samples("translations", input, params, sample_translations)
    parses, no_parses = draw_samples("parses", input, params, sample_parses)
    gaps = [Gap(heading(name), why) for name, why in params.missing.items()]
    gaps += missing_files("Runs", params.runs, input.runs) + missing_files("Scores", params.scores, input.scores)
    jinja = marked_environment(PAGE_TEMPLATES)
    jinja.filters["anchor"] = lambda run: "run-" + re.sub(r"[^A-Za-z0-9_-]", "-", run)
    return jinja.get_template("report.html").render(
        title=params.title,
        label=params.label,
        scale=params.scale,
        data_of_paper=params.data_of_paper,
        languages={name: (run["source"], run["target"]) for name, run in runs.items()},
        usage=usage(runs),
        moved=moved_runs(runs),
        details=training_details(runs),
        prices=params.prices,
        currency=params.currency,
        closeness=closeness(input.tables),
        tables=[table_part(path) for path in input.tables],
        figures=[figure_part(Path(path)) for path in input.figures],
        translations=translations,
        parses=parses,
        attention=whole_weights(read_attention(input.attention)) if input.attention else None,
        colors=COLORS,
        cards=run_cards(runs, input.scores),
        gaps=gaps + no_translations + no_parses,
    )


def heading(name: str) -> str:
    """Get the heading of a table, a figure or the attention viewer, made or not."""
    return ENTRIES[name].title if name in ENTRIES else "Attention viewer"


def missing_files(what: str, expected: Iterable[str], present: Iterable[str]) -> list[Gap]:
    """Name the expected files that are not there, if any, from the run's task on."""
    missing = ["/".join(Path(path).parts[-4:]) for path in dict.fromkeys(expected) if path not in set(present)]
    return [Gap(what, f"no file {', '.join(missing)}")] if missing else []


def draw_samples(kind: str, input: Any, params: Any, read: Callable[..., Samples]) -> tuple[list[Samples], list[Gap]]:
    """Choose sentences of each run whose files are all there; the first file's folders name the run."""
    chosen, gaps = [], []
    for paths in getattr(params, kind):
        run = "/".join(Path(paths[0]).parts[-4:-1])
        missing = missing_files(f"Sample {kind} of {run}", paths, input.samples)
        gaps += missing
        if not missing:
            chosen.append(read(run, *paths, params.samples))
    return chosen, gaps


def table_part(path: str | Path) -> dict[str, Any]:
    """Describe a table from its JSON."""
    table = read(path)
    return {"name": table.name, "title": table.title, "body": html(table, scrolls=f"{table.title}, scrolls")}


def figure_part(path: Path) -> dict[str, Any]:
    """Describe a figure from NAME.json and NAME.svg, the latter as a data: address, which keeps the page one file."""
    content = read_json(path.with_suffix(".json"), Description)
    drawing = " ".join(path.read_text("utf-8").split())  # an address has no line ends
    return {
        **{key: content[key] for key in ("title", "alt", "caption")},
        "name": path.stem,
        "address": f"data:image/svg+xml,{quote(drawing, safe=AS_IT_IS)}",
        "wide": content["inches"] > ONE_COLUMN,
    }
