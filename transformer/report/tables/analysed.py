"""Analyses of trained runs (transformer/evaluation), as Table 5 compares them, and as its notes show them."""

from collections.abc import Callable, Iterable

import pandas as pd

from transformer.evaluation.analyses import KINDS, PAYLOADS
from transformer.evaluation.scores import require_one
from transformer.records import read_of_run, run_name
from transformer.report.tables.cells import Row, mean_cell, ours
from transformer.report.tables.notes import note
from transformer.report.tables.render import Grid, Note

COMPARABLE = (
    "scale",
    "fidelity",
    "sentences",
    "target_sha256",
)  # in all files of an analysis, whose scores are compared
OF_RUN = ["name", "experiment", "seed"]
SLIGHT = 0.01  # nats per token: a head whose masking adds less to the loss changes perplexity by about 1 % at most

Pairs = list[tuple[str, pd.DataFrame, pd.DataFrame]]  # what is compared, in words, and its two systems


def read_analysis(name: str, paths: Iterable[str]) -> pd.DataFrame:
    """Read a row per file of an analysis: its content, `name`, `experiment`, `seed` and others of its run, and `file`.

    Raises InputError naming the file and what it lacks, and on files of other sentences, or of another scale.
    """
    contents = []
    for path in paths:
        content = read_of_run(path, PAYLOADS[name])
        run = content["run"]
        of_run = {"name": run_name(run)} | {key: run[key] for key in ("experiment", "seed", "scale", "fidelity")}
        contents.append(content | of_run | {"file": path})
    files = pd.DataFrame(contents, columns=[*PAYLOADS[name].__annotations__, *OF_RUN, "scale", "fidelity", "file"])
    for key in COMPARABLE:
        require_one(key, files)
    return files


def points(files: pd.DataFrame, key: str) -> pd.DataFrame:
    """List the entries of `key` of all files, a row each: the run, `place` in the list, and what the entry has."""
    return pd.DataFrame(
        {name: content[name] for name in OF_RUN} | {"place": place} | entry
        for content in files.to_dict("records")
        for place, entry in enumerate(content[key])
    )


# What is compared, by the name of the row in workflow/paper/table5.csv; and of which analysis.


def averages(files: pd.DataFrame) -> Pairs:
    """Compare averages with the last checkpoint alone."""
    pairs = []
    for experiment, same in points(files, "averages").groupby("experiment", sort=False):
        counts = dict(tuple(same.groupby("checkpoints")))
        last = counts.pop(1, same[:0])
        pairs += [(f"`{experiment}`, {count} checkpoints − the last", own, last) for count, own in counts.items()]
    return pairs


def smoothed(files: pd.DataFrame) -> Pairs:
    """Compare base with the same without smoothing, at each beam."""
    by_beam = points(files, "beams").groupby("beam")
    return [(f"`base` − `smoothing-0.0`, beam {beam}", *two(same, "smoothing-0.0")) for beam, same in by_beam]


def perplexities(files: pd.DataFrame) -> Pairs:
    """Compare the perplexity of base with that of the same without smoothing."""
    of_runs = files.rename(columns={"perplexity_draws": "draws", "perplexity": "bleu"})
    return [("perplexity, `base` − `smoothing-0.0`", *two(of_runs, "smoothing-0.0"))]


def longer(files: pd.DataFrame) -> Pairs:
    """Compare sinusoids with learned positions, on sentences that are longer than any in training."""
    groups = points(files, "groups")
    return [
        (f"`base` − `learned-positions`, {times:g} × the longest", *two(same, "learned-positions"))
        for times, same in groups[groups["times"] > 1].groupby("times")
    ]


