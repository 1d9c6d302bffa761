"""The page of a scale as one HTML file: a summary, all tables, figures and samples, and their runs."""

import logging
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from transformer.config.experiment import RECIPE_OF
from transformer.evaluation.attention import Attention, whole_weights
from transformer.report.figures import COLORS
from transformer.report.tables import cells
from transformer.report.tables.render import Grid, Row, Table, html, marked_environment
from transformer.storage.checksums import read_trained, require_scored
from transformer.storage.files import read_pairs, write
from transformer.storage.provenance import short
from transformer.storage.records import Description, Trained, read_json, read_scored, read_summed, run_name, variants

logger = logging.getLogger(__name__)
_AS_IT_IS = " !$&'()*+,-./:;=?@[]_~|^`{}"  # characters of a URL in HTML that need no %XX, which takes three bytes
_ONE_COLUMN = 4  # inches; a wider figure spans both columns of the page


def build_page(files: dict[str, list[str]], params: dict[str, Any], output: str) -> None:
    """Write the page.

    files: lists of paths: runs (run.json), scores, samples, tables (.json), figures (.svg, each with a .json in its
    folder) and attention, with one path or none. params: values from the configuration. `runs` and `scores` are the
    expected files. `translations` has translation, sources and references of each run. `samples` is the number of
    sentences of each kind. `missing` has the reason for each missing table or figure, by title.
    """
    runs, tables = read_run_records(files["runs"]), [read_json(path, Table) for path in files["tables"]]
    translations, no_translations = _draw_samples(files["samples"], params["translations"], params["samples"])
    scores = [row for table in tables for row in table.scores]
    gaps = [*params["missing"].items(), *_missing_files("Runs", params["runs"], files["runs"])]
    gaps += _missing_files("Scores", params["scores"], files["scores"])
    jinja = marked_environment()
    jinja.filters["anchor"] = lambda run: "run-" + re.sub(r"[^A-Za-z0-9_-]", "-", run)
    text = jinja.get_template("report.html").render(
        params=params,
        languages={name: (run["source"], run["target"]) for name, run in runs.items()},
        usage=_usage(runs),
        details=_training_details(runs),
        found=next(filter(None, (table.found for table in tables)), []),
        base=[row for row in scores if "(base)" in str(row["Model"])],
        closeness=_closeness(scores),
        tables=[(table, html(table, f"{table.title}, scrolls")) for table in tables],
        figures=[_figure_part(Path(path)) for path in files["figures"]],
        translations=translations,
        attention=whole_weights(read_summed(files["attention"], Attention)) if files["attention"] else None,
        colors=COLORS,
        cards=run_cards(runs, files["scores"]),
        gaps=gaps + no_translations,
    )
    write(output, text)
    logger.info("%s: %.1f MB", output, len(text.encode()) / 1e6)


def _missing_files(what: str, expected: Iterable[str], present: Iterable[str]) -> list[tuple[str, str]]:
    """List the missing files, with paths from the task on."""
    missing = ["/".join(Path(path).parts[-4:]) for path in dict.fromkeys(expected) if path not in set(present)]
    return [(what, f"no file {', '.join(missing)}")] if missing else []


def _figure_part(path: Path) -> dict[str, Any]:
    """Describe a figure from NAME.json and NAME.svg. The SVG becomes a data: URL, so that the page is one file."""
    about = read_json(path.with_suffix(".json"), Description)
    # A URL has no line breaks. Double quotes would take three bytes; no attribute of a drawing contains single ones.
    drawing = " ".join(path.read_text("utf-8").split()).replace("> <", "><").replace('"', "'")
    # Jinja would escape each single quote; in the double quotes of `src`, only & must be escaped.
    address = Markup(f"data:image/svg+xml,{quote(drawing, safe=_AS_IT_IS)}".replace("&", "&amp;"))
    return about | {"name": path.stem, "address": address, "wide": about["inches"] > _ONE_COLUMN}


# Samples. BLEU of a single sentence is usually 0, so chrF ranks translations. Parses are not shown, because
# licences of treebanks often forbid publication.


def _draw_samples(present: list[str], translations: list[list[str]], most: int) -> tuple[list[dict], list]:
    """Choose sentences of each run with all files. Return `run`, the `metric` of scores, and `kinds` (see `choose`)."""
    chosen, gaps = [], []
    for paths in translations:
        run = "/".join(Path(paths[0]).parts[-4:-1])
        missing = _missing_files(f"Sample translations of {run}", paths, present)
        gaps += missing
        if not missing:
            chosen.append(_sample_translations(run, *paths, most))
    return chosen, gaps


class _Sample(NamedTuple):
    """A sentence of a test set. line: number from 1. score: from 0 to 100."""

    line: int
    score: float
    source: str
    reference: str
    ours: str


