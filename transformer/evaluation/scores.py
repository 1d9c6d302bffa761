"""Score files: the run behind a score, and the rows of tables and figures. And the significance of differences.

Test sentences are resampled (Koehn 2004): drawn with replacement, alike for all systems on one test set, so that scores
can be averaged or compared draw by draw. Seeds are too few to be resampled: their noise comes from Student's t.

Torch and pandas are imported when they are needed: they take seconds.
"""

import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict

from transformer.config.experiment import Decoding, load, verified_run
from transformer.layout import Run
from transformer.storage.checksums import read_trained
from transformer.storage.files import InputError, sha256
from transformer.storage.records import RunRecord, averaged_steps, read_translated, read_weights, run_name, variants

if TYPE_CHECKING:
    import pandas as pd

RUN = (  # the columns of a run in a frame
    *("task", "experiment", "seed", "scale", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"),
    *("commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"),
)
_OF_SCORE = "language", "hyp_sha256", "ref_sha256", "draws"
# bleu: the variant that `paper` names; processes: of the last start.
SCORE = (*_OF_SCORE, "bleu", "sacrebleu", "processes", "planned_steps", "file", "name", "paper", "variants")
SEED = 12345
RESAMPLES = 1000
TRAININGS = 50  # draws of seed noise with each draw of sentences: with one, p near 0.05 would be luck


def describe(folder: Path | None, weights: Path | None) -> RunRecord | None:
    """Return run.json with the weights (average.safetensors if None) and the decoding; None without a folder.

    Weights that are an int8 copy have no checksum. Raises InputError if files are missing, or another training's.
    """
    if folder is None:
        return None
    run = Run(folder)
    weights = weights or run.average
    if run.experiment.exists():
        verified_run(run, run.vocabulary, weights)
    record = {key: value for key, value in read_trained(run.record).items() if key not in ("files", "sha256")}
    return record | {
        "averaged_steps": averaged_steps(weights, record["digest"]),
        "weights_sha256": None if read_weights(weights)[1].get("rounded") else sha256(weights),
        "decoding": asdict(load(run.decoding, Decoding)),
    }


def read_scores(paths: list[str]) -> "pd.DataFrame":
    """Read a row per score file, with the columns `RUN` and `SCORE`, and every metric's score by its name.

    Raises InputError if a file is not a whole score of a run, or if files do not belong in one table.
    """
    import pandas as pd

    runs = pd.DataFrame(map(_read_score, paths), columns=None if paths else [*RUN, *SCORE])
    check_runs(runs)
    require_one(runs, "ref_sha256", by="task")
    return runs


def check_runs(runs: "pd.DataFrame") -> None:
    """Raise InputError if a run is scored twice, or not all are of one scale and fidelity."""
    for name, same in runs.groupby("name"):
        if len(same) > 1:
            raise InputError(f"{name}: expected one score of a run, found {', '.join(same['file'])}")
    require_one(runs, "scale", "fidelity")


def require_one(runs: "pd.DataFrame", *keys: str, by: str | list[str] | None = None) -> None:
    """Raise InputError if runs, all or those that are equal in `by`, differ in a key; name a file of each kind."""
    for _, same in runs.groupby(by) if by else [(None, runs)]:
        for key in keys:
            kinds = same.drop_duplicates(key)
            if len(kinds) > 1:
                found = " and ".join(f"{kind} in {file}" for kind, file in zip(kinds[key], kinds["file"], strict=True))
                raise InputError(f"expected scores of one {key}, found {found}")


def _read_score(path: str) -> dict[str, Any]:
    score = read_translated(path)
    paper, by_metric = score["scores"]["paper"], variants(score["scores"])
    if "sacrebleu" not in by_metric:
        raise InputError(f"{path}, scores: missing key 'sacrebleu'")
    row = {key: score["run"][key] for key in RUN} | {key: score[key] for key in _OF_SCORE}
    row |= {name: metric["score"] for name, metric in by_metric.items()} | {"bleu": by_metric[paper]["score"]}
    row |= {"planned_steps": score["run"].get("planned_steps", row["steps"])}
    row |= {"processes": score["run"]["starts"][-1]["processes"]}
    return row | {"file": path, "name": run_name(score["run"]), "paper": paper, "variants": by_metric}


def p_value(difference: float, differences: np.ndarray) -> float:
    """Return the two-sided p of a difference: the share of draws that stray from their mean by no less; 1 for 0."""
    strays = np.abs(differences - differences.mean())
    return (1 + int(np.sum(strays >= abs(difference)))) / (1 + len(differences))


def with_training(
    differences: np.ndarray, seeds: tuple[int, ...], systems: Collection[tuple[Sequence[float], np.ndarray]]
) -> np.ndarray | None:
    """Add seed noise to the difference between two trained systems on draws of sentences.

    differences: between their means over seeds, on resampled sentences. seeds: the numbers n and m of their seeds.
    systems: of the two, and of others that are trained alike, each seed's score, and its draws [seeds, RESAMPLES]. None
    if no system has two seeds. For two ways to use the same trainings, `seeds` is their number, and `systems` holds the
    difference in each.

    To each difference, TRAININGS times, s · sqrt(1/n + 1/m) · t is added with both signs (antithetic draws). s is the
    deviation between seeds, pooled over all systems: the sum of squares within each over the sum of degrees of freedom.
    t is Student's with as many degrees of freedom. Without the draws of sentences that is the two-sample t-test.

    Seeds differ on these sentences by their luck with them, too, which s already holds: the draws of sentences are
    narrowed by as much variance as the seeds' draws have about their mean. Without that it would count twice.

    A bootstrap of three seeds would find too little spread, and so too many differences (Colas et al. 2018, arXiv
    1806.08295, compare both).
    """
    freedom = sum(len(scores) - 1 for scores, _ in systems)
    if not freedom:
        return None
    parts = sum(1 / count for count in seeds) / freedom
    between = parts * sum(float(np.var(scores)) * len(scores) for scores, _ in systems)
    lucks = (draws - draws.mean(axis=1, keepdims=True) for _, draws in systems)
    luck = parts * sum(float(np.var(own, axis=0).mean()) * len(own) for own in lucks)
    mean, variance = differences.mean(), differences.var()
    narrowed = mean + (differences - mean) * math.sqrt(max(0.0, 1 - luck / variance) if variance else 0.0)
    t = np.random.default_rng(SEED).standard_t(freedom, (TRAININGS // 2, len(differences)))
    # The same mean, which t with one or two has not.
    return (narrowed + math.sqrt(between) * np.concatenate([t, -t])).ravel()


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p for the number of tests by Holm's step-down (1979); NaN is no test and stays.

    Of m numbers in ascending order, the first is multiplied by m, the next by m - 1 and so on; none is less than the
    one before it, nor more than 1.
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)  # NaN last
    factors = np.maximum(np.sum(~np.isnan(values)) - np.arange(len(values)), 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1)
    return adjusted


def limits(draws: np.ndarray | list[float]) -> tuple[float, float]:
    """Return the two values that 95 % of the draws lie between."""
    return tuple(np.percentile(draws, [2.5, 97.5]).tolist())


def bleu_draws(hypotheses: list[str], references: list[str]) -> list[float]:
    """Return BLEU on each resampled test set, of sentences as tokens (`bleu.paper_tokens`, `bleu.paper_reference`)."""
    from sacrebleu.metrics import BLEU  # half a second, for translations alone

    counter = BLEU(tokenize="none", effective_order=True, force=True)  # of n-grams; effective_order quiets a warning
    pairs = zip(hypotheses, references, strict=True)
    scores = [counter.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    statistics = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])

    def bleu(sums: list[int]) -> float:
        return BLEU.compute_bleu(sums[:4], sums[4:8], *sums[8:], smooth_method="none").score

    return draws(statistics, bleu)


def f1_draws(counts: list[tuple[int, int, int]]) -> list[float]:
    """Return F1 in per cent on each resampled test set, from each sentence's brackets: matched, in gold, in test."""
    return draws(np.array(counts), lambda sums: 200 * sums[0] / (sums[1] + sums[2]) if sums[1] + sums[2] else 0.0)


def draws(statistics: np.ndarray, score: Callable[[list[int]], float]) -> list[float]:
    """Return `score` of the summed rows of `statistics` [sentences, numbers] for RESAMPLES draws of as many rows."""
    generator = np.random.default_rng(SEED)
    chosen = (generator.integers(len(statistics), size=len(statistics)) for _ in range(RESAMPLES))
    return [round(score(statistics[rows].sum(axis=0).tolist()), 3) for rows in chosen]
