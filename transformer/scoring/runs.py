"""What a score says of the run behind it."""

from dataclasses import asdict
from pathlib import Path

from transformer.common.files import InputError, read_json, sha256
from transformer.config.experiment import Decoding, load
from transformer.model.header import load_header

ADDED = ("averaged_steps", "weights_sha256", "decoding")  # by `describe` to what run.json says


def describe(run: Path | None, weights: Path | None, untaken: bool = False) -> dict | None:
    """The run's run.json, with its weights (average.safetensors if None), how they were averaged and how it decodes.

    None if there is no run. Weights that are `untaken`, left where the run was taken from, have None as their sum,
    whatever lies in their place. Raises InputError where the weights are missing, or another training's.
    """
    if run is None:
        return None
    weights, about = weights or run / "average.safetensors", read_json(run / "run.json")
    return about | {
        "averaged_steps": configured_steps(run, weights) if untaken else averaged_steps(weights, about.get("digest")),
        "weights_sha256": None if untaken else sha256(weights),
        "decoding": asdict(load(run / "decoding.yaml", Decoding)),
    }


def averaged_steps(weights: Path, digest: str | None) -> list[int]:
    """The steps of an average, or the one step of a single checkpoint, of the training that `digest` names."""
    about = load_header(weights)
    if about.get("digest") != digest:
        raise InputError(f"{weights}: expected weights of the training {digest}, found {about.get('digest')}")
    return about["steps"] if "steps" in about else [about["step"]]


def configured_steps(run: Path, weights: Path) -> list[int]:
    """The same as the experiment has it, for weights of that name."""
    training = load(run / "experiment.yaml").training
    many = training.averaged_checkpoints if weights.name == "average.safetensors" else 1
    return [training.steps - left * training.checkpoint_every for left in reversed(range(many))]
