"""The origin of a score: the run, its weights and how it decoded, as the score file records them.

Torch is not imported here, as that takes most of the time of a score stage; reading a header needs none.
"""

import json
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError, safe_open

from transformer.common.files import InputError, read_json, readable, sha256
from transformer.config.experiment import Decoding, load

ADDED = ("averaged_steps", "weights_sha256", "decoding")  # by `describe` to the content of run.json


def describe(run: Path | None, weights: Path | None, untaken: bool = False) -> dict | None:
    """Return run.json with the checksum of the weights (average.safetensors if None), their steps and the decoding.

    Return None if there is no run. Weights that are `untaken`, left where the run was taken from, have None as their
    checksum, whatever lies in their place. Raises InputError where weights are missing, or another training's.
    """
    if run is None:
        return None
    weights, record = weights or run / "average.safetensors", read_json(run / "run.json")
    if untaken:  # the steps are those that the experiment averages for weights of this name
        training = load(run / "experiment.yaml").training
        count = training.averaged_checkpoints if weights.name == "average.safetensors" else 1
        steps = [training.steps - left * training.checkpoint_every for left in reversed(range(count))]
    else:
        steps = averaged_steps(weights, record.get("digest"))
    return record | {
        "averaged_steps": steps,
        "weights_sha256": None if untaken else sha256(weights),
        "decoding": asdict(load(run / "decoding.yaml", Decoding)),
    }


def averaged_steps(weights: Path, digest: str | None) -> list[int]:
    """Return the steps of an average, or the one step of a checkpoint, of the training that `digest` names."""
    header = read_header(weights)
    if header.get("digest") != digest:
        raise InputError(f"{weights}: expected weights of the training {digest}, found {header.get('digest')}")
    return header["steps"] if "steps" in header else [header["step"]]


def read_header(weights: Path) -> dict:
    """Return what the header of a file of weights says of them, as model/weights.py wrote it."""
    try:
        with safe_open(readable(weights), framework="np") as file:
            description, _ = json.loads((file.metadata() or {})["about"])
            return description
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{weights}: cannot be read as weights of this project: {error}") from None
