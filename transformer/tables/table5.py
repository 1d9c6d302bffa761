"""Table 5: what the paper claims about its own design, tested.

The paper has no such table. --paper has each claim, what others published of it, and the row that tests it: a run that
leaves the part out, against one that has it, or a measurement on trained runs (transformer/probes).
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import pandas as pd

from transformer.commandline import score_arguments
from transformer.common.files import InputError
from transformer.scoring.significance import RESAMPLES, SEED
from transformer.tables import probed
from transformer.tables.cells import Cell, Row, difference_text
from transformer.tables.csvfiles import read_csv
from transformer.tables.differences import LEVEL, MARGIN, Difference, paired, verdict
from transformer.tables.notes import gaps, provenance
from transformer.tables.render import Grid, Note, Table
from transformer.tables.table3 import read_runs

TITLE = "Table 5: the paper's claims about its design"
EXPECTED = ("worse", "better", "alike")
NOT_RUN = "not run"
PROBES = ("averaging", "smoothing", "lengths", "heads")

HOW_NOTE = (
    "Difference: BLEU of the first less BLEU of the second of what is compared, over the seeds that both have; 95 % "
    f"and p by paired bootstrap resampling, {RESAMPLES:,} draws of the sentences with seed {SEED}. Expected: what the "
    "first should be if the claim holds."
)
HERE_NOTE = [
    f"seen here: better or worse as expected, with p < {LEVEL}; or alike, the whole interval within {MARGIN:g} BLEU",
    f"not seen here: the opposite, with p < {LEVEL}; or an effect of {MARGIN:g} BLEU lies outside the interval",
    "cannot be told: anything else",
]
SEED_NOTE = (
    "The test knows the chance that lies in the choice of sentences, not the one in training: where there is one seed, "
    "another can move a small difference from one side to the other."
)
TRAINED_NOTE = (
    "The trained rows; config.yaml says in what each differs from base. How much slower additive attention is, Table 1 "
    "measures."
)
AVERAGING_NOTE = "Checkpoints averaged (§6.1): the last so many of base; no more are kept than a run averages."
SMOOTHING_NOTE = (
    "Label smoothing (§5.4). Calibration error: the mean distance between how sure the model is of its most probable "
    "token and how often that is right, in ten classes (Guo et al. 2017), after the reference's own prefixes. Length: "
    "tokens written for each token of the reference."
)
LENGTHS_NOTE = (
    "Length (§3.5): sentences as they are, in four groups by length; and neighbours joined until they are so many "
    "times as long as the longest sentence in training. Joined sentences are unlike those in training in more than "
    "length: the row of 1 × shows what that costs."
)
HEADS_NOTE = (
    "Heads of base masked (§3.2.2): each alone, by how much the loss per token rises, in nats; then several, found "
    "greedily by the loss. Distance: how many tokens lie on average between a query and what it looks at."
)


class Claim(NamedTuple):
    """A row of --paper."""

    section: str
    claim: str
    row: str  # the experiment, or the measurement, that tests it
    against: str
    expected: str
    published: str
    source: str


class Comparison(NamedTuple):
    """Two systems compared for a claim; `difference` is None where one was not run."""

    claim: Claim
    compared: str
    difference: Difference | None


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--label", required=True, metavar="TEXT", help="the dev set behind our numbers")
    for probe in PROBES:
        parser.add_argument(f"--{probe}", default=[], metavar="JSON", nargs="*", help=f"files of the probe {probe}")
    score_arguments(parser)


def make(args: Namespace) -> tuple[Table, pd.DataFrame]:
    runs = read_runs(args.score)
    measured = {probe: probed.read_probes(getattr(args, probe)) for probe in PROBES}
    frames = frames_of(measured)
    claims = read_claims(args.paper)
    comparisons = [comparison for claim in claims for comparison in compare(claim, runs, frames)]
    frame = pd.DataFrame([record(comparison) for comparison in comparisons]).astype({"seeds": "Int64"})
    return for_readers(claims, comparisons, runs, (measured, frames), args.label, args.expected), frame


def read_claims(path: str) -> list[Claim]:
    """Return the claims. Raises InputError naming the file and what it should have."""
    table = read_csv(path, list(Claim._fields))
    for expected in table["expected"]:
        if expected not in EXPECTED:
            raise InputError(f"{path}: expected: expected {' or '.join(EXPECTED)}, found {expected!r}")
    return [Claim(*row) for row in table[list(Claim._fields)].itertuples(index=False)]


def frames_of(measured: dict[str, list[dict[str, Any]]]) -> dict[str, pd.DataFrame]:
    """Return the scored points of each probe."""
    lengths = [
        content | {"groups": [group | {"positions": content.get("positions")} for group in content.get("groups", [])]}
        for content in measured["lengths"]
    ]
    groups = ["times", "tokens", "sentences", "length_ratio", "positions"]
    return {
        "averaging": probed.points(measured["averaging"], "averages", ["checkpoints", "perplexity"]),
        "smoothing": probed.points(measured["smoothing"], "beams", ["beam", "length_ratio"]),
        "lengths": probed.points(lengths, "groups", groups),
        "heads": probed.points(measured["heads"], "bleu", ["kind", "masked"]),
    }


def compare(claim: Claim, runs: pd.DataFrame, frames: dict[str, pd.DataFrame]) -> list[Comparison]:
    """Return what tests a claim: one comparison of trained runs, or several of a probe's points."""
    if claim.row in PROBED:
        pairs = PROBED[claim.row](frames)
    else:
        own, other = (runs[runs["experiment"] == name] for name in (claim.row, claim.against))
        pairs = [(f"`{claim.row}` − `{claim.against}`", own, other)]
    return [Comparison(claim, compared, paired(own, other)) for compared, own, other in pairs] or [
        Comparison(claim, "", None)
    ]


