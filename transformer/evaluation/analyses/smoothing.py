"""Label smoothing (§5.4): does it improve BLEU and worsen perplexity?"""

from typing import TYPE_CHECKING, Any, TypedDict

from transformer.evaluation import analysis
from transformer.storage.records import Amount, Draws, Positive, Share

if TYPE_CHECKING:
    import numpy as np

_BINS = 10  # number of confidence bins of equal width


class _Calibration(TypedDict):  # files also have "bins"
    error: Share
    confidence: Share
    accuracy: Share


class _Beam(analysis.Bleu):
    beam: Positive


def _calibration(confidence: "np.ndarray", correct: "np.ndarray") -> dict[str, Any]:
    """Return the expected calibration error of the most probable token (Guo et al. 2017, equation 3).

    confidence: [tokens] its probability. correct: [tokens] 1 if it is the true token, else 0. "error" is the mean over
    tokens of |accuracy - confidence| in the token's bin. "bins" cover confidence in (0, 0.1], (0.1, 0.2] and so on.
    """
    import numpy as np

    bin_of_token = np.clip(np.ceil(confidence * _BINS) - 1, 0, _BINS - 1)
    bins = []
    for number in range(_BINS):
        members = bin_of_token == number
        means = [float(column[members].mean()) if members.any() else None for column in (confidence, correct)]
        bins.append({"tokens": int(members.sum()), "confidence": means[0], "accuracy": means[1]})
    gaps = [bin["tokens"] * abs(bin["accuracy"] - bin["confidence"]) for bin in bins if bin["tokens"]]
    means = {"confidence": float(confidence.mean()), "accuracy": float(correct.mean())}
    return {"error": sum(gaps) / len(confidence)} | means | {"bins": bins}


class Smoothing(analysis.Analysis):
    class Settings(analysis.RunSettings):
        beams: analysis.Beams

    class Result(analysis.OfRun):
        epsilon_ls: Share
        perplexity: Amount
        perplexity_draws: Draws
        beams: list[_Beam]
        calibration: _Calibration

    experiments = ("base", "smoothing-0.0", "smoothing-0.2")
    rows = ("smoothing", "perplexity")
    note = (
        "Label smoothing (§5.4). Calibration error: the mean distance between confidence in the most probable token "
        "and its accuracy, in ten bins of confidence (Guo et al. 2017), under teacher forcing. Sure − right: mean "
        "confidence minus accuracy; a positive number means overconfidence. Words: words in the translation per word "
        "of the reference."
    )

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure perplexity, calibration, and BLEU with each beam size. Other search settings are the run's."""
        import numpy as np

        from transformer.evaluation.significance import draws
        from transformer.training.loss import perplexity

        predictions, offsets = run.predict(), run.text.target.offsets
        of_sentences = np.stack([np.add.reduceat(predictions.losses, offsets[:-1]), np.diff(offsets)], axis=1)
        return {
            "epsilon_ls": run.translator.experiment.training.epsilon_ls,
            "perplexity": predictions.perplexity,
            "perplexity_draws": draws(of_sentences, lambda sums: perplexity(sums[0] / sums[1])),
            "beams": [{"beam": beam} | run.score(beam_size=beam) for beam in settings.beams],
            "calibration": _calibration(predictions.confidence, predictions.correct),
        }

    def compare(self, row: str, files: analysis.DataFrame) -> list[analysis.Pair]:
        words, other = "`base` − `smoothing-0.0`", "smoothing-0.0"
        if row == "perplexity":
            of_runs = files.rename(columns={"perplexity_draws": "draws", "perplexity": "bleu"})
            return [analysis.base_and(other, of_runs, f"perplexity, {words}")]
        by_beam = analysis.entries(files, "beams").groupby("beam")
        return [analysis.base_and(other, same, f"{words}, beam {beam}") for beam, same in by_beam]

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        confidence, accuracy, error = (
            100 * files["calibration"].map(lambda found, key=key: found[key])
            for key in ("confidence", "accuracy", "error")
        )
        runs, beams, rows = files.assign(error=error, over=confidence - accuracy), analysis.entries(files, "beams"), []
        for epsilon, same in runs.groupby("epsilon_ls"):
            row = {
                "ε": f"{epsilon:g}",
                "Perplexity": analysis.Mean(same, "perplexity", 2),
                "Calibration error, %": analysis.Mean(same, "error", 1),
                "Sure − right, %": analysis.Mean(same, "over", 1),
            }
            for beam, at_beam in beams[beams["name"].isin(same["name"])].groupby("beam"):
                row[f"BLEU, beam {beam}"] = analysis.Mean(at_beam, "bleu", 2)
                row[f"Words, beam {beam}"] = analysis.Mean(at_beam, "length_ratio", 3)
            rows.append(row)
        return rows
