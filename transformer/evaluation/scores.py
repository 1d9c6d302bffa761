"""Score files: the run behind a score, and the rows that tables and figures are made from.

Torch and pandas are imported when they are needed: they take seconds.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from transformer.config.experiment import Decoding, load
from transformer.files import InputError, sha256
from transformer.layout import Run
from transformer.records import RunRecord, Trained, read_json, read_translated, run_name, variants

if TYPE_CHECKING:
    import pandas as pd

RUN = (  # the columns of a run in a frame
    *("task", "experiment", "seed", "scale", "steps", "parameters", "dev_perplexity", "flops", "seconds", "hardware"),
    *("commit", "digest", "data_sha256", "fidelity", "averaged_steps", "decoding"),
)
# And of its translation's score. bleu is the paper's variant, of the name in paper.
SCORE = ("file", "name", "language", "hyp_sha256", "ref_sha256", "draws", "bleu", "sacrebleu", "paper", "variants")


def describe(folder: Path | None, weights: Path | None) -> RunRecord | None:
    """Return run.json with the weights (average.safetensors if None) and the decoding; None without a folder.

    Weights that are an int8 copy have no checksum. Raises InputError if weights are missing, or another training's.
    """
    if folder is None:
        return None
    from transformer.model.weights import read_header

    run = Run(folder)
    weights, record = weights or run.average, read_json(run.record, Trained)
    return record | {
        "averaged_steps": averaged_steps(weights, record["digest"]),
        "weights_sha256": None if read_header(weights).get("rounded") else sha256(weights),
        "decoding": asdict(load(run.decoding, Decoding)),
    }


def averaged_steps(weights: Path, digest: str) -> list[int]:
    """Return the steps of an average, or the one step of a checkpoint, of the training that `digest` names."""
    from transformer.model.weights import origin, read_header

    found, steps = origin(weights, read_header(weights))
    if found != digest:
        raise InputError(f"{weights}: expected weights of the training {digest}, found {found}")
    return steps


def read_scores(paths: list[str]) -> "pd.DataFrame":
    """Return a row per score file, with the columns `RUN` and `SCORE`.

    Raises InputError if a file is not a whole score of a run, or if files do not belong in one table.
    """
    import pandas as pd

    runs = pd.DataFrame([read_score(path) for path in paths], columns=[*RUN, *SCORE])
    check_runs(runs)
    for _, of_task in runs.groupby("task"):
        require_one("ref_sha256", of_task)
    return runs


def check_runs(runs: "pd.DataFrame") -> None:
    """Raise InputError if a run is scored twice, or not all are of one scale and fidelity."""
    for name, same in runs.groupby("name"):
        if len(same) > 1:
            raise InputError(f"{name}: expected one score of a run, found {', '.join(same['file'])}")
    require_one("scale", runs)
    require_one("fidelity", runs)


def require_one(key: str, runs: "pd.DataFrame") -> None:
    """Raise InputError if `runs` differ in `key`, naming a file of each kind."""
    kinds = runs.drop_duplicates(key)
    if len(kinds) > 1:
        values = " and ".join(f"{value} in {file}" for value, file in zip(kinds[key], kinds["file"], strict=True))
        raise InputError(f"expected scores of one {key}, found {values}")


def read_score(path: str) -> dict[str, Any]:
    """Return the row of one score file. Raises InputError naming the file and the key."""
    score = read_translated(path)
    paper, measures = score["scores"]["paper"], variants(score["scores"])
    if "sacrebleu" not in measures:
        raise InputError(f"{path}, scores: missing key 'sacrebleu'")
    row = {key: score["run"][key] for key in RUN}
    row |= {key: score[key] for key in ("language", "hyp_sha256", "ref_sha256", "draws")}
    row |= {"bleu": measures[paper]["score"], "sacrebleu": measures["sacrebleu"]["score"]}
    return row | {"file": path, "name": run_name(score["run"]), "paper": paper, "variants": measures}
