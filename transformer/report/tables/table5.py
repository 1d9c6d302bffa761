"""Table 5: what the paper says, or takes for granted, of its own design, tested.

The paper has no such table. workflow/paper/table5.csv has each claim, what was published of it, and the row that tests
it: a run that leaves the part out, against one that has it, or an analysis of trained runs (transformer/evaluation).
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple

import pandas as pd

from transformer.evaluation import significance
from transformer.evaluation.analyses import KINDS, PAYLOADS, longest_of
from transformer.evaluation.scores import require_one
from transformer.report.tables import cells
from transformer.report.tables.render import Cell, Column, Grid, Row, Table, lay_out
from transformer.report.tables.table3 import read_last
from transformer.storage.records import read_of_run, run_name

_PERPLEXITY = "perplexity"  # the row that compares it; the others compare BLEU
_RUN_KEYS = ["name", "experiment", "seed"]
_SLIGHT = 0.01  # nats per token: a head whose masking adds less to the loss changes perplexity by about 1 % at most

_Pairs = list[tuple[str, pd.DataFrame, pd.DataFrame]]  # what is compared, in words, and its two systems


class Claim(NamedTuple):
    """A row of workflow/paper/table5.csv."""

    section: str
    claim: str
    row: str  # the experiment, or the analysis, that tests it
    against: str
    expected: str
    effect: float  # size of the published difference, in its own unit, if it is less than MARGIN; else MARGIN
    published: str
    source: str


def table5(
    *,
    paper: str,
    score: list[str],
    test: list[str],
    label: str,
    dev_label: str,
    expected: list[str],
    claims: dict[str, dict],
    probes: list[str],
    **analyses: list[str],
) -> tuple[Table, pd.DataFrame]:
    """Make the table.

    score, test: score files on the dev set and on the test set. claims: the rows that are trained for this table.
    probes: all analyses that should be there, each as ANALYSIS:RUN. analyses: the files of each analysis.
    """
    runs, tested = read_last(score), read_last(test)
    analysed = {name: _read_analysis(name, analyses[name]) for name in PAYLOADS}
    printed = read_claims(paper)
    named = {name for claim in printed for name in (claim.row, claim.against)}
    others = [name for name in runs["experiment"].unique() if name in claims and name not in named]  # a user's
    own_rows = [
        Claim("", f"For comparison: `{name}`.", name, "base", "", significance.MARGIN, "", "") for name in others
    ]
    compared = [row for claim in printed + own_rows for row in _compare_claim(claim, runs, tested, analysed)]
    frame = _frame_of(compared)
    rows = _lines(compared)
    there = [f"{analysis}:{name}" for analysis, files in analysed.items() for name in files["name"]]
    unmeasured = ", ".join(name.replace(":", " of ") for name in cells.missing(probes, there))
    published = pd.DataFrame([claim._asdict() for claim in printed if claim.published], columns=Claim._fields)
    notes = [*cells.fixed("table5.how", "table5.detail"), lay_out(rows, _CLAIM_COLUMNS, detail=True)]
    notes += cells.gaps(expected, runs)
    notes += [cells.note("table5", "gaps", names=unmeasured)] if unmeasured else []
    notes += [[line.format(**cells.CONSTANTS) for line in cells.WORDS["table5"]["verdicts"]]]
    notes += [*cells.fixed("table5.chance"), cells.tests_note(frame["value"], frame["p"])]
    notes += [*cells.fixed("scores.perplexity", "table5.published"), lay_out(published, _PUBLISHED_COLUMNS)]
    for name, grid in _GRIDS.items():
        if len(files := analysed[name]):
            sentences = f"Measured on {files['sentences'].iloc[0]:,} sentences of the dev set."
            notes += [f"{cells.note('analyses', name)} {sentences}", grid(files)]
    own = runs[runs["experiment"].isin({row["row"] for row in compared})]
    notes += cells.provenance(own, {"bleu": "BLEU", "dev_perplexity": "Perplexity"}, cells.note("table5", "trained"))
    main = lay_out(rows, _CLAIM_COLUMNS)
    return cells.captioned("table5", main, notes, label=dev_label, test_label=label), frame


def read_claims(path: str) -> list[Claim]:
    table = cells.read_printed(path)
    table["effect"] = pd.to_numeric(table["effect"]).fillna(significance.MARGIN)
    return [Claim(**line) for line in table[list(Claim._fields)].to_dict("records")]


def _compare_claim(
    claim: Claim, runs: pd.DataFrame, tested: pd.DataFrame, analysed: dict[str, pd.DataFrame]
) -> list[dict[str, Any]]:
    """Test a claim: add what is `compared`, differences and verdicts, in a row for each comparison.

    A trained row has a second difference, `test`, of averaged weights on the test set.
    """
    if claim.row in COMPARED:
        analysis, pairs_of = COMPARED[claim.row]
        pairs = pairs_of(analysed[analysis]) if len(analysed[analysis]) else []
        compared = [(words, _tell(claim, own, other), (None, "")) for words, own, other in pairs]
    else:
        words = f"`{claim.row}` − `{claim.against}`" if claim.row in set(runs["experiment"]) else ""
        told = []
        for measured in (runs, tested):
            own, other = (measured[measured["experiment"] == name] for name in (claim.row, claim.against))
            told.append(_tell(claim, own, other, measured))
        compared = [(words, *told)]
    rows = []
    for words, (difference, said), (test, said_of_test) in compared or [("", (None, "not run"), (None, ""))]:
        row = {"compared": words, "difference": difference, "verdict": said, "test": test}
        rows.append(claim._asdict() | row | {"test_verdict": said_of_test if test else ""})
    return rows


def _tell(claim: Claim, own: pd.DataFrame, other: pd.DataFrame, pool: pd.DataFrame | None = None):
    """Compare two systems: the difference, if both were run, and the verdict."""
    if not (len(own) and len(other)):
        return None, "not run"
    difference = cells.paired(own, other, pool)
    least = 0.0 if claim.row == _PERPLEXITY else significance.TRANSLATES
    return difference, significance.verdict(claim.expected, difference, claim.effect, least)


def _frame_of(compared: list[dict[str, Any]]) -> pd.DataFrame:
    """List a row per comparison with all digits, for the CSV file."""
    rows = []
    for row in compared:
        values, test = dict.fromkeys(significance.Difference._fields), row["test"]
        if difference := row["difference"]:
            values = difference._asdict() | {"runs": " ".join(difference.runs)}
        start = {name: row[name] for name in ("section", "claim", "row", "expected", "compared")}
        second = {f"test_{name}": getattr(test, name, None) for name in ("value", "low", "high", "p")}
        rows.append(start | values | {"verdict": row["verdict"]} | second | {"test_verdict": row["test_verdict"]})
    frame = pd.DataFrame(rows).astype(dict.fromkeys(["seeds", "seeds_against"], "Int64"))
    frame.insert(frame.columns.get_loc("p") + 1, "p_holm", significance.holm(frame["p"]))
    return frame


def _lines(compared: list[dict[str, Any]]) -> pd.DataFrame:
    """List a line per comparison; several of one claim are named by what they compare, below a line of the claim."""
    rows = []
    for _, same in groupby(compared, key=itemgetter(*Claim._fields)):
        several = list(same)
        if len(several) > 1:
            blank = dict.fromkeys(("expected", "compared", "verdict", "test_verdict"), "")
            blank |= dict.fromkeys(("difference", "test"))
            own = [row | {"claim": f"– {row['compared']}", "section": "", "compared": ""} for row in several]
            several = [several[0] | blank, *own]
        rows += several
    return pd.DataFrame(rows)


def _difference_column(heading: str, text: str, detail: bool = False, key: str = "difference") -> Column:
    """Show a field of a difference in BLEU or perplexity, by a format that gets the fields as texts."""

    def cell(row: dict) -> Cell:
        difference, perplexity = row[key], row["row"] == _PERPLEXITY
        if difference is None:
            return Cell("")
        decimals, unit = (2, " PPL") if perplexity else (1, "")
        texts = {name: cells.difference_text(getattr(difference, name), decimals) for name in ("value", "low", "high")}
        texts |= {"score": cells.mean_text(difference.score, nan, decimals), "p": cells.p_text(difference.p)}
        texts["seeds"] = " / ".join(map(str, dict.fromkeys((difference.seeds, difference.seeds_against))))
        return cells.ours(text.format(**texts, unit=unit), " ".join(difference.runs))

    return Column(heading, cell, detail)


def _verdict_column(heading: str, key: str, of: str) -> Column:
    def cell(row: dict) -> Cell:
        said = cells.said(row[of], row["verdict"], row["test_verdict"])
        return cells.ours(said, " ".join(getattr(row[key], "runs", ())))

    return Column(heading, cell, text=True)


_WHOLE = "{value}{unit} ({low} to {high})"
_CLAIM_COLUMNS = [
    Column("Claim", "claim", key=True),
    _verdict_column("Seen on dev?", "difference", "verdict"),
    _difference_column("Dev", _WHOLE),
    _verdict_column("Seen on test?", "test", "test_verdict"),
    _difference_column("Test", _WHOLE, key="test"),
    Column("Compared: expected", lambda row: ": ".join(filter(None, (row["compared"], row["expected"]))), text=True),
    Column("§", "section", detail=True, text=True),
    _difference_column("First", "{score}", detail=True),
    _difference_column("p", "{p}", detail=True),
    _difference_column("Seeds", "{seeds}", detail=True),
]


_PUBLISHED_FIELDS = {"§": "section", "Claim": "claim", "Published": "published", "Source": "source"}
_PUBLISHED_COLUMNS = [Column(heading, field, text=True) for heading, field in _PUBLISHED_FIELDS.items()]

# Analyses of trained runs (transformer/evaluation): what is compared, and the grids of the notes.


def _read_analysis(name: str, paths: Iterable[str]) -> pd.DataFrame:
    """Read a row per file of an analysis, with its run. Raises InputError on files that do not belong together."""
    contents = []
    for path in paths:
        content = read_of_run(path, PAYLOADS[name])
        run = content["run"]
        of_run = {"name": run_name(run)} | {key: run[key] for key in ("experiment", "seed", "scale", "fidelity")}
        contents.append(content | of_run | {"file": path})
    files = pd.DataFrame(contents, columns=[*PAYLOADS[name].__annotations__, *_RUN_KEYS, "scale", "fidelity", "file"])
    require_one(files, "scale", "fidelity", "sentences", "target_sha256")
    return files


def _points(files: pd.DataFrame, key: str) -> pd.DataFrame:
    """List the entries of `key` of all files, a row each: the run, `place` in the list, and what the entry has."""
    return pd.DataFrame(
        {name: content[name] for name in _RUN_KEYS} | {"place": place} | entry
        for content in files.to_dict("records")
        for place, entry in enumerate(content[key])
    )


def _averages(files: pd.DataFrame) -> _Pairs:
    pairs = []
    for experiment, same in _points(files, "averages").groupby("experiment", sort=False):
        counts = dict(tuple(same.groupby("checkpoints")))
        last = counts.pop(1, same[:0])
        pairs += [(f"`{experiment}`, {count} checkpoints − the last", own, last) for count, own in counts.items()]
    return pairs


def _half_masked(files: pd.DataFrame) -> _Pairs:
    """Compare the model with all heads to that with the middle one of the numbers of heads that were masked."""
    heads, pairs = _points(files, "bleu"), []
    for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
        counts = sorted(of_kind["masked"].unique())
        half = counts[(len(counts) - 1) // 2]
        words = f"{half} heads masked − all, {KINDS.get(kind, kind)}"
        pairs.append((words, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
    return pairs


def _base_and(part: str, points: pd.DataFrame, words: str) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    return words, points[points["experiment"] == "base"], points[points["experiment"] == part]


def _smoothed(files: pd.DataFrame) -> _Pairs:
    words = "`base` − `smoothing-0.0`, beam"
    by_beam = _points(files, "beams").groupby("beam")
    return [_base_and("smoothing-0.0", same, f"{words} {beam}") for beam, same in by_beam]


def _perplexities(files: pd.DataFrame) -> _Pairs:
    of_runs = files.rename(columns={"perplexity_draws": "draws", "perplexity": "bleu"})
    return [_base_and("smoothing-0.0", of_runs, "perplexity, `base` − `smoothing-0.0`")]


def _longer(files: pd.DataFrame) -> _Pairs:
    words, groups = "`base` − `learned-positions`", _points(files, "groups")
    longer = groups[groups["times"] > 1].groupby("times")
    return [_base_and("learned-positions", same, f"{words}, {times:g} × {_longest(files)}") for times, same in longer]


def _longest(files: pd.DataFrame) -> str:
    return longest_of(files["quantile"].fillna(1).min())


# By the name of the row in workflow/paper/table5.csv: the analysis, and what is compared in it.
COMPARED: dict[str, tuple[str, Callable[[pd.DataFrame], _Pairs]]] = {
    "averaging": ("averaging", _averages),
    "smoothing": ("smoothing", _smoothed),
    "perplexity": ("smoothing", _perplexities),
    "lengths": ("lengths", _longer),
    "masked": ("heads", _half_masked),
}


def _averaging_grid(files: pd.DataFrame) -> Grid:
    rows: list[Row] = [
        {
            "Experiment": experiment,
            "Checkpoints": str(count),
            "BLEU": cells.mean_cell(same, "bleu", 2),
            "Perplexity": cells.mean_cell(same, "perplexity", 3),
        }
        for (experiment, count), same in _points(files, "averages").groupby(["experiment", "checkpoints"])
    ]
    return Grid(("Experiment",), rows)


def _tuning_grid(files: pd.DataFrame) -> Grid:
    rows: list[Row] = []
    for beam, at_beam in _points(files, "searches").groupby("beam"):
        by_alpha = at_beam.groupby("alpha")
        rows.append({"Beam": str(beam)} | {f"BLEU, α {a:g}": cells.mean_cell(same, "bleu", 2) for a, same in by_alpha})
    return Grid(("Beam",), rows)


def _smoothing_grid(files: pd.DataFrame) -> Grid:
    measures = pd.DataFrame(list(files["calibration"]))
    over = 100 * measures["confidence"] - 100 * measures["accuracy"]
    runs, beams, rows = files.assign(error=100 * measures["error"], over=over), _points(files, "beams"), []
    for epsilon, same in runs.groupby("epsilon_ls"):
        row: Row = {
            "ε": f"{epsilon:g}",
            "Perplexity": cells.mean_cell(same, "perplexity", 2),
            "Calibration error, %": cells.mean_cell(same, "error", 1),
            "Sure − right, %": cells.mean_cell(same, "over", 1),
        }
        for beam, at_beam in beams[beams["name"].isin(same["name"])].groupby("beam"):
            row[f"BLEU, beam {beam}"] = cells.mean_cell(at_beam, "bleu", 2)
            row[f"Words, beam {beam}"] = cells.mean_cell(at_beam, "length_ratio", 3)
        rows.append(row)
    return Grid((), rows)


def _lengths_grid(files: pd.DataFrame) -> Grid:
    groups = _points(files, "groups")
    groups["positions"] = groups["name"].map(dict(zip(files["name"], files["positions"], strict=True)))
    rows: list[Row] = []
    for _, same in groups.groupby("place"):
        first, times = same.iloc[0], same["times"].iloc[0]
        joined = "no longer than in training" if times == 1 else f"{times:g} × {_longest(files)} in training"
        sentences = "as they are" if pd.isna(times) else f"joined, {joined}"
        row: Row = {"Sentences": sentences, "Number": f"{first['sentences']}", "Mean tokens": f"{first['tokens']:.1f}"}
        for positions, of_kind in same.groupby("positions", sort=False):
            row[f"BLEU, {positions}"] = cells.mean_cell(of_kind, "bleu", 1)
            row[f"Words, {positions}"] = cells.mean_cell(of_kind, "length_ratio", 2)
        rows.append(row)
    return Grid(("Sentences",), rows)


def _heads_grid(files: pd.DataFrame) -> Grid:
    """Lay out by kind of attention how much single heads matter, how far they look, and BLEU with a part masked."""
    runs, heads, rows = " ".join(files["name"]), _points(files, "bleu"), []
    for kind, words in KINDS.items():
        measures = [kinds[kind] for kinds in files["kinds"]]
        increases = [increase for measure in measures for layer in measure["increase"] for increase in layer]
        share = sum(increase < _SLIGHT for increase in increases) / len(increases)
        means = [[sum(layer) / len(layer) for layer in measure["distance"]] for measure in measures]
        alike = sum(measure["equal"] for measure in measures) / len(measures)
        row: Row = {
            "Attention": words,
            "Heads": str(len(increases) // len(measures)),
            f"Loss + < {_SLIGHT}": cells.ours(f"{100 * share:.0f} %", runs),
            "Loss +, at most": cells.ours(f"{max(increases):.3f}", runs),
        }
        for count, same in heads[heads["kind"].isin([kind]) | (heads["masked"] == 0)].groupby("masked"):
            row[f"BLEU, {count} masked"] = cells.mean_cell(same, "bleu", 1)
        row["Distance, by layer"] = cells.ours(", ".join(f"{mean:.1f}" for mean in pd.DataFrame(means).mean()), runs)
        rows.append(row | {"If alike": cells.ours(f"{alike:.1f}", runs)})
    return Grid(("Attention",), rows)


_GRIDS = {"averaging": _averaging_grid, "smoothing": _smoothing_grid, "lengths": _lengths_grid, "heads": _heads_grid}
_GRIDS |= {"tuning": _tuning_grid}
