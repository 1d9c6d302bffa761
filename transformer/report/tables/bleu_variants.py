"""Why is my BLEU not 27.3? The effect of each choice in scoring, averaging, decoding and training.

The table changes one choice at a time for our base model. It needs no further training: runs with other training are
from Table 3. The table lists missing runs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd

from transformer.config.experiment import load
from transformer.data.corpus import Subwords
from transformer.data.tokenization import Tokenizer
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, token_bleu
from transformer.evaluation.scores import read_scores
from transformer.evaluation.significance import bleu_draws
from transformer.report.tables import cells
from transformer.report.tables.render import Column, Table, lay_out
from transformer.report.tables.table2 import read_systems
from transformer.report.tables.table3 import read_last
from transformer.storage.checksums import require_scored
from transformer.storage.files import InputError, read_lines, read_pairs
from transformer.storage.records import read_translated

_NOT_RUN = "not run at this scale"


@dataclass(frozen=True)
class _Configured:
    """The base model's runs on the test set as configured, the reference for all other choices."""

    runs: pd.DataFrame  # a row per seed, from scores.read_scores
    hypotheses: list[list[str]]  # the translation of each run
    references: list[str]

    def row(self, kind: str, choice: str, scores: Sequence[float], p: float = math.nan) -> dict:
        """Make the row of one choice from its score for each run. Without scores, it is “not run”."""
        return _choice_row(kind, choice, scores, self.runs["bleu"], p, self.runs["name"])


def _choice_row(
    kind: str, choice: str, scores: Sequence[float], against: Sequence[float], p: float, runs: Iterable[str]
) -> dict:
    bleu, other = (fmean(values) if len(values) else math.nan for values in (scores, against))
    values = {"kind": kind, "choice": choice, "bleu": bleu, "difference": bleu - other, "p": p}
    return values | {"runs": " ".join(runs) if len(scores) else ""}