def choose(sentences: list[_Sample], most: int) -> dict[str, list[_Sample]]:
    """Choose up to `most` different sentences of each kind. Ties are resolved by line number."""
    ranked = sorted(sentences, key=lambda sentence: -sentence.score)
    best, rest = ranked[:most], ranked[most:]
    worst = sorted(rest, key=lambda sentence: sentence.score)[:most]
    others = sorted(set(rest) - set(worst))  # by line
    drawn = random.Random(1).sample(others, min(most, len(others)))
    return {"best": best, "worst": worst, "random": sorted(drawn)}


def _sample_translations(run: str, hypotheses: str, sources: str, references: str, most: int) -> dict[str, Any]:
    from sacrebleu.metrics import CHRF  # a late import, because a page without translations does not need it

    metric = CHRF()
    require_scored(Path(hypotheses).with_suffix(".json"), Path(hypotheses), Path(references))
    pairs = zip(list(read_pairs(sources, references)), list(read_pairs(hypotheses, references)), strict=True)
    sentences = [
        _Sample(line, metric.sentence_score(ours, [reference]).score, source, reference, ours)
        for line, ((source, _), (ours, reference)) in enumerate(pairs, start=1)
    ]
    signature = f"chrF of the sentence, `{metric.get_signature().format()}`"
    return {"run": run, "metric": signature, "kinds": choose(sentences, most)}


# Scores and training runs.


def _closeness(scores: list[Row]) -> Markup:
    """Return our and the paper's scores, or only ours on other data. Return "" without scores."""
    if not any(str(row["− paper"]) for row in scores):
        scores = [{heading: cell for heading, cell in row.items() if "aper" not in heading} for row in scores]
    table = Table("closeness", "Scores", cells.note("closeness", "caption"), Grid(("Model",), scores), [])
    return html(table, scrolls="Scores, scrolls") if scores else Markup()


def _usage(runs: dict[str, Trained]) -> list[dict[str, Any]]:
    """Sum the training hours by unit. A run that continued on another machine counts fully there."""
    rows = [(*cells.units(run["starts"][-1]), run["seconds"] / 3600) for run in runs.values()]
    trained = pd.DataFrame(rows, columns=["unit", "count", "hardware", "hours"])
    trained["hours"] *= trained["count"]
    return [
        {"unit": unit, "hours": each["hours"].sum(), "runs": len(each), "hardware": sorted(set(each["hardware"]))}
        for unit, each in trained.groupby("unit")
    ]


def _training_details(runs: dict[str, Trained]) -> Markup:
    """Return the reviewers' checklist: a row for each run, and links to further answers. Return "" without runs."""
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


# Cards of runs.


class _RunCard(NamedTuple):
    """The training of a run as texts by heading, and its averages, decoding and scores by score file."""

    run: str
    facts: dict[str, str]
    scores: list[dict[str, Any]]

    def line(self) -> str:
        """Format the run's name, end and scores by the paper's metric in one line."""
        measures = ((score["file"], *measure) for score in self.scores for measure in score["measures"])
        shown = [f"{file} {value:.2f}" for file, name, value, _ in measures if name.endswith("*") or name == "F1"]
        commit, scored = short(self.facts["Commit"]), {short(score["commit"]) for score in self.scores}
        others = [f"scored at {each}" for each in sorted(scored - {commit})]
        return ", ".join([f"{self.run}: {self.facts['Finished']}", f"commit {commit}", *others, *shown])

    def text(self) -> str:
        """Format the card for a terminal."""
        lines = [self.run, *(f"  {heading:18}{text}" for heading, text in self.facts.items())]
        for score in self.scores:
            how = f"{score['averaged']}; {score['decoding']}; scored at commit {short(score['commit'])}"
            lines.append(f"  {score['file']}: {how}")
            lines += [f"    {name:16}{value:6.2f}  {signature}" for name, value, signature in score["measures"]]
        return "\n".join(lines)


def read_run_records(paths: Iterable[str | Path]) -> dict[str, Trained]:
    return {run_name(run): run for run in (read_trained(path) for path in paths)}


def run_cards(runs: dict[str, Trained], scores: Iterable[str | Path]) -> list[_RunCard]:
    """Make a card for each run. A score without run.json uses the score file's copy."""
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
            "commit": run.get("scored_with", run)["commit"],
            "measures": measures,
        }
        cards.setdefault(run_name(run), _RunCard(run_name(run), _facts(run), [])).scores.append(about)
    return list(cards.values())


def _facts(run: Trained) -> dict[str, str]:
    place = "results/{scale}/runs/{task}/{experiment}/{seed}/run.json".format_map(run)
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
        "Command": f"snakemake --cores all --config scale={run['scale']} -- {place}",
    }
