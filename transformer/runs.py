"""What a score says of the run behind it."""

from dataclasses import asdict
from pathlib import Path

from transformer.checkpoints import load_about
from transformer.config import Decoding, load
from transformer.files import read_json, sha256

ADDED = ("averaged_steps", "weights_sha256", "decoding")  # by `describe` to what run.json says


def describe(run: Path | None, weights: Path | None) -> dict | None:
    """The run's run.json, with its weights (average.safetensors if None), how they were averaged and how it decodes.

    None if there is no run.
    """
    if run is None:
        return None
    weights = weights or run / "average.safetensors"
    return read_json(run / "run.json") | {
        "averaged_steps": averaged_steps(weights),
        "weights_sha256": sha256(weights),
        "decoding": asdict(load(run / "decoding.yaml", Decoding)),
    }


def averaged_steps(weights: Path) -> list[int]:
    """The steps of an average, or the one step of a single checkpoint."""
    about = load_about(weights)
    return about["steps"] if "steps" in about else [about["step"]]
