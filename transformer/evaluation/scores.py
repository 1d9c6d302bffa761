"""Score files with their runs, and the rows of tables and figures. pandas is imported late because it is slow."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from transformer.config.experiment import Decoding, load, verified_run
from transformer.layout import Run
from transformer.storage import provenance
from transformer.storage.checksums import read_trained
from transformer.storage.files import InputError, sha256
from transformer.storage.records import RunRecord, averaged_steps, read_translated, run_name, variants

if TYPE_CHECKING:
    import pandas as pd

RUN = (  # the columns of a run in a frame
    *("task", "experiment", "seed", "scale", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"),
    *("commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"),
)
_OF_SCORE = "language", "hyp_sha256", "ref_sha256", "draws"
# bleu: the variant in `paper`. processes: their number at the last start. other_code: the scoring commit, if its
# model code differs from the training's.
_SCORE = (
    *(*_OF_SCORE, "bleu", "sacrebleu", "processes", "planned_steps", "file", "name", "paper", "variants"),
    "other_code",
)


def describe(folder: Path | None, weights: Path | None) -> RunRecord | None:
    """Return run.json with the weights (average.safetensors if None) and the decoding, or None without a folder.

    Raises InputError if files are missing or belong to another training.
    """
    if folder is None:
        if weights:
            raise InputError("--weights: goes with --run")
        return None
    run = Run(folder)
    weights = weights or run.average
    if run.experiment.exists():
        verified_run(run, run.vocabulary, weights)
    record = {key: value for key, value in read_trained(run.record).items() if key != "files"}
    return record | {
        "averaged_steps": averaged_steps(weights, record["digest"]),
        "weights_sha256": sha256(weights),
        "decoding": to_builtins(load(run.decoding, Decoding)),
        "scored_with": {"commit": provenance.commit(), "model_code": provenance.model_code()},
    }


def read_scores(paths: list[str]) -> "pd.DataFrame":
    """Read score files into rows with the columns `RUN` and `SCORE`, and a column for each metric.

    Raises InputError if a file is not the complete score of a run, or if files do not belong in one table.
    """
    import pandas as pd

    runs = pd.DataFrame(map(_read_score, paths), columns=None if paths else [*RUN, *_SCORE])
    check_runs(runs)
    require_one(runs, "ref_sha256", by="task")
    return runs


def check_runs(runs: "pd.DataFrame") -> None:
    """Raise InputError if a run is scored twice, or if runs differ in scale or fidelity."""
    for name, same in runs.groupby("name"):
        if len(same) > 1:
            raise InputError(f"{name}: expected one score of a run, found {', '.join(same['file'])}")
    require_one(runs, "scale", "fidelity")


def require_one(runs: "pd.DataFrame", *keys: str, by: str | list[str] | None = None) -> None:
    """Raise InputError if runs with equal `by` differ in a key. The error has one file for each value."""
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
    trained, scored = score["run"]["starts"][-1].get("model_code"), score["run"].get("scored_with", {})
    row |= {"other_code": scored["commit"] if trained and trained != scored.get("model_code", trained) else None}
    row |= {"processes": score["run"]["starts"][-1]["processes"]}
    return row | {"file": path, "name": run_name(score["run"]), "paper": paper, "variants": by_metric}
