"""Search (§6.1): the beam and the length penalty, which the paper chose on the dev set."""

from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from transformer.config.experiment import says
from transformer.evaluation.analysis import Analysis, Beams, BleuAndLength, Mean, OfRun, Rows, RunSettings, entries
from transformer.storage.records import Amount, Positive

if TYPE_CHECKING:
    import pandas as pd

    from transformer.evaluation.evaluated_run import EvaluatedRun

_Alphas = Annotated[list[Annotated[float, Meta(ge=0, le=100)]], Meta(min_length=1)]


class Settings(RunSettings):
    beams: Beams
    alphas: Annotated[_Alphas, says("Length penalties, each tried with each beam (§6.1).")]


class _Search(BleuAndLength):
    beam: Positive
    alpha: Amount


class Tuning(OfRun):
    searches: list[_Search]


def measure(run: "EvaluatedRun", settings: Settings) -> dict[str, Any]:
    """Measure BLEU with each beam and each alpha."""
    searches = [{"beam": beam, "alpha": alpha} for beam, alpha in product(settings.beams, settings.alphas)]
    return {"searches": [search | run.score(**search) for search in searches]}


def _grid(files: "pd.DataFrame") -> Rows:
    rows = []
    for beam, at_beam in entries(files, "searches").groupby("beam"):
        by_alpha = at_beam.groupby("alpha")
        rows.append({"Beam": str(beam)} | {f"BLEU, α {alpha:g}": Mean(same, "bleu", 2) for alpha, same in by_alpha})
    return rows


ANALYSIS = Analysis(
    settings=Settings,
    result=Tuning,
    measure=measure,
    experiments=("base",),
    note="Search (§6.1): the beam and the α of the length penalty, which the paper chose on the dev set.",
    grid=_grid,
    words=("Beam",),
)
