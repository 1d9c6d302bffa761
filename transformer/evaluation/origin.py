"""The origin of a score: the run, its weights and how it decoded, as the score file records them.

Torch is not imported here, as that takes most of the time of a score stage; reading a header needs none.
"""

from pathlib import Path

from msgspec.structs import asdict

from transformer.config.experiment import Decoding, load
from transformer.evaluation.records import Trained
from transformer.files import InputError, sha256
from transformer.model.weights import origin, read_header
from transformer.records import read_json

ADDED = ("averaged_steps", "weights_sha256", "decoding")  # by `describe` to the content of run.json


def describe(run: Path | None, weights: Path | None, untaken: bool = False) -> dict | None:
    """Return run.json with the checksum of the weights (average.safetensors if None), their steps and the decoding.

    Return None if there is no run. Weights that are `untaken`, left where the run was taken from, or of which only a
    rounded copy was taken, have None as their checksum, whatever lies in their place. Raises InputError where weights
    are missing, or another training's.
    """
    if run is None:
        return None
    weights, record = weights or run / "average.safetensors", read_json(run / "run.json", Trained)
    if untaken:  # the steps are those that the experiment averages for weights of this name
        training = load(run / "experiment.yaml").training
        count = training.averaged_checkpoints if weights.name == "average.safetensors" else 1
        steps = [training.steps - left * training.checkpoint_every for left in reversed(range(count))]
    else:
        steps = averaged_steps(weights, record["digest"])
        untaken = read_header(weights).get("rounded", False)
    return record | {
        "averaged_steps": steps,
        "weights_sha256": None if untaken else sha256(weights),
        "decoding": asdict(load(run / "decoding.yaml", Decoding)),
    }


def averaged_steps(weights: Path, digest: str) -> list[int]:
    """Return the steps of an average, or the one step of a checkpoint, of the training that `digest` names."""
    found, steps = origin(weights, read_header(weights))
    if found != digest:
        raise InputError(f"{weights}: expected weights of the training {digest}, found {found}")
    return steps