def half_masked(files: pd.DataFrame) -> Pairs:
    """Compare the model with all heads to that with the middle one of the numbers of heads that were masked."""
    heads, pairs = points(files, "bleu"), []
    for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
        counts = sorted(of_kind["masked"].unique())
        half = counts[(len(counts) - 1) // 2]
        words = f"{half} heads masked − all, {KINDS.get(kind, kind)}"
        pairs.append((words, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
    return pairs


def two(points: pd.DataFrame, experiment: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    return points[points["experiment"] == "base"], points[points["experiment"] == experiment]


COMPARED: dict[str, tuple[str, Callable[[pd.DataFrame], Pairs]]] = {
    "averaging": ("averaging", averages),
    "smoothing": ("smoothing", smoothed),
    "perplexity": ("smoothing", perplexities),
    "lengths": ("lengths", longer),
    "masked": ("heads", half_masked),
}


# Grids for the notes.


def analysis_notes(analysed: dict[str, pd.DataFrame]) -> list[Note]:
    """Lay out each analysis that was made, with what it is, and of how many sentences."""
    notes: list[Note] = []
    for name, grid in GRIDS.items():
        if len(files := analysed[name]):
            sentences = f"Measured on {files['sentences'].iloc[0]:,} sentences of the dev set."
            notes += [f"{note('analyses', name)} {sentences}", grid(files)]
    return notes


def averaging_grid(files: pd.DataFrame) -> Grid:
    """Lay out BLEU and perplexity by how many checkpoints are averaged."""
    rows: list[Row] = [
        {
            "Experiment": experiment,
            "Checkpoints": str(count),
            "BLEU": mean_cell(same, "bleu", 2),
            "Perplexity": mean_cell(same, "perplexity", 3),
        }
        for (experiment, count), same in points(files, "averages").groupby(["experiment", "checkpoints"])
    ]
    return Grid(("Experiment",), rows)


def smoothing_grid(files: pd.DataFrame) -> Grid:
    """Lay out by smoothing: perplexity, how far probabilities are from the truth, in per cent, and BLEU by beam."""
    measures = pd.DataFrame(list(files["calibration"]))
    over = 100 * measures["confidence"] - 100 * measures["accuracy"]
    runs, beams, rows = files.assign(error=100 * measures["error"], over=over), points(files, "beams"), []
    for epsilon, same in runs.groupby("epsilon_ls"):
        row: Row = {"ε": f"{epsilon:g}", "Perplexity": mean_cell(same, "perplexity", 2)}
        row |= {"Calibration error, %": mean_cell(same, "error", 1), "Sure − right, %": mean_cell(same, "over", 1)}
        for beam, at_beam in beams[beams["name"].isin(same["name"])].groupby("beam"):
            row[f"BLEU, beam {beam}"] = mean_cell(at_beam, "bleu", 2)
            row[f"Words, beam {beam}"] = mean_cell(at_beam, "length_ratio", 3)
        rows.append(row)
    return Grid((), rows)


def lengths_grid(files: pd.DataFrame) -> Grid:
    """Lay out BLEU by the length of sentences, columns for each kind of positions."""
    groups = points(files, "groups")
    groups["positions"] = groups["name"].map(dict(zip(files["name"], files["positions"], strict=True)))
    rows: list[Row] = []
    for _, same in groups.groupby("place"):
        first = same.iloc[0]
        row: Row = {"Sentences": joined_text(first["times"]), "Number": f"{first['sentences']}"}
        row["Mean tokens"] = f"{first['tokens']:.1f}"
        for positions, of_kind in same.groupby("positions", sort=False):
            row[f"BLEU, {positions}"] = mean_cell(of_kind, "bleu", 1)
            row[f"Words, {positions}"] = mean_cell(of_kind, "length_ratio", 2)
        rows.append(row)
    return Grid(("Sentences",), rows)


def joined_text(times: float) -> str:
    """Name a group's sentences."""
    if pd.isna(times):
        return "as they are"
    return "joined, no longer than in training" if times == 1 else f"joined, {times:g} × the longest in training"


def heads_grid(files: pd.DataFrame) -> Grid:
    """Lay out by kind of attention how much single heads matter, how far they look, and BLEU with a part masked."""
    runs, heads, rows = " ".join(files["name"]), points(files, "bleu"), []
    for kind, words in KINDS.items():
        measures = [kinds[kind] for kinds in files["kinds"]]
        increases = [increase for measure in measures for layer in measure["increase"] for increase in layer]
        share = sum(increase < SLIGHT for increase in increases) / len(increases)
        layers = pd.DataFrame(
            [[sum(layer) / len(layer) for layer in measure["distance"]] for measure in measures]
        ).mean()
        alike = sum(measure["equal"] for measure in measures) / len(measures)
        row: Row = {
            "Attention": words,
            "Heads": str(len(increases) // len(measures)),
            f"Loss + < {SLIGHT}": ours(f"{100 * share:.0f} %", runs),
            "Loss +, at most": ours(f"{max(increases):.3f}", runs),
        }
        for count, same in heads[heads["kind"].isin([kind]) | (heads["masked"] == 0)].groupby("masked"):
            row[f"BLEU, {count} masked"] = mean_cell(same, "bleu", 1)
        row["Distance, by layer"] = ours(", ".join(f"{mean:.1f}" for mean in layers), runs)
        rows.append(row | {"If alike": ours(f"{alike:.1f}", runs)})
    return Grid(("Attention",), rows)


GRIDS = {"averaging": averaging_grid, "smoothing": smoothing_grid, "lengths": lengths_grid, "heads": heads_grid}
