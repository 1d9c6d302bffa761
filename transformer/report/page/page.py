"""The page of a scale, one HTML file: how close it came, every table, figure and sample, and the runs behind them."""

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from transformer.evaluation.attention import Attention, whole_weights
from transformer.pipeline.registry import FIGURES, TABLES
from transformer.report.figures import COLORS
from transformer.report.page.runs import (
    closeness,
    found,
    read_run_records,
    run_cards,
    score_rows,
    training_details,
    usage,
)
from transformer.report.tables.render import Table, html, marked_environment
from transformer.storage.checksums import require_scored
from transformer.storage.files import read_pairs
from transformer.storage.records import Description, read_json

_AS_IT_IS = " !$&'()*+,-./:;=?@[]_~|^`{}"  # what an address within HTML need not write as %XX, which takes three bytes
_ONE_COLUMN = 4  # inches; a wider drawing takes both columns of the page


class Sample(NamedTuple):
    """A sentence of a test set; line: counted from 1. score: from 0 to 100."""

    line: int
    score: float
    source: str
    reference: str
    ours: str


def make(input: Any, params: Any) -> str:
    """Make the page of Inputs.page_files and Inputs.page_params; JSON lies beside figures, CSV beside tables."""
    runs, tables = read_run_records(input.runs), [read_json(path, Table) for path in input.tables]
    translations, no_translations = _draw_samples(input, params)
    ours = score_rows(input.tables)
    titles = {name: entry.title for name, entry in (TABLES | FIGURES).items()} | {"attention": "Attention viewer"}
    gaps = [(titles[name], why) for name, why in params.missing.items()]
    gaps += _missing_files("Runs", params.runs, input.runs) + _missing_files("Scores", params.scores, input.scores)
    jinja = marked_environment(Path(__file__).parent / "templates")
    jinja.filters["anchor"] = lambda run: "run-" + re.sub(r"[^A-Za-z0-9_-]", "-", run)
    return jinja.get_template("report.html").render(
        params=params,
        languages={name: (run["source"], run["target"]) for name, run in runs.items()},
        usage=usage(runs),
        details=training_details(runs),
        found=found(input.tables),
        base=[row for row in ours if "(base)" in str(row["Model"])],
        closeness=closeness(ours),
        tables=[(table, html(table, f"{table.title}, scrolls")) for table in tables],
        figures=[_figure_part(Path(path)) for path in input.figures],
        translations=translations,
        attention=whole_weights(read_json(input.attention, Attention)) if input.attention else None,
        colors=COLORS,
        cards=run_cards(runs, input.scores),
        gaps=gaps + no_translations,
    )


def _missing_files(what: str, expected: Iterable[str], present: Iterable[str]) -> list[tuple[str, str]]:
    """Name the expected files that are not there, if any, from the run's task on."""
    missing = ["/".join(Path(path).parts[-4:]) for path in dict.fromkeys(expected) if path not in set(present)]
    return [(what, f"no file {', '.join(missing)}")] if missing else []


def _figure_part(path: Path) -> dict[str, Any]:
    """Describe a figure from NAME.json and NAME.svg, the latter as a data: address, which keeps the page one file."""
    about = read_json(path.with_suffix(".json"), Description)
    drawing = " ".join(path.read_text("utf-8").split())  # an address has no line ends
    address = f"data:image/svg+xml,{quote(drawing, safe=_AS_IT_IS)}"
    return about | {"name": path.stem, "address": address, "wide": about["inches"] > _ONE_COLUMN}


# Samples. BLEU of a single sentence is 0 more often than not, so chrF ranks translations. Parses are not shown, as the
# sentences of a treebank often have licences that allow no such page.


def _draw_samples(input: Any, params: Any) -> tuple[list[dict], list]:
    """Choose sentences of each run whose files are all there: `run`, `metric` of the scores, and `kinds` (`choose`)."""
    chosen, gaps = [], []
    for paths in params.translations:
        run = "/".join(Path(paths[0]).parts[-4:-1])
        missing = _missing_files(f"Sample translations of {run}", paths, input.samples)
        gaps += missing
        if not missing:
            chosen.append(_sample_translations(run, *paths, params.samples))
    return chosen, gaps


def choose(sentences: list[Sample], most: int) -> dict[str, list[Sample]]:
    """Choose at most `most` sentences of each kind, none for two; of equal scores the earlier."""
    ranked = sorted(sentences, key=lambda sentence: -sentence.score)
    best, rest = ranked[:most], ranked[most:]
    worst = sorted(rest, key=lambda sentence: sentence.score)[:most]
    others = sorted(set(rest) - set(worst))  # by line
    drawn = random.Random(1).sample(others, min(most, len(others)))
    return {"best": best, "worst": worst, "random": sorted(drawn)}


def _sample_translations(run: str, hypotheses: str, sources: str, references: str, most: int) -> dict[str, Any]:
    from sacrebleu.metrics import CHRF  # here, as a page without translations needs none

    metric = CHRF()
    require_scored(Path(hypotheses).with_suffix(".json"), Path(hypotheses), Path(references))
    pairs = zip(list(read_pairs(sources, references)), list(read_pairs(hypotheses, references)), strict=True)
    sentences = [
        Sample(line, metric.sentence_score(ours, [reference]).score, source, reference, ours)
        for line, ((source, _), (ours, reference)) in enumerate(pairs, start=1)
    ]
    signature = f"chrF of the sentence, `{metric.get_signature().format()}`"
    return {"run": run, "metric": signature, "kinds": choose(sentences, most)}