def bleu_variants(
    *,
    paper: str,
    score: list[str],
    hyp: list[str],
    last: list[str],
    ref: str,
    vocabulary: list[str],
    experiment: list[str],
    dev_score: list[str],
    measures: str,
    label: str,
    dev_label: str,
    expected: list[str],
    searches: dict[str, dict],
    **translations: list[str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    score, hyp, last: score file, translation, and optional translation with the last checkpoint, for each seed of base
    on the test set. ref: its reference. vocabulary, experiment: files of the same runs, if complete. dev_score: score
    files of Table 3. measures: the CSV of benchmarks/measures.py. searches: changes of other searches, by the names in
    `translations`.
    """
    runs, dev = read_scores(score), read_last(dev_score)
    others = _of_other_system(measures)
    rows = list(others)
    if len(runs):
        base = _configured(runs, score, hyp, ref)
        averaged = f"only the last checkpoint, not the average of {len(runs['averaged_steps'].iloc[0])}"
        rows += [base.row("configured", "as configured", runs["bleu"])]
        rows += _of_own_text(base, score, vocabulary, experiment)
        rows.append(_of_translations(base, "averaging", averaged, _read_all(last, ref)))
        decoding = runs["decoding"].iloc[0]
        for search, changes in searches.items():
            choice = "; ".join(f"{key} {value}, not {decoding[key]}" for key, value in changes.items())
            rows.append(_of_translations(base, "decoding", choice, _read_all(translations[search], ref)))
        ends = {"lowest": runs["bleu"].min(), "highest": runs["bleu"].max()} if len(runs) > 1 else {}
        rows += [base.row("training", f"the {end} of {len(runs)} seeds", [bleu]) for end, bleu in ends.items()]
        rows += [] if ends else [base.row("training", "another seed", [])]
    rows += _of_training(dev, list(dict.fromkeys(name.split("/")[1] for name in expected)))
    frame = pd.DataFrame(rows, columns=["kind", "choice", "bleu", "difference", "p", "runs"])
    both = pd.concat([scores for scores in (runs, dev) if len(scores)] or [runs], ignore_index=True)
    notes = [*cells.gaps(expected, both), *cells.fixed("bleu_variants.p", "bleu_variants.not_measured")]
    notes.append(cells.note("bleu_variants", "others", kind=others[0]["kind"]))
    if len(both):
        variants, metric = both["variants"].iloc[0], both["paper"].iloc[0]
        notes.append(cells.note("bleu_variants", "configured", metric=metric, signature=variants[metric]["signature"]))
        notes += cells.provenance(both)
    printed = {row["model"]: row for row in read_systems(paper)}["Transformer (base)"]["en-de_bleu"]
    told = {"printed": printed, "label": label, "dev_label": dev_label}
    return cells.captioned("bleu_variants", lay_out(frame, _CHOICE_COLUMNS), notes, **told), frame


_CHOICE_COLUMNS = [
    Column("Kind", "kind", key=True),
    Column("Choice", "choice", key=True),
    Column("BLEU", lambda row: cells.ours(cells.mean_text(row["bleu"], math.nan, 2) or _NOT_RUN, row["runs"])),
    Column("Difference", lambda row: cells.ours(cells.difference_text(row["difference"], 2), row["runs"])),
    Column("p", lambda row: cells.ours(cells.p_text(row["p"]), row["runs"])),
]


def _configured(runs: pd.DataFrame, score: list[str], hyp: list[str], ref: str) -> _Configured:
    """Read the base model's translations. Raises InputError without them."""
    for scored, translation in zip(score, hyp, strict=False):  # a partial page has all translations or none
        require_scored(Path(scored), Path(translation), Path(ref))
    base = _Configured(runs, _read_all(hyp, ref), list(read_lines(ref)))
    if not base.hypotheses:
        raise InputError(f"hyp: expected the translations that {score[0]} is of, found none")
    return base


def _read_all(paths: list[str], reference: str) -> list[list[str]]:
    return [[line for line, _ in read_pairs(path, reference)] for path in paths]


def _of_other_system(path: str | Path) -> list[dict]:
    """List the first system's rows of scoring in the CSV of benchmarks/measures.py, the paper's metric first."""
    table = cells.read_printed(path)
    first = table[(table["system"] == table["system"].iloc[0]) & (table["kind"] != "ours")]
    kind, values = f"scoring of {first['system'].iloc[0]}", first["value"].astype(float)
    choices = zip(first["choice"], values, strict=True)
    return [_choice_row(kind, choice, [value], values[:1], math.nan, ()) for choice, value in choices]


def _of_own_text(base: _Configured, score: list[str], vocabulary: list[str], experiment: list[str]) -> list[dict]:
    """Score subwords of the runs' vocabulary, and the subsets of the test set in the score files."""
    bleu = _of_subwords(base, vocabulary[0], experiment[0]) if vocabulary and experiment else []
    rows = [base.row("scoring", "subwords not joined, on both sides", bleu)]
    subsets = [read_translated(path)["subsets"] for path in score]
    for name, part in subsets[0].items():
        parts = [of_run[name]["scores"] for of_run in subsets]
        scores = [variants[variants["paper"]]["score"] for variants in parts]
        rows.append(base.row("scoring", f"the {part['sentences']} {name} sentences only", scores))
    return rows if subsets[0] else [*rows, base.row("scoring", "the filtered test set", [])]


def _of_subwords(base: _Configured, vocabulary: str, experiment: str) -> list[float]:
    """Score subword ids, without EOS, instead of words."""
    settings, subwords = load(experiment), Subwords(vocabulary)
    tokenizer, scores = Tokenizer(settings.target, settings.preprocessing), []
    for hypotheses in base.hypotheses:
        sides = ([tokenizer.tokenize(line) for line in side] for side in (hypotheses, base.references))
        ids = (subwords.encode(side) for side in sides)
        lines = ([" ".join(map(str, line[:-1])) for line in side] for side in ids)
        scores.append(measure(token_bleu(), *lines)["score"])
    return scores


def _of_translations(base: _Configured, kind: str, choice: str, translations: list[list[str]]) -> dict:
    """Score other translations by the same models for each run. Without translations, the row is “not run”."""
    if not translations:
        return base.row(kind, choice, [])
    language = base.runs["language"].iloc[0]
    reference = paper_reference(base.references, language)
    words = [paper_tokens(translation, language) for translation in translations]
    scores = [measure(token_bleu(), side, reference)["score"] for side in words]
    other = base.runs[["name"]].assign(bleu=scores, draws=[bleu_draws(side, reference) for side in words])
    return base.row(kind, choice, scores, cells.paired(other, base.runs).p)


def _of_training(runs: pd.DataFrame, experiments: list[str]) -> list[dict]:
    base, rows = runs.loc[runs["experiment"] == "base", "bleu"], []
    for experiment in experiments:
        same, against = runs[runs["experiment"] == experiment], base if experiment != "base" else []
        rows.append(_choice_row("training", f"{experiment} of Table 3", same["bleu"], against, math.nan, same["name"]))
    return rows
