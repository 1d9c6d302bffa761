"""The page of a scale, one HTML file: how close it came, every table, figure and sample, and the runs behind them."""

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from transformer.checksums import require_scored
from transformer.evaluation.analyses import Attention, whole_weights
from transformer.files import read_pairs
from transformer.parsing.brackets import compare, read_gold_and_test
from transformer.parsing.trees import Tree, bracketed, words
from transformer.records import Description, read_json
from transformer.registry import FIGURES, TABLES
from transformer.report.figures import COLORS
from transformer.report.page.runs import closeness, read_run_records, run_cards, training_details, usage
from transformer.report.tables.render import html, marked_environment, read_table

_AS_IT_IS = " !$&'()*+,-./:;=?@[]_~|^`{}"  # what an address within HTML need not write as %XX, which takes three bytes
_ONE_COLUMN = 4  # inches; a wider drawing takes both columns of the page
# Of a tree on one line: a constituent of words alone, a word with its tag, or the start or the end of a constituent.
_CONSTITUENT = re.compile(r"\([^\s()]+(?: \([^()]+\))+\)|\([^()]+\)|\([^\s()]+|\)")


class Sample(NamedTuple):
    """A sentence of a test set; line: counted from 1. score: from 0 to 100."""

    line: int
    score: float
    source: str
    reference: str
    ours: str


def make(input: Any, params: Any) -> str:
    """Make the page of Inputs.page_files and Inputs.page_params; JSON lies beside figures, CSV beside tables."""
    runs = read_run_records(input.runs)
    translations, no_translations = _draw_samples("translations", input, params, _sample_translations)
    parses, no_parses = _draw_samples("parses", input, params, sample_parses)
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
        closeness=closeness(input.tables),
        tables=[(table, html(table, f"{table.title}, scrolls")) for table in map(read_table, input.tables)],
        figures=[_figure_part(Path(path)) for path in input.figures],
        translations=translations,
        parses=parses,
        attention=whole_weights(read_json(input.attention, Attention)) if input.attention else None,
        colors=COLORS,
        cards=run_cards(runs, input.scores),
        gaps=gaps + no_translations + no_parses,
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


# Samples. BLEU of a single sentence is 0 more often than not, so chrF ranks translations; labelled F1 ranks parses.


def _draw_samples(kind: str, input: Any, params: Any, read: Callable[..., dict]) -> tuple[list[dict], list]:
    """Choose sentences of each run whose files are all there: `run`, `metric` of the scores, and `kinds` (`choose`)."""
    chosen, gaps = [], []
    for paths in getattr(params, kind):
        run = "/".join(Path(paths[0]).parts[-4:-1])
        missing = _missing_files(f"Sample {kind} of {run}", paths, input.samples)
        gaps += missing
        if not missing:
            chosen.append(read(run, *paths, params.samples))
    return chosen, gaps


def choose(sentences: list[Sample], most: int) -> dict[str, list[Sample]]:
    """Choose at most `most` sentences of each kind, none for two; of equal scores the earlier."""
    ranked = sorted(range(len(sentences)), key=lambda place: -sentences[place].score)
    best, rest = ranked[:most], ranked[most:]
    worst = sorted(rest, key=lambda place: sentences[place].score)[:most]
    others = sorted(set(rest) - set(worst))
    drawn = random.Random(1).sample(others, min(most, len(others)))
    places = {"best": best, "worst": worst, "random": sorted(drawn)}
    return {kind: [sentences[place] for place in chosen] for kind, chosen in places.items()}


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


def sample_parses(run: str, trees: str, gold: str, most: int) -> dict[str, Any]:
    """Choose from a parser's trees and the treebank's; a sentence without a bracket that counts is left out."""
    sentences = []
    for line, (right, ours) in enumerate(read_gold_and_test(gold, trees), start=1):
        counts = compare(right, ours, line, by_gold=True)
        brackets = counts.gold + counts.test
        if brackets or counts.status != "ok":  # 0 for a tree that is missing or over other words
            f1 = 200 * counts.matched / brackets if brackets else 0.0
            sentences.append(Sample(line, f1, " ".join(words(right)), _indented(right), _indented(ours)))
    metric = "labelled F1 of the sentence; words left out by the treebank's tags"
    return {"run": run, "metric": metric, "kinds": choose(sentences, most)}


def _indented(tree: Tree) -> str:
    """Write a constituent on each line, two spaces further in than the one around it; one of words alone is whole."""
    lines: list[str] = []
    depth = 0
    for part in _CONSTITUENT.findall(bracketed(tree)):
        if part == ")":
            lines[-1] += part
        else:
            lines.append("  " * depth + part)
        depth += part.count("(") - part.count(")")
    return "\n".join(lines)
