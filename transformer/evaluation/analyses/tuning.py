"""Search (§6.1): beam size and length penalty, which the paper chose on the dev set."""

from itertools import product
from typing import Annotated, Any

from msgspec import Meta

from transformer.config.experiment import described
from transformer.evaluation import analysis
from transformer.storage.records import Amount, Positive

_Alphas = Annotated[list[Annotated[float, Meta(ge=0, le=100)]], Meta(min_length=1)]


class _Search(analysis.Bleu):
    beam: Positive
    alpha: Amount


class Tuning(analysis.Analysis):
    class Settings(analysis.RunSettings):
        beams: analysis.Beams
        alphas: Annotated[_Alphas, described("Length penalties, combined with each beam size (§6.1).")]

    class Result(analysis.OfRun):
        searches: list[_Search]

    experiments = ("base",)
    words = ("Beam",)
    note = "Search (§6.1): the beam and the α of the length penalty, which the paper chose on the dev set."

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure BLEU with each beam size and each alpha."""
        searches = product(settings.beams, settings.alphas)
        scored = ((beam, alpha, run.score(beam_size=beam, length_penalty=alpha)) for beam, alpha in searches)
        return {"searches": [{"beam": beam, "alpha": alpha} | score for beam, alpha, score in scored]}

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        rows = []
        for beam, at_beam in analysis.entries(files, "searches").groupby("beam"):
            cells = {f"BLEU, α {alpha:g}": analysis.Mean(same, "bleu", 2) for alpha, same in at_beam.groupby("alpha")}
            rows.append({"Beam": str(beam)} | cells)
        return rows