Pairs = list[tuple[str, pd.DataFrame, pd.DataFrame]]  # what is compared, in words, and its two systems


def averaging(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare averages with the last checkpoint alone."""
    counts = dict(tuple(frames["averaging"].groupby("checkpoints")))
    return [
        (f"{count} checkpoints − the last", counts[count], counts[1]) for count in counts if count != 1 and 1 in counts
    ]


def smoothing(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare base with the same without smoothing, at each beam."""
    beams = frames["smoothing"].groupby("beam")
    return [
        (
            f"`base` − `smoothing-0.0`, beam {beam}",
            of_experiment(at_beam, "base"),
            of_experiment(at_beam, "smoothing-0.0"),
        )
        for beam, at_beam in beams
    ]


def lengths(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare sinusoids with learned positions on joined sentences."""
    joined = frames["lengths"].dropna(subset="times").groupby("times")
    names = ("base", "learned-positions")
    return [
        (f"`{names[0]}` − `{names[1]}`, {times:g} × the longest", *(of_experiment(at, name) for name in names))
        for times, at in joined
    ]


def masked(frames: dict[str, pd.DataFrame]) -> Pairs:
    """Compare the model with about half of the heads of one kind masked, and with all."""
    heads, pairs = frames["heads"], []
    for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
        counts = sorted(of_kind["masked"].unique())
        half = counts[len(counts) // 2]
        name = f"{half} heads masked − all, {probed.KINDS.get(kind, kind)}"
        pairs.append((name, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
    return pairs


PROBED: dict[str, Callable[[dict[str, pd.DataFrame]], Pairs]] = {
    "averaging": averaging,
    "smoothing": smoothing,
    "lengths": lengths,
    "masked": masked,
}


def of_experiment(points: pd.DataFrame, name: str) -> pd.DataFrame:
    return points[points["experiment"] == name]


def record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison with all digits, for the CSV file."""
    claim, compared, difference = comparison
    row = {"section": claim.section, "claim": claim.claim, "compared": compared, "expected": claim.expected}
    values = dict.fromkeys([field.name for field in fields(Difference)])
    if difference is None:
        return row | values | {"verdict": NOT_RUN}
    return row | vars(difference) | {"runs": " ".join(difference.runs), "verdict": verdict(claim.expected, difference)}


def for_readers(
    claims: list[Claim],
    comparisons: list[Comparison],
    runs: pd.DataFrame,
    probes: tuple[dict[str, list[dict]], dict[str, pd.DataFrame]],
    label: str,
    expected: list[str],
) -> Table:
    """Return the table, then what was published, and all that was measured."""
    caption = (
        "What the paper claims about its own design, and what is seen here: one part left out or exchanged at a time. "
        f"BLEU of {label}; trained rows by their last checkpoint alone, as Table 3."
    )
    published = [
        {"§": claim.section, "Claim": claim.claim, "Published": claim.published, "Source": claim.source}
        for claim in claims
        if claim.published
    ]
    notes: list[Note] = [
        *gaps(expected, runs),
        HOW_NOTE,
        HERE_NOTE,
        SEED_NOTE,
        "What was published, as it was read there:",
    ]
    notes += [Grid(("§", "Claim", "Published", "Source"), published), *measurements(*probes)]
    if len(runs):
        notes += [TRAINED_NOTE, provenance(runs, {"bleu": "BLEU", "dev_perplexity": "Perplexity"})]
    words = ("§", "Claim", "Compared", "Expected", "Here")
    return Table("table5", TITLE, caption, Grid(words, [cells(comparison) for comparison in comparisons]), notes)


def measurements(measured: dict[str, list[dict]], frames: dict[str, pd.DataFrame]) -> list[Note]:
    """Return a grid for each probe that was made, with what it is."""
    grids: dict[str, tuple[str, Callable[[], Grid]]] = {
        "averaging": (AVERAGING_NOTE, lambda: probed.averaging_grid(frames["averaging"])),
        "smoothing": (SMOOTHING_NOTE, lambda: probed.smoothing_grid(measured["smoothing"], frames["smoothing"])),
        "lengths": (LENGTHS_NOTE, lambda: probed.lengths_grid(frames["lengths"])),
        "heads": (HEADS_NOTE, lambda: probed.heads_grid(measured["heads"], frames["heads"])),
    }
    return [note for probe, (words, grid) in grids.items() if measured[probe] for note in (words, grid())]


def cells(comparison: Comparison) -> Row:
    claim, compared, difference = comparison
    row: Row = {"§": claim.section, "Claim": claim.claim, "Compared": compared, "Expected": claim.expected}
    if difference is None:
        return row | dict.fromkeys(("BLEU", "Difference", "95 %", "p", "Seeds"), Cell("")) | {"Here": NOT_RUN}
    texts = {
        "BLEU": f"{difference.bleu:.1f}",
        "Difference": difference_text(difference.value, 1),
        "95 %": f"{difference_text(difference.low, 1)} to {difference_text(difference.high, 1)}",
        "p": f"{difference.p:.3f}",
        "Seeds": str(difference.seeds),
        "Here": verdict(claim.expected, difference),
    }
    return row | {heading: Cell(text, difference.runs) for heading, text in texts.items()}
